//! Outages: nothing is lost, one call at a time probes, patience ends.

use crate::scripted_server::{ScriptedServer, ServerStep, chat, ms, reply};
use crate::watched_endpoint::{WatchedEndpoint, quick_settings, text_of};
use hopeval_endpoint::{AttemptCause, EndpointCall, EndpointFault, EndpointSettings, GenerateCall};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A port where nothing listens.
fn free_port() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

fn ask_many(endpoint: &mut WatchedEndpoint, calls: usize) {
    for call in 0..calls {
        endpoint.send(EndpointCall::Generate(GenerateCall::from_user(format!("q{call}"))));
    }
}

#[test]
fn a_dead_server_loses_no_call() {
    let address = free_port();
    let mut endpoint = WatchedEndpoint::open(&quick_settings(&format!("http://{address}/v1")));
    ask_many(&mut endpoint, 50);
    std::thread::sleep(ms(300));
    let server = ScriptedServer::start_at(address, |_| chat("back"));
    for _ in 0..50 {
        assert_eq!(text_of(&endpoint.next_end().1), "back");
    }
    let usage = endpoint.endpoint.usage();
    assert_eq!((usage.answered, usage.failed.len(), server.requests().len()), (50, 0, 50));
    assert!(usage.count_of(AttemptCause::ConnectionRefused) >= 5);
}

#[test]
fn a_suspect_endpoint_is_probed_by_one_call_at_a_time() {
    let works = Arc::new(AtomicBool::new(false));
    let now_works = works.clone();
    let server = ScriptedServer::start(move |request| {
        if now_works.load(Ordering::SeqCst) {
            return chat("up");
        }
        let mut steps = vec![ServerStep::Wait(ms(if request.number < 8 { 1 } else { 5 }))];
        steps.extend(reply(503, "", ""));
        steps
    });
    let settings = EndpointSettings { concurrency: 8, ..quick_settings(&server.url()) };
    let mut endpoint = WatchedEndpoint::open(&settings);
    ask_many(&mut endpoint, 40);
    std::thread::sleep(ms(400));
    let tried = server.requests().len();
    // Eight at once at the beginning; then one at a time, each after a pause.
    assert!(tried <= 8 + 400 / 5, "{tried} requests");
    works.store(true, Ordering::SeqCst);
    for _ in 0..40 {
        assert_eq!(text_of(&endpoint.next_end().1), "up");
    }
    assert!(server.most_open() <= 8);
}

#[test]
fn patience_ends_with_a_fault() {
    for (steps, last) in [
        (None, "connect"),
        (Some(reply(500, "", "broken")), "HTTP 500: broken"),
        (Some(reply(200, "", "<html>Sign in</html>")), "Sign in"),
        (Some(vec![ServerStep::Wait(ms(5_000))]), "no byte for"),
        (Some(reply(429, "", "")), "HTTP 429"),
    ] {
        let server = steps.map(|steps| ScriptedServer::start(move |_| steps.clone()));
        let url = server.as_ref().map_or_else(|| format!("http://{}/v1", free_port()), ScriptedServer::url);
        let settings = EndpointSettings { patience_s: 0.6, stall_s: Some(0.05), ..quick_settings(&url) };
        let begun = Instant::now();
        let mut endpoint = WatchedEndpoint::open(&settings);
        ask_many(&mut endpoint, 20);
        let fault = endpoint.fault();
        let took = begun.elapsed();
        assert!(took >= ms(600) && took < Duration::from_secs(5), "{took:?}");
        let EndpointFault::Down { last: told, .. } = &fault else { panic!("{fault}") };
        assert!(fault.may_pass() && told.contains(last), "{told}");
        endpoint.assert_quiet();
        assert_eq!(endpoint.endpoint.usage().answered, 0);
    }
}

/// A server that answers HTTP/2 in HTTP/1.1: nothing can have been paid, and the fault says why.
#[test]
fn a_server_without_http2_is_unreachable_where_it_is_asked_for() {
    let server = ScriptedServer::start(|_| chat("x"));
    let settings =
        EndpointSettings { patience_s: 0.3, streams_per_connection: Some(4), ..quick_settings(&server.url()) };
    let mut endpoint = WatchedEndpoint::open(&settings);
    ask_many(&mut endpoint, 3);
    let EndpointFault::Down { last, .. } = endpoint.fault() else { panic!("it is down") };
    assert!(last.contains("does not speak HTTP/2") && last.contains("`streams_per_connection`"), "{last}");
    let usage = endpoint.endpoint.usage();
    assert_eq!(usage.count_of(AttemptCause::Unreachable), usage.attempts);
}

#[test]
fn a_name_that_does_not_exist_is_unreachable() {
    let settings = EndpointSettings {
        patience_s: 0.2,
        connect_timeout_s: 0.4,
        stall_s: Some(2.0),
        ..quick_settings("http://no-such-host.invalid/v1")
    };
    let mut endpoint = WatchedEndpoint::open(&settings);
    ask_many(&mut endpoint, 1);
    assert!(matches!(endpoint.fault(), EndpointFault::Down { .. }));
    assert!(endpoint.endpoint.usage().count_of(AttemptCause::Unreachable) >= 5);
}

#[test]
fn a_hanging_replica_is_left_out() {
    let quick = || {
        ScriptedServer::start(|_| {
            let mut steps = vec![ServerStep::Wait(ms(5))];
            steps.extend(chat("quick"));
            steps
        })
    };
    let (first, second) = (quick(), quick());
    let hanging = ScriptedServer::start(|_| vec![ServerStep::Wait(ms(60_000))]);
    let settings = EndpointSettings {
        base_url: vec![first.url(), hanging.url(), second.url()],
        identity: Some("m".to_owned()),
        concurrency: 12,
        stall_s: Some(4.0),
        call_timeout_s: 30.0,
        ..quick_settings(&first.url())
    };
    let mut endpoint = WatchedEndpoint::open(&settings);
    let begun = Instant::now();
    ask_many(&mut endpoint, 300);
    for _ in 0..290 {
        assert_eq!(text_of(&endpoint.next_end().1), "quick");
    }
    // 12 in flight, of which 4 hang: 8 at 5 ms would give 1,600 a second; the rest is this machine.
    assert!(begun.elapsed() < Duration::from_millis(3_900), "{:?}: before the first stall ends", begun.elapsed());
    assert!(hanging.requests().len() <= 5, "{}", hanging.requests().len());
    for _ in 0..10 {
        assert_eq!(text_of(&endpoint.next_end().1), "quick", "calls that hung are answered elsewhere");
    }
}

#[test]
fn a_dead_replica_does_not_stop_the_others() {
    let server = ScriptedServer::start(|_| chat("here"));
    let settings = EndpointSettings {
        base_url: vec![server.url(), format!("http://{}/v1", free_port())],
        identity: Some("m".to_owned()),
        patience_s: 0.1,
        ..quick_settings(&server.url())
    };
    let mut endpoint = WatchedEndpoint::open(&settings);
    for round in 0..20 {
        ask_many(&mut endpoint, 10);
        for _ in 0..10 {
            assert_eq!(text_of(&endpoint.next_end().1), "here", "round {round}");
        }
        std::thread::sleep(ms(15));
    }
    endpoint.assert_quiet();
}
