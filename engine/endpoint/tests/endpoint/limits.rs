//! Limits: concurrency, rates, 429 and the headers of the server's own counts.

use crate::scripted_server::{ScriptedServer, ServerStep, chat, chat_body, ms, reply};
use crate::watched_endpoint::{WatchedEndpoint, quick_settings, text_of};
use hopeval_endpoint::{AttemptCause, EndpointCall, EndpointSettings, GenerateCall};
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn run_calls(endpoint: &mut WatchedEndpoint, calls: usize) -> Duration {
    let begun = Instant::now();
    for call in 0..calls {
        endpoint.send(EndpointCall::Generate(GenerateCall::from_user(format!("q{call}"))));
    }
    for _ in 0..calls {
        text_of(&endpoint.next_end().1);
    }
    begun.elapsed()
}

#[test]
fn concurrency_is_a_bound() {
    let server = ScriptedServer::start(|_| {
        let mut steps = vec![ServerStep::Wait(ms(3))];
        steps.extend(chat("x"));
        steps
    });
    let settings = EndpointSettings { concurrency: 7, ..quick_settings(&server.url()) };
    run_calls(&mut WatchedEndpoint::open(&settings), 200);
    assert_eq!(server.most_open(), 7);
}

#[test]
fn connections_are_kept() {
    let server = ScriptedServer::start(|_| chat("x"));
    let settings = EndpointSettings { concurrency: 3, ..quick_settings(&server.url()) };
    run_calls(&mut WatchedEndpoint::open(&settings), 100);
    assert_eq!(server.requests().len(), 100);
    assert!(server.connections() <= 30, "{} connections", server.connections());
}

#[test]
fn requests_a_minute_are_kept() {
    let server = ScriptedServer::start(|_| chat("x"));
    let settings = EndpointSettings { requests_per_minute: Some(6_000.0), ..quick_settings(&server.url()) };
    let took = run_calls(&mut WatchedEndpoint::open(&settings), 150);
    // 50 at once, the rest at 98.5 a second.
    assert!(took >= ms(900) && took < ms(8_000), "{took:?}");
}

#[test]
fn tokens_a_minute_are_reserved_and_corrected() {
    let server = ScriptedServer::start(|_| chat("x"));
    let settings =
        EndpointSettings { tokens_per_minute: Some(60_000.0), concurrency: 1, ..quick_settings(&server.url()) };
    let mut endpoint = WatchedEndpoint::open(&settings);
    let begun = Instant::now();
    for _ in 0..60 {
        // 200 tokens are reserved, and 10 are used: 600 in all.
        let call = GenerateCall { max_tokens: Some(199), ..GenerateCall::from_user("q") };
        text_of(&endpoint.end_of(EndpointCall::Generate(call)));
    }
    let took = begun.elapsed();
    assert!(took < ms(9_000), "{took:?}: by the reservations alone it would be 12 s");
}

#[test]
fn limits_are_waited_out_and_never_counted() {
    // Each call is limited six times; three attempts would be allowed if they counted.
    let seen = Mutex::new(std::collections::HashMap::new());
    let server = ScriptedServer::start(move |request| {
        let mut seen = seen.lock().unwrap();
        let times = seen.entry(request.body.clone()).or_insert(0);
        *times += 1;
        if *times <= 6 { reply(429, "retry-after-ms: 5\r\n", "") } else { chat("at last") }
    });
    let settings = EndpointSettings { attempts: 3, concurrency: 16, ..quick_settings(&server.url()) };
    let mut endpoint = WatchedEndpoint::open(&settings);
    run_calls(&mut endpoint, 30);
    let usage = endpoint.endpoint.usage();
    assert_eq!((usage.count_of(AttemptCause::LimitSeconds), usage.answered), (180, 30));
    assert!(usage.concurrency < 16, "the limits lowered it: {}", usage.concurrency);
}

#[test]
fn headers_of_a_used_up_limit_hold_the_next_call() {
    let server = ScriptedServer::start(|request| match request.number {
        0 => reply(200, "x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 400ms\r\n", &chat_body("x")),
        _ => chat("x"),
    });
    let settings = EndpointSettings { requests_per_minute: Some(60_000.0), ..quick_settings(&server.url()) };
    let mut endpoint = WatchedEndpoint::open(&settings);
    text_of(&endpoint.ask("a"));
    let begun = Instant::now();
    text_of(&endpoint.ask("b"));
    assert!(begun.elapsed() >= ms(300), "{:?}", begun.elapsed());
}
