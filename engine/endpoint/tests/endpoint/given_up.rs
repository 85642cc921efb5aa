//! Calls that fail alone are given up when the patience ends, if the server is seen to work; else the endpoint is down.

use crate::scripted_server::{ScriptedServer, ServerStep, chat, ms, reply};
use crate::watched_endpoint::{WatchedEndpoint, failure_of, quick_settings, text_of};
use hopeval_endpoint::{
    AttemptBill, AttemptGuard, CallEnd, EndpointCall, EndpointFault, EndpointHost, EndpointSettings, FailureKind,
    GenerateCall, PermitReceiver, SpendingPermit, SpentAmounts,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_millis(300);

/// A reply that lists models.
fn models() -> Vec<ServerStep> {
    reply(200, "", r#"{"object":"list","data":[{"id":"m"}]}"#)
}

/// A server with one reply to requests for its models, one to calls that name poison, and an answer to all others.
fn poisoned(models: Vec<ServerStep>, poison: Vec<ServerStep>) -> ScriptedServer {
    ScriptedServer::start(move |request| match request.head.starts_with("get /v1/models ") {
        true => models.clone(),
        false if request.body.contains("poison") => poison.clone(),
        false => chat("fine"),
    })
}

/// Settings whose attempts are not used up before the patience. No reply is taken for a stall on a busy machine.
fn patient_settings(server: &ScriptedServer) -> EndpointSettings {
    let (patience_s, stall_s) = (PATIENCE.as_secs_f64(), Some(20.0));
    EndpointSettings { patience_s, stall_s, attempts: 1_000, ..quick_settings(&server.url()) }
}

fn send(endpoint: &mut WatchedEndpoint, text: &str) -> usize {
    endpoint.send(EndpointCall::Generate(GenerateCall::from_user(text)))
}

/// How often a server was asked for its models, and for an answer.
fn asked(server: &ScriptedServer) -> (usize, usize) {
    let (looks, calls): (Vec<_>, Vec<_>) =
        server.requests().into_iter().partition(|request| request.head.starts_with("get "));
    (looks.len(), calls.len())
}

fn assert_given_up(end: &CallEnd, kind: FailureKind) {
    let failure = failure_of(end);
    assert_eq!(failure.kind, kind, "{end:?}");
    let said = format!("(after {} attempts, while the server works)", end.attempts);
    assert!(end.attempts >= 5 && failure.message.ends_with(&said), "{end:?}");
    assert!(end.guard.is_some(), "the failure is recorded as an answer is");
}

fn assert_down(endpoint: &WatchedEndpoint, says: &str) {
    let fault = endpoint.fault();
    assert!(matches!(&fault, EndpointFault::Down { last, .. } if last.contains(says)), "{fault}");
    endpoint.assert_quiet();
}

#[test]
fn a_call_that_always_fails_fails_and_the_others_are_answered() {
    for (kind, poison) in [
        (FailureKind::Unavailable, reply(500, "", "boom")),
        (FailureKind::Unavailable, reply(504, "", "")),
        (FailureKind::Unavailable, vec![ServerStep::Reset]),
        (FailureKind::Unavailable, vec![ServerStep::Close]),
        (FailureKind::TimedOut, vec![ServerStep::Wait(ms(60_000))]),
        (FailureKind::Malformed, reply(200, "", "<html>")),
    ] {
        let server = poisoned(models(), poison);
        let stall_s = Some(if kind == FailureKind::TimedOut { 0.5 } else { 20.0 });
        let mut endpoint = WatchedEndpoint::open(&EndpointSettings { stall_s, ..patient_settings(&server) });
        assert_eq!(text_of(&endpoint.ask("good")), "fine");
        let begun = Instant::now();
        // No other call is open: nobody is answered meanwhile.
        assert_given_up(&endpoint.ask("poison"), kind);
        assert!(begun.elapsed() >= PATIENCE);
        assert_eq!(asked(&server).0, 1);
        assert_eq!(text_of(&endpoint.ask("good again")), "fine", "the endpoint goes on");
        endpoint.assert_quiet();
        let usage = endpoint.endpoint.usage();
        assert_eq!((usage.answered, usage.failed.values().sum::<u64>(), usage.waiting), (2, 1, 0));
    }
}

#[test]
fn the_only_call_fails_if_the_server_lists_its_models_and_its_attempts_are_billed() {
    for (poison, bill) in
        [(reply(500, "", "boom"), AttemptBill::Nothing), (vec![ServerStep::Reset], AttemptBill::Unanswered)]
    {
        let server = poisoned(models(), poison);
        let bills = Arc::new(Mutex::new(Vec::new()));
        let kept = bills.clone();
        let reserve = move |_: SpentAmounts, receiver: PermitReceiver| {
            let kept = kept.clone();
            receiver(SpendingPermit::new(move |bill| kept.lock().unwrap().push(bill)));
        };
        let change = |host| EndpointHost { reserve: Arc::new(reserve), ..host };
        let mut endpoint = WatchedEndpoint::open_with(&patient_settings(&server), None, change);
        let end = endpoint.ask("poison");
        assert_given_up(&end, FailureKind::Unavailable);
        let calls = end.attempts as usize;
        assert_eq!(asked(&server), (1, calls), "to ask for models is no attempt");
        assert_eq!(*bills.lock().unwrap(), vec![bill; calls]);
    }
}

#[test]
fn the_only_call_waits_if_nothing_shows_that_the_server_works() {
    for models in [
        reply(404, "", ""),
        reply(401, "", ""),
        reply(500, "", "boom"),
        reply(200, "", "<html>Sign in</html>"),
        vec![ServerStep::Reset],
    ] {
        let server = poisoned(models, reply(500, "", "boom"));
        let mut endpoint = WatchedEndpoint::open(&patient_settings(&server));
        send(&mut endpoint, "poison");
        assert_down(&endpoint, "boom");
        assert_eq!(asked(&server).0, 1);
    }
}

#[test]
fn answers_of_others_count_where_no_models_are_listed() {
    for (models, is_there) in [(reply(404, "", ""), true), (reply(502, "", ""), false)] {
        let server = poisoned(models, reply(503, "", "no"));
        let settings = EndpointSettings { patience_s: 1.0, ..patient_settings(&server) };
        let mut endpoint = WatchedEndpoint::open(&settings);
        let poison = send(&mut endpoint, "poison");
        // With a second attempt the first one's fault is known.
        while asked(&server).1 < 2 {
            std::thread::yield_now();
        }
        assert_eq!(text_of(&endpoint.ask("good")), "fine");
        match is_there {
            true => {
                let (number, end) = endpoint.next_end();
                assert_eq!(number, poison);
                assert_given_up(&end, FailureKind::Unavailable);
            }
            // It has gone since.
            false => assert_down(&endpoint, "HTTP 503"),
        }
    }
}

#[test]
fn many_failing_calls_are_an_outage_whatever_the_server_lists() {
    let server = poisoned(models(), reply(500, "", "boom"));
    let mut endpoint = WatchedEndpoint::open(&patient_settings(&server));
    for call in 0..8 {
        send(&mut endpoint, &format!("poison {call}"));
    }
    assert_down(&endpoint, "boom");
    assert_eq!(asked(&server).0, 0, "no sign would change it");
}

#[test]
fn calls_one_after_the_other_are_an_outage_when_there_are_many() {
    let server = poisoned(models(), reply(500, "", "boom"));
    let mut endpoint = WatchedEndpoint::open(&patient_settings(&server));
    for call in 0..4 {
        assert_given_up(&endpoint.ask(&format!("poison {call}")), FailureKind::Unavailable);
    }
    send(&mut endpoint, "poison 4");
    assert_down(&endpoint, "boom");
}

#[test]
fn faults_that_come_from_no_request_are_an_outage() {
    for (poison, says) in [
        (reply(503, "", ""), "HTTP 503"),
        (reply(529, "", ""), "HTTP 529"),
        (reply(404, "", ""), "HTTP 404"),
        (reply(429, "", ""), "HTTP 429"),
    ] {
        let server = poisoned(models(), poison);
        // A 404 of a model that has answered before is an outage.
        let change = |host| EndpointHost { model_known: Arc::new(|| true), ..host };
        let mut endpoint = WatchedEndpoint::open_with(&patient_settings(&server), None, change);
        send(&mut endpoint, "poison");
        assert_down(&endpoint, says);
        assert_eq!(asked(&server).0, 0, "{says}: no sign would change it");
    }
}

#[test]
fn a_run_that_drains_gives_no_call_up() {
    let server = poisoned(models(), reply(500, "", "boom"));
    let begun = Arc::new(AtomicUsize::new(0));
    let begin = move || (begun.fetch_add(1, Ordering::SeqCst) < 6).then(|| Box::new(()) as AttemptGuard);
    let change = |host| EndpointHost { begin_attempt: Arc::new(begin), ..host };
    let mut endpoint = WatchedEndpoint::open_with(&patient_settings(&server), None, change);
    send(&mut endpoint, "poison");
    assert_down(&endpoint, "boom");
    assert_eq!(asked(&server), (0, 6));
}
