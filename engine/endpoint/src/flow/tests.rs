//! Tests of the limits, with times as arguments.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

const WISH: AttemptWish = AttemptWish { call: 0, tokens: 10, prefix: 0, avoid: None };

fn state(change: impl FnOnce(&mut EndpointSettings), now: Instant) -> FlowState {
    let mut settings = EndpointSettings::new("m", "http://127.0.0.1:9/v1");
    change(&mut settings);
    FlowState::new(&settings, 1, now)
}

fn begin(state: &mut FlowState, now: Instant) -> AttemptGrant {
    match state.admit(WISH, now) {
        Admission::Now(grant) => grant,
        Admission::NotBefore(time) => panic!("not before {:?}", time - now),
        Admission::AfterAnEnd => panic!("after an end"),
    }
}

fn answer(reset: Duration) -> AttemptEnd<'static> {
    let remaining = [Some(RemainingLimit { remaining: 0, reset }), None];
    AttemptEnd {
        signal: ServerSignal::Alive,
        repeats: false,
        may_be_own: true,
        tokens: 10,
        named: None,
        remaining,
        message: "",
    }
}

/// The pause until the next attempt may begin.
fn pause(state: &mut FlowState, now: Instant) -> Duration {
    match state.admit(WISH, now) {
        Admission::Now(_) => Duration::ZERO,
        Admission::NotBefore(time) => time - now,
        Admission::AfterAnEnd => panic!("after an end"),
    }
}

#[tokio::test(start_paused = true)]
async fn headers_count_from_the_begin_of_their_call() {
    let now = Instant::now();
    for (rate, reset, took, left) in [
        (Some(60_000.0), 2, 1, 1),
        // The answer came after the time that its headers name.
        (Some(60_000.0), 1, 5, 0),
        // A limit that is whole in a minute fills all the time.
        (Some(60_000.0), 60, 1, 1),
        (None, 30, 10, 20),
        (None, 300, 10, 50),
    ] {
        let mut state = state(|settings| settings.requests_per_minute = rate, now);
        let grant = begin(&mut state, now);
        state.settle(grant, &answer(reset * SECOND), now + took * SECOND);
        assert_eq!(pause(&mut state, now + took * SECOND), left * SECOND, "{rate:?}, {reset} s, {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stated_rate_gives_way_to_limits_and_not_the_calls_in_flight() {
    let now = Instant::now();
    let limited = AttemptEnd { signal: ServerSignal::Limited, ..answer(SECOND) };
    let limited = AttemptEnd { remaining: [None, None], ..limited };
    for (rate, in_flight, share) in [(Some(600.0), 64, 0.85), (None, 48, 1.0)] {
        let mut state = state(|settings| settings.requests_per_minute = rate, now);
        let grant = begin(&mut state, now);
        state.settle(grant, &limited, now);
        assert_eq!(state.concurrency.current(), in_flight);
        let found = state.requests.as_ref().map_or(1.0, RateLimit::share);
        assert!((found - share).abs() < 1e-9, "{found}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_do_not_end_the_patience_while_an_older_call_is_computed() {
    let now = Instant::now();
    let limited = AttemptEnd { signal: ServerSignal::Limited, remaining: [None, None], ..answer(SECOND) };
    for drops in [true, false] {
        let mut settings = EndpointSettings::new("m", "http://127.0.0.1:9/v1");
        settings.patience_s = 60.0;
        let gate = FlowGate::new(&settings, 1);
        let older = gate.admit(WISH).await.unwrap();
        gate.admit(WISH).await.unwrap().settle(&limited);
        let later = now + 61 * SECOND;
        let look = gate.grant_all(later);
        assert!(look.fault.is_none() && look.next.is_none(), "its answer would be paid for again");
        match drops {
            true => drop(older),
            false => drop(older.settle(&AttemptEnd { signal: ServerSignal::Faulty, ..limited.clone() })),
        }
        assert!(gate.grant_all(later).fault.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn answers_of_a_server_that_goes_down_give_no_call_up() {
    let mut settings = EndpointSettings::new("m", "http://127.0.0.1:9/v1");
    settings.patience_s = 10.0;
    let answered = AttemptEnd { remaining: [None, None], ..answer(SECOND) };
    let failed = AttemptEnd { signal: ServerSignal::Faulty, ..answered.clone() };
    // Six calls fail; an older one or a later one is answered, and none any more.
    for (may_be_own, begins_after, given_up) in [(false, false, false), (false, true, true), (true, false, true)] {
        let failed = AttemptEnd { may_be_own, ..failed.clone() };
        let gate = FlowGate::new(&settings, 1);
        let admit = async |call| gate.admit(AttemptWish { call, ..WISH }).await.unwrap();
        let older = admit(6).await;
        for permit in [admit(0).await, admit(1).await, admit(2).await, admit(3).await, admit(4).await, admit(5).await] {
            assert!(!permit.settle(&failed).saw_answers);
        }
        older.settle(&answered);
        if begins_after {
            admit(7).await.settle(&answered);
        }
        for _ in 0..5 {
            assert_eq!(admit(0).await.settle(&failed).saw_answers, given_up);
        }
        tokio::time::advance(11 * SECOND).await;
        assert!(gate.grant_all(Instant::now()).fault.is_some());
        assert_eq!(gate.give_up(ServerSign::Working), given_up, "{may_be_own}, {begins_after}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_given_up_wait_no_more() {
    let mut settings = EndpointSettings::new("m", "http://127.0.0.1:9/v1");
    settings.patience_s = 10.0;
    let gate = FlowGate::new(&settings, 1);
    let failed = AttemptEnd { signal: ServerSignal::Faulty, remaining: [None, None], ..answer(SECOND) };
    for _ in 0..5 {
        assert!(!gate.admit(WISH).await.unwrap().settle(&failed).saw_answers);
    }
    let other = AttemptWish { call: 1, ..WISH };
    let [failing, untried] = [WISH, other].map(|wish| {
        let gate = gate.clone();
        tokio::spawn(async move { gate.admit(wish).await.is_some() })
    });
    tokio::task::yield_now().await;
    assert_eq!((gate.load().1, gate.may_give_up(ServerSign::Working)), (2, false), "the patience has not ended");
    tokio::time::advance(11 * SECOND).await;
    assert!(gate.grant_all(Instant::now()).fault.is_some() && gate.may_give_up(ServerSign::Working));
    assert!(!gate.give_up(ServerSign::Present), "nobody was answered");
    assert!(gate.give_up(ServerSign::Working) && gate.is_given_up(0) && !gate.is_given_up(1));
    assert!(!failing.await.unwrap() && gate.admit(WISH).await.is_none());
    let look = gate.grant_all(Instant::now());
    assert_eq!((look.fault, look.granted.len()), (None, 1), "the patience begins anew, and the next call is tried");
    look.granted.into_iter().for_each(|(sender, permit)| drop(sender.send(permit)));
    assert!(untried.await.unwrap());
}
