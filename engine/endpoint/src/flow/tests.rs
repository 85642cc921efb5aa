//! Tests of the limits, with times as arguments.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn state(change: impl FnOnce(&mut EndpointSettings), now: Instant) -> FlowState {
    let mut settings = EndpointSettings::new("m", "http://127.0.0.1:9/v1");
    change(&mut settings);
    FlowState::new(&settings, 1, now)
}

fn begin(state: &mut FlowState, now: Instant) -> AttemptGrant {
    match state.admit(AttemptWish { tokens: 10, prefix: 0, avoid: None }, now) {
        Admission::Now(grant) => grant,
        Admission::NotBefore(time) => panic!("not before {:?}", time - now),
        Admission::AfterAnEnd => panic!("after an end"),
    }
}

fn answer(reset: Duration) -> AttemptEnd<'static> {
    let remaining = [Some(RemainingLimit { remaining: 0, reset }), None];
    AttemptEnd { signal: ServerSignal::Alive, tokens: 10, named: None, remaining, message: "" }
}

/// The pause until the next attempt may begin.
fn pause(state: &mut FlowState, now: Instant) -> Duration {
    match state.admit(AttemptWish { tokens: 10, prefix: 0, avoid: None }, now) {
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
        let wish = AttemptWish { tokens: 10, prefix: 0, avoid: None };
        let older = gate.admit(wish).await.unwrap();
        gate.admit(wish).await.unwrap().settle(&limited);
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
