//! Retrievers: their bodies, and servers that refuse, stall, send too much or nonsense.

use crate::scripted_server::{ScriptedServer, ServerStep, ms, reply};
use crate::watched_endpoint::{WatchedEndpoint, failure_of, quick_settings};
use hopeval_endpoint::{
    CallAnswer, CallEnd, CallVerdict, EndpointCall, EndpointSettings, FailureKind, FoundPassage, RetrieveCall,
    TokenUsage,
};

/// A retriever's settings, with pauses of milliseconds.
fn retriever_settings(server: &ScriptedServer) -> EndpointSettings {
    let EndpointSettings { base_url, answers, identity, model, .. } =
        EndpointSettings::for_retriever("index 1", vec![format!("http://{}/find/here", server.address)]);
    EndpointSettings { base_url, answers, identity, model, attempts: 3, ..quick_settings("") }
}

fn find(endpoint: &mut WatchedEndpoint) -> CallEnd {
    endpoint.end_of(EndpointCall::Retrieve(RetrieveCall { query: "q".to_owned(), k: 2, within: None }))
}

const GOOD: &str = r#"{"results":[{"id":"a","score":2},{"id":"b","score":1}]}"#;

#[test]
fn an_address_is_taken_as_it_stands_and_any_content_type() {
    let server = ScriptedServer::start(|_| reply(200, "content-type: text/html\r\n", GOOD));
    let mut endpoint = WatchedEndpoint::open(&retriever_settings(&server));
    let end = find(&mut endpoint);
    let found = |id: &str, score| FoundPassage { id: id.to_owned(), score };
    assert_eq!(end.verdict, CallVerdict::Answered(CallAnswer::Retrieved(vec![found("a", 2.0), found("b", 1.0)])));
    assert_eq!((end.attempts, end.usage), (1, TokenUsage::default()), "a retriever counts no tokens");
    let request = &server.requests()[0];
    assert!(request.head.starts_with("post /find/here http/1.1"), "{}", request.head);
    assert_eq!(request.body, r#"{"query":"q","k":2}"#);
}

#[test]
fn faults_and_limits_are_waited_out() {
    let server = ScriptedServer::start(|request| match request.number {
        0 => reply(503, "", "busy"),
        1 => reply(429, "retry-after: 0\r\n", r#"{"error":"slower"}"#),
        2 => vec![ServerStep::Wait(ms(400)), ServerStep::Close],
        3 => vec![ServerStep::Reset],
        4 => reply(200, "", "<html>a proxy</html>"),
        _ => reply(200, "", GOOD),
    });
    let mut endpoint = WatchedEndpoint::open(&retriever_settings(&server));
    let end = find(&mut endpoint);
    assert!(matches!(end.verdict, CallVerdict::Answered(CallAnswer::Retrieved(_))), "{end:?}");
    assert_eq!(end.attempts, 6);
}

#[test]
fn answers_that_stay_wrong_fail_after_the_attempts() {
    let huge = format!(r#"{{"results":[],"more":"{}"}}"#, "x".repeat(17 << 20));
    for (body, says) in
        [(huge.as_str(), "more than 16777216 bytes"), (r#"{"hits":[]}"#, "field `results`: found nothing")]
    {
        let body = body.to_owned();
        let server = ScriptedServer::start(move |_| reply(200, "", &body));
        let settings = EndpointSettings { stall_s: Some(10.0), ..retriever_settings(&server) };
        let end = find(&mut WatchedEndpoint::open(&settings));
        let failure = failure_of(&end);
        assert_eq!((failure.kind, end.attempts), (FailureKind::Malformed, 3));
        assert!(failure.message.contains(says), "{}", failure.message);
    }
    let refusing = ScriptedServer::start(|_| reply(422, "", r#"{"detail":"k is too large"}"#));
    let end = find(&mut WatchedEndpoint::open(&retriever_settings(&refusing)));
    assert_eq!((failure_of(&end).kind, end.attempts), (FailureKind::Refused, 1));
    assert!(failure_of(&end).message.contains("k is too large"));
}

#[test]
fn only_a_retriever_is_asked_for_passages() {
    let server = ScriptedServer::start(|_| reply(200, "", GOOD));
    let end = find(&mut WatchedEndpoint::open(&quick_settings(&server.url())));
    assert_eq!(failure_of(&end).kind, FailureKind::Refused);
    assert!(server.requests().is_empty(), "nothing is sent");
}
