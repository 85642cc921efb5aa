//! Connections of the client: one for each call in flight, or shared by several.

use hopeval_endpoint::{
    CallVerdict, Endpoint, EndpointCall, EndpointHost, EndpointSettings, GenerateCall, PromptText, SharedText,
};
use hopeval_simulated_llm::{
    FaultKind, FaultSettings, LatencySettings, SimulatedServer, SimulationSettings, SimulationSummary,
};
use std::sync::mpsc::channel;
use std::time::Duration;

const CALLS: usize = 80;
const CONCURRENCY: usize = 12;
const LONGEST: Duration = Duration::from_secs(60);

/// The server's sums after many calls by a client with these streams for each connection.
fn summary_of(streams: Option<usize>, faults: FaultSettings) -> SimulationSummary {
    let latency = LatencySettings { first_ms: 30.0, ..LatencySettings::default() };
    let server = SimulatedServer::start(SimulationSettings { latency, faults, ..SimulationSettings::default() })
        .expect("a simulated server");
    let settings = EndpointSettings {
        concurrency: CONCURRENCY,
        streams_per_connection: streams,
        first_pause_s: 0.01,
        longest_pause_s: 0.02,
        ..EndpointSettings::new("simulated-llm", server.base_url())
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
        assert!((1..=most).contains(&shared.connections), "{streams} streams: {shared:?}");
        assert!(shared.peak_in_flight > 6, "a full connection keeps no call waiting: {shared:?}");
        assert_eq!(shared.repeated_answers, 0);
        assert_eq!(shared.tokens.prompt, alone.tokens.prompt, "the server reads the same bodies");
    }
}

/// A reset breaks all calls of its connection, and answers on their way on it are lost. All are asked again.
#[test]
fn calls_of_a_broken_connection_are_asked_again() {
    const STREAMS: usize = 4;
    let rates = [(FaultKind::ResetBeforeHeaders, 0.1)].into();
    let summary = summary_of(Some(STREAMS), FaultSettings { rates, ..FaultSettings::default() });
    let resets = summary.faults[&FaultKind::ResetBeforeHeaders];
    assert!(summary.repeated_answers < STREAMS as u64 * resets, "the reset call has no answer: {summary:?}");
    assert!(summary.calls > CALLS as u64 && summary.connections > 3, "{summary:?}");
}
