//! The probe, against a server that does everything and one that ignores everything.

use crate::scripted_server::{ScriptedServer, ServedRequest, ServerStep, reply};
use crate::watched_endpoint::quick_settings;
use hopeval_endpoint::{ApiKey, Endpoint, EndpointDialect, EndpointSettings, ProbeFinding};

/// An answer with some texts.
fn answer(texts: &[&str], finish: &str, more: &str) -> Vec<ServerStep> {
    let choice = |(index, text): (usize, &&str)| {
        format!(r#"{{"index":{index},"message":{{"content":"{text}"}},"finish_reason":"{finish}"{more}}}"#)
    };
    let choices: Vec<String> = texts.iter().enumerate().map(choice).collect();
    let usage = r#""usage":{"prompt_tokens":5,"completion_tokens":9}"#;
    reply(200, "", &format!(r#"{{"model":"m-1","choices":[{}],{usage}}}"#, choices.join(",")))
}

/// A server that does everything that vLLM promises.
fn able(request: &ServedRequest) -> Vec<ServerStep> {
    let body = request.body.as_str();
    let has = |field: &str| body.contains(&format!("\"{field}\":"));
    let path = request.head.split(' ').nth(1).unwrap();
    match path {
        "/v1/models" => reply(200, "", r#"{"data":[{"id":"m","max_model_len":512}]}"#),
        "/tokenize" => reply(200, "", r#"{"count":2,"tokens":[1,2]}"#),
        "/v1/embeddings" => reply(200, "", r#"{"data":[{"index":0,"embedding":[1,2,3]}]}"#),
        "/v1/rerank" => reply(200, "", r#"{"results":[{"index":0},{"index":1}]}"#),
        "/v1/completions" if has("prompt_logprobs") => {
            let scores = r#","prompt_logprobs":[null,{"1":{}},{"1":{}},{"1":{}},{"1":{}}]"#;
            answer(&["x"], "length", scores)
        }
        "/v1/completions" if has("echo") => reply(400, "", r#"{"error":{"message":"no echo"}}"#),
        "/v1/completions" => answer(&["x"], "length", ""),
        "/v1/chat/completions" => {
            if body.contains("100000000") {
                reply(400, "", r#"{"error":{"message":"maximum context length is 512 tokens"}}"#)
            } else if has("stream") {
                reply(200, "", "data: {\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n")
            } else if has("hopeval_unknown_field") {
                reply(422, "", r#"{"detail":"extra"}"#)
            } else if body.contains("json_schema") {
                answer(&["{\\\"colour\\\":\\\"red\\\"}"], "stop", "")
            } else if body.contains("json_object") {
                answer(&["{}"], "stop", "")
            } else if has("continue_final_message") {
                answer(&["ve six seven"], "length", "")
            } else if has("logprobs") {
                answer(&["one"], "length", r#","logprobs":{"content":[{"token":"one","logprob":-1}]}"#)
            } else if has("seed") {
                answer(&[if body.contains("\"seed\":11") { "a" } else { "b" }], "length", "")
            } else if has("n") {
                answer(&["a", "b"], "length", "")
            } else if has("stop") {
                answer(&["one two"], "stop", "")
            } else {
                answer(&["one two three four"], "length", "")
            }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_able_server_keeps_its_dialects_promises() {
    let server = ScriptedServer::start(able);
    let settings = EndpointSettings { dialect: EndpointDialect::Vllm, ..quick_settings(&server.url()) };
    let report = Endpoint::probe(&settings, None).unwrap();
    let broken: Vec<_> = report.broken_promises().collect();
    assert!(broken.is_empty(), "{broken:?}");
    assert_eq!((report.context_tokens, report.models.as_slice()), (Some(512), &["m".to_owned()][..]));
    assert_eq!(report.answered_model.as_deref(), Some("m-1"));
    assert_eq!(report.finding_of("unknown field"), Some(ProbeFinding::Refused));
    assert_eq!(report.finding_of("echo with logprobs"), Some(ProbeFinding::Refused));
    assert_eq!(report.finding_of("seed"), Some(ProbeFinding::Supported));
    assert_eq!(report.finding_of("stream"), Some(ProbeFinding::Supported));
    assert_eq!(report.finding_of("context length"), Some(ProbeFinding::Supported));
    assert_eq!(report.requests as usize, server.requests().len());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["checks"][0]["finding"], "supported");
}

#[test]
fn what_is_ignored_shows() {
    let server = ScriptedServer::start(|request| match request.head.split(' ').nth(1).unwrap() {
        "/v1/chat/completions" => answer(&["one two three four five six seven eight nine"], "stop", ""),
        _ => reply(404, "", ""),
    });
    let settings = EndpointSettings { dialect: EndpointDialect::Vllm, ..quick_settings(&server.url()) };
    let report = Endpoint::probe(&settings, None).unwrap();
    let broken: Vec<&str> = report.broken_promises().map(|check| check.name).collect();
    let ignored = [
        "max_tokens",
        "stop",
        "n",
        "logprobs",
        "response_format json_object",
        "response_format json_schema",
        "continue_final_message",
    ];
    let absent = ["prompt_logprobs", "token ids as a prompt", "/tokenize"];
    assert_eq!(broken, ignored.iter().chain(&absent).copied().collect::<Vec<_>>());
    for name in ignored.iter().chain(&["unknown field", "stream", "context length"]) {
        assert_eq!(report.finding_of(name), Some(ProbeFinding::Ignored), "{name}");
    }
    // vLLM serves a model that generates, or one that embeds: of this one, no vectors are promised.
    for name in absent.iter().chain(&["/models", "echo with logprobs", "/embeddings", "/rerank"]) {
        assert_eq!(report.finding_of(name), Some(ProbeFinding::Absent), "{name}");
    }
    assert_eq!(report.finding_of("seed"), Some(ProbeFinding::Unclear));
}

#[test]
fn a_stop_string_may_stand_at_the_texts_end() {
    const LONG: &str = "one two three four five six seven eight";
    for (plain, stopped, finding) in [
        (LONG, "one two three four f", ProbeFinding::Supported),
        (LONG, "one two three four five", ProbeFinding::Supported),
        (LONG, LONG, ProbeFinding::Ignored),
        ("one two three", "one two three", ProbeFinding::Unclear),
    ] {
        let server = ScriptedServer::start(move |request| match request.body.contains("\"stop\":") {
            true => answer(&[stopped], "stop", ""),
            false => answer(&[plain], "length", ""),
        });
        let report = Endpoint::probe(&quick_settings(&server.url()), None).unwrap();
        assert_eq!(report.finding_of("stop"), Some(finding), "{stopped}: {report:?}");
    }
}

/// A model behind a pooling server does not generate, so the dialect's promise of vectors holds.
#[test]
fn vectors_are_promised_of_a_model_that_does_not_generate() {
    let server = ScriptedServer::start(|request| match request.head.split(' ').nth(1).unwrap() {
        "/v1/rerank" => reply(200, "", r#"{"results":[{"index":0},{"index":1}]}"#),
        _ => reply(404, "", ""),
    });
    let settings = EndpointSettings { dialect: EndpointDialect::Vllm, ..quick_settings(&server.url()) };
    let report = Endpoint::probe(&settings, None).unwrap();
    let broken: Vec<&str> = report.broken_promises().map(|check| check.name).collect();
    assert!(broken.contains(&"/embeddings") && !broken.contains(&"/rerank"), "{broken:?}");
}

#[test]
fn a_server_that_fails_is_a_report() {
    let server = ScriptedServer::start(|_| reply(401, "", r#"{"error":{"message":"bad key sk-abcdefgh12345"}}"#));
    let key = ApiKey::from_text("sk-abcdefgh12345", "TEST").unwrap();
    let report = Endpoint::probe(&quick_settings(&server.url()), Some(&key)).unwrap();
    assert_eq!(report.finding_of("generation"), Some(ProbeFinding::Refused));
    assert!(!format!("{report:?}").contains("sk-abc"), "{report:?}");
}
