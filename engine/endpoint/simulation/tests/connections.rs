//! Connections of the client: one for each call in flight, or shared by several.

use hopeval_endpoint::{
    CallVerdict, Endpoint, EndpointCall, EndpointHost, EndpointSettings, GenerateCall, PromptText, SharedText,
};
use hopeval_simulated_llm::{
    FaultKind, FaultSettings, LatencySettings, SimulatedServer, SimulationSettings, SimulationSummary,
};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

const CALLS: usize = 80;
const CONCURRENCY: usize = 12;
const LONGEST: Duration = Duration::from_secs(60);

/// A server whose answers take so long that a slow machine, too, has all calls in flight meanwhile.
fn start_server(faults: FaultSettings) -> SimulatedServer {
    let latency = LatencySettings { first_ms: 80.0, ..LatencySettings::default() };
    SimulatedServer::start(SimulationSettings { latency, faults, ..SimulationSettings::default() })
        .expect("a simulated server")
}

/// Makes many calls at an address, by a client with these streams for each connection. All must be answered.
fn answer_calls(base_url: String, streams: Option<usize>) {
    let settings = EndpointSettings {
        concurrency: CONCURRENCY,
        streams_per_connection: streams,
        first_pause_s: 0.01,
        longest_pause_s: 0.02,
        stall_s: Some(0.5),
        call_timeout_s: 3.0,
        ..EndpointSettings::new("simulated-llm", base_url)
    };
    let endpoint = Endpoint::open("test", &settings, None, EndpointHost::open_host(|fault| panic!("{fault}")))
        .expect("an endpoint");
    // Several pieces, as a few-shot prompt has them.
    let shot = SharedText::new("Question: who?\nAnswer: nobody\n\n".repeat(100).into());
    let (sender, ends) = channel();
    for call in 0..CALLS {
        let mut prompt = PromptText::default();
        prompt.push_shared(&shot);
        prompt.push(format!("Passages: none. Question: who is number {call}?"));
        let sender = sender.clone();
        let done = Box::new(move |end| sender.send(end).expect("the test waits"));
        endpoint.call(EndpointCall::Generate(GenerateCall::from_user(prompt)), done);
    }
    for _ in 0..CALLS {
        let end = ends.recv_timeout(LONGEST).expect("a call ends");
        assert!(matches!(end.verdict, CallVerdict::Answered(_)), "{:?}", end.verdict);
    }
}

/// The server's sums after these calls.
fn summary_of(streams: Option<usize>, faults: FaultSettings) -> SimulationSummary {
    let server = start_server(faults);
    answer_calls(server.base_url(), streams);
    let summary = server.summary();
    assert_eq!(summary.answered_bodies, CALLS as u64);
    assert!(summary.peak_in_flight <= CONCURRENCY as u64);
    summary
}

#[test]
fn each_call_in_flight_has_a_connection_or_a_stream() {
    let alone = summary_of(None, FaultSettings::default());
    assert_eq!(alone.repeated_answers, 0);
    assert!(alone.connections >= alone.peak_in_flight && alone.peak_in_flight > 6, "{alone:?}");
    for (streams, most) in [(1, 12), (4, 3), (100, 1)] {
        let shared = summary_of(Some(streams), FaultSettings::default());
        assert_eq!(shared.connections, most, "{streams} streams: {shared:?}");
        assert!(shared.peak_in_flight > 6, "{shared:?}");
        assert_eq!(shared.repeated_answers, 0);
        assert_eq!(shared.tokens.prompt, alone.tokens.prompt, "the server reads the same bodies");
    }
}

/// A reset breaks all calls of its connection, and answers on their way on it are lost. All are asked again, on another
/// connection; and the server, which works, is not taken for one that does not.
#[test]
fn calls_of_a_broken_connection_are_asked_again() {
    const STREAMS: u64 = 6;
    let rates = [(FaultKind::ResetBeforeHeaders, 0.05)].into();
    let summary = summary_of(Some(STREAMS as usize), FaultSettings { rates, ..FaultSettings::default() });
    let resets = summary.faults[&FaultKind::ResetBeforeHeaders];
    // A call may take a client just before its reset is known, and connects once more.
    assert!((3..=2 + 2 * resets).contains(&summary.connections), "{summary:?}");
    assert!(summary.calls <= CALLS as u64 + STREAMS * resets, "{summary:?}");
    assert!(summary.peak_in_flight > STREAMS, "no call is kept from the server: {summary:?}");
}

/// Passes bytes on until `most` have come, and then holds the connection and says nothing.
fn pass_on(mut from: TcpStream, mut to: TcpStream, most: usize) {
    let (mut buffer, mut passed) = ([0; 4096], 0);
    while let Ok(read) = from.read(&mut buffer)
        && read > 0
    {
        passed += read;
        if passed <= most && to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A proxy whose first connection falls silent in both ways after some bytes. Returns its address, and the number of
/// connections so far.
fn start_freezing_proxy(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    // It ends with the test's process.
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let most = if count.fetch_add(1, Ordering::SeqCst) == 0 { 12_000 } else { usize::MAX };
            let Ok(upstream) = TcpStream::connect(server) else { return };
            let copies = (client.try_clone().expect("a handle"), upstream.try_clone().expect("a handle"));
            std::thread::spawn(move || pass_on(client, upstream, most));
            std::thread::spawn(move || pass_on(copies.1, copies.0, most));
        }
    });
    (address, accepted)
}

/// Calls on a connection that fell silent stall, and later ones do not go to it again.
#[test]
fn a_silent_connection_is_left() {
    for streams in [None, Some(4), Some(100)] {
        let server = start_server(FaultSettings::default());
        let (proxy, accepted) = start_freezing_proxy(server.address());
        answer_calls(format!("http://{proxy}/v1"), streams);
        assert!(accepted.load(Ordering::SeqCst) > 1, "{streams:?}");
        assert_eq!(server.summary().answered_bodies, CALLS as u64);
    }
}
