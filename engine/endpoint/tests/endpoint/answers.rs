//! Answers of every kind of call, several choices, streams, the key, guards and drains.

use crate::scripted_server::{ScriptedServer, ServerStep, chat, chat_body, ms, reply};
use crate::watched_endpoint::{WatchedEndpoint, failure_of, quick_settings, text_of};
use hopeval_endpoint::{
    AnswerKind, ApiKey, AttemptCause, AttemptGuard, CallAnswer, CallEnd, CallVerdict, EmbedCall, EndpointCall,
    EndpointDialect, EndpointFault, EndpointHost, EndpointSettings, FailureKind, GenerateCall, PermitReceiver,
    PromptText, RerankCall, SamplingFields, ScoreCall, SharedText, SpendingPermit, SpentAmounts, TokenUsage,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn an_answer_with_all_its_facts() {
    let server = ScriptedServer::start(|_| chat("Paris"));
    let mut endpoint = WatchedEndpoint::open(&quick_settings(&server.url()));
    let end = endpoint.ask("Capital?");
    assert_eq!(text_of(&end), "Paris");
    assert_eq!((end.attempts, end.answers), (1, 1));
    assert_eq!(end.usage, TokenUsage { prompt: 7, completion: 3, measured: true, ..TokenUsage::default() });
    assert_eq!((end.model.as_deref(), end.system_fingerprint.as_deref()), (Some("m-1"), Some("fp-1")));
    assert!(end.service_us > 0 && end.guard.is_some());
    let request = &server.requests()[0];
    assert!(request.head.starts_with("post /v1/chat/completions http/1.1"), "{}", request.head);
    assert!(request.head.contains("content-type: application/json") && !request.head.contains("authorization"));
    assert_eq!(request.body, r#"{"model":"m","messages":[{"role":"user","content":"Capital?"}]}"#);
    let usage = endpoint.endpoint.usage();
    assert_eq!((usage.calls, usage.answered, usage.attempts, usage.in_flight), (1, 1, 1, 0));
    assert_eq!(usage.models, [(("m-1".to_owned(), "fp-1".to_owned()), 1)].into());
}

/// A body in pieces is sent as one with its length: servers that read no chunks must take it.
#[test]
fn shared_texts_are_sent_as_if_they_were_copied() {
    let server = ScriptedServer::start(|_| chat("Paris"));
    let mut endpoint = WatchedEndpoint::open(&quick_settings(&server.url()));
    let shot = SharedText::new("Question: \"a\"?\nAnswer: é\n\n".repeat(40).into());
    let mut text = PromptText::from("Answer.\n");
    text.push_shared(&shot);
    text.push("Question: who?".to_owned());
    for whole in [PromptText::from(text.to_string()), text] {
        assert_eq!(text_of(&endpoint.end_of(EndpointCall::Generate(GenerateCall::from_user(whole)))), "Paris");
    }
    let requests = server.requests();
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[0].head, requests[1].head);
    assert!(requests[1].head.contains(&format!("content-length: {}", requests[1].body.len())), "{}", requests[1].head);
}

#[test]
fn usage_without_the_servers_count() {
    let server = ScriptedServer::start(|_| reply(200, "", r#"{"choices":[{"message":{"content":"12345"}}]}"#));
    let end = WatchedEndpoint::open(&quick_settings(&server.url())).ask("1234567");
    assert_eq!(end.usage, TokenUsage { prompt: 3, completion: 2, ..TokenUsage::default() });
}

/// The texts of an end that is a part, or not; and whether it is.
fn texts_of(end: &CallEnd) -> (Vec<&str>, bool) {
    let (choices, is_part) = match &end.verdict {
        CallVerdict::Part(choices) => (choices, true),
        CallVerdict::Answered(CallAnswer::Generated(choices)) => (choices, false),
        other => panic!("{other:?}"),
    };
    (choices.iter().map(|choice| choice.text.as_str()).collect(), is_part)
}

#[test]
fn missing_choices_are_asked_for() {
    // The server ignores `n`.
    let server = ScriptedServer::start(|request| chat(&format!("c{}", request.number)));
    let mut endpoint = WatchedEndpoint::open(&quick_settings(&server.url()));
    let sampling = SamplingFields { seed: Some(40), ..SamplingFields::default() };
    let call = GenerateCall { choices: 3, sampling, ..GenerateCall::from_user("q") };
    endpoint.send(EndpointCall::Generate(call));
    for (text, is_part) in [("c0", true), ("c1", true), ("c2", false)] {
        let end = endpoint.next_end().1;
        assert_eq!(texts_of(&end), (vec![text], is_part));
        assert_eq!((end.attempts, end.answers, end.usage.prompt, end.usage.completion), (1, 1, 7, 3));
        assert!(end.answer_usage == end.usage && end.guard.is_some() && end.model.is_some(), "{end:?}");
    }
    endpoint.assert_quiet();
    let tails: Vec<String> =
        server.requests().iter().map(|request| request.body.split("],").nth(1).unwrap().to_owned()).collect();
    assert_eq!(tails, [r#""n":3,"seed":40}"#, r#""n":2,"seed":41}"#, r#""seed":42}"#]);
    let usage = endpoint.endpoint.usage();
    assert_eq!((usage.count_of(AttemptCause::FewerChoices), usage.calls, usage.answered), (2, 1, 1));
}

#[test]
fn choices_that_were_given_outlive_the_failure_of_others() {
    let server = ScriptedServer::start(|request| match request.number {
        0 | 1 => chat(&format!("c{}", request.number)),
        _ => reply(400, "", r#"{"error":{"message":"no more"}}"#),
    });
    let mut endpoint = WatchedEndpoint::open(&quick_settings(&server.url()));
    let call = GenerateCall { choices: 3, ..GenerateCall::from_user("q") };
    endpoint.send(EndpointCall::Generate(call));
    for text in ["c0", "c1"] {
        assert_eq!(texts_of(&endpoint.next_end().1), (vec![text], true));
    }
    let end = endpoint.next_end().1;
    let failure = failure_of(&end);
    assert!(failure.kind == FailureKind::Refused && failure.message.contains("no more"), "{failure:?}");
    assert_eq!((end.answers, end.usage.completion), (0, 0), "their own ends have what the others cost");
}

#[test]
fn choices_that_came_outlive_drains_caps_and_faults() {
    type HostChange = fn(EndpointHost) -> EndpointHost;
    let ways: [(&str, HostChange); 3] = [
        ("drain", |host| {
            let begun = AtomicUsize::new(0);
            let begin = move || (begun.fetch_add(1, Ordering::SeqCst) == 0).then(|| Box::new(()) as AttemptGuard);
            EndpointHost { begin_attempt: Arc::new(begin), ..host }
        }),
        ("cap", |host| {
            let asked = AtomicUsize::new(0);
            let reserve = move |_: SpentAmounts, receiver: PermitReceiver| {
                if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                    receiver(SpendingPermit::new(drop));
                }
            };
            EndpointHost { reserve: Arc::new(reserve), ..host }
        }),
        ("fault", |host| host),
    ];
    for (way, change) in ways {
        let server = ScriptedServer::start(|request| match request.number {
            0 => chat("paid"),
            _ => reply(401, "", ""),
        });
        let mut endpoint = WatchedEndpoint::open_with(&quick_settings(&server.url()), None, change);
        endpoint.send(EndpointCall::Generate(GenerateCall { choices: 3, ..GenerateCall::from_user("q") }));
        let end = endpoint.next_end().1;
        assert_eq!(texts_of(&end), (vec!["paid"], true), "{way}");
        assert!(end.guard.is_some(), "{way}");
        if way == "fault" {
            assert!(matches!(endpoint.fault(), EndpointFault::Unauthorized { .. }));
        }
        endpoint.assert_quiet();
        assert_eq!(server.requests().len(), if way == "fault" { 2 } else { 1 }, "{way}");
    }
}

#[test]
fn a_dialect_without_choices_asks_one_by_one() {
    let server = ScriptedServer::start(|_| chat("a"));
    let settings = EndpointSettings { dialect: EndpointDialect::Ollama, ..quick_settings(&server.url()) };
    let mut endpoint = WatchedEndpoint::open(&settings);
    endpoint.send(EndpointCall::Generate(GenerateCall { choices: 2, ..GenerateCall::from_user("q") }));
    assert_eq!([0, 1].map(|_| texts_of(&endpoint.next_end().1).1), [true, false]);
    assert!(server.requests().iter().all(|request| !request.body.contains("\"n\"")));
    assert_eq!(endpoint.endpoint.usage().count_of(AttemptCause::FewerChoices), 0);
}

#[test]
fn scores_vectors_and_ranks() {
    let server = ScriptedServer::start(|request| {
        let path = request.head.split(' ').nth(1).unwrap();
        let body = match path {
            "/v1/completions" => {
                r#"{"choices":[{"text":"","prompt_logprobs":[null,{"2":{"logprob":-1}},{"3":{"logprob":-2}}]}],
                    "usage":{"prompt_tokens":3,"completion_tokens":1}}"#
            }
            "/v1/embeddings" => {
                r#"{"data":[{"index":0,"embedding":[1,2]}],"usage":{"prompt_tokens":4,"total_tokens":4}}"#
            }
            "/v1/rerank" => r#"{"results":[{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0.25}]}"#,
            other => panic!("{other}"),
        };
        reply(200, "", body)
    });
    let settings = EndpointSettings {
        dialect: EndpointDialect::Vllm,
        answers: vec![AnswerKind::Score, AnswerKind::Embed, AnswerKind::Rerank],
        // Only named here: who calls encodes.
        tokenizer: Some("model".into()),
        ..quick_settings(&server.url())
    };
    let mut endpoint = WatchedEndpoint::open(&settings);
    let end = endpoint.end_of(EndpointCall::Score(ScoreCall { prompt: vec![1, 2], target: vec![3] }));
    assert_eq!(end.verdict, CallVerdict::Answered(CallAnswer::Scored(vec![-2.0])));
    assert_eq!(end.usage.prompt, 3);
    let end = endpoint.end_of(EndpointCall::Embed(EmbedCall { texts: vec!["a".to_owned()] }));
    assert_eq!(end.verdict, CallVerdict::Answered(CallAnswer::Embedded(vec![vec![1.0, 2.0]])));
    let documents = vec!["a".to_owned(), "b".to_owned()];
    let end = endpoint.end_of(EndpointCall::Rerank(RerankCall { query: "q".to_owned(), documents }));
    assert_eq!(end.verdict, CallVerdict::Answered(CallAnswer::Reranked(vec![0.25, 0.5])));
    assert!(!end.usage.measured && end.usage.prompt == 2);
}

#[test]
fn streams_are_read_to_their_end() {
    let event = |text: &str| ServerStep::Send(format!("data: {text}\n\n").into_bytes());
    let server = ScriptedServer::start(move |request| {
        let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let first = event(r#"{"model":"m-1","choices":[{"index":0,"delta":{"content":"Pa"}}]}"#);
        let mut steps = vec![ServerStep::Send(head.as_bytes().to_vec()), first];
        if request.number == 0 {
            // It stalls within the stream.
            steps.push(ServerStep::Wait(ms(400)));
            return steps;
        }
        steps.push(ServerStep::Wait(ms(40)));
        steps.push(event(r#"{"choices":[{"index":0,"delta":{"content":"ris"},"finish_reason":"stop"}]}"#));
        steps.push(event(r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#));
        steps.push(event("[DONE]"));
        steps.push(ServerStep::Close);
        steps
    });
    let settings = EndpointSettings { stream: true, ..quick_settings(&server.url()) };
    let mut endpoint = WatchedEndpoint::open(&settings);
    let end = endpoint.ask("q");
    assert_eq!((text_of(&end), end.attempts, end.usage.completion), ("Paris", 2, 2));
    assert_eq!(endpoint.endpoint.usage().count_of(AttemptCause::StallInBody), 1);
    assert!(server.requests()[0].body.ends_with(r#""stream":true,"stream_options":{"include_usage":true}}"#));
}

#[test]
fn abilities_that_lack_cost_nothing() {
    let server = ScriptedServer::start(|_| chat("x"));
    let mut endpoint = WatchedEndpoint::open(&quick_settings(&server.url()));
    let sampling = SamplingFields { top_k: Some(3), ..SamplingFields::default() };
    let end = endpoint.end_of(EndpointCall::Generate(GenerateCall { sampling, ..GenerateCall::from_user("q") }));
    assert_eq!(failure_of(&end).kind, FailureKind::Refused);
    assert_eq!(failure_of(&end).message, "the dialect openai has no top-k sampling");
    assert_eq!((end.attempts, server.requests().len()), (0, 0));
}

#[test]
fn the_key_is_sent_and_never_shown() {
    let secret = "sk-very-secret-0123456789";
    let server = ScriptedServer::start(move |_| {
        reply(401, "", &format!(r#"{{"error":{{"message":"Incorrect API key: {secret}. Or sk-very-****6789."}}}}"#))
    });
    let key = ApiKey::from_text(secret, "TEST").unwrap();
    let mut endpoint = WatchedEndpoint::open_with(&quick_settings(&server.url()), Some(key), |host| host);
    endpoint.send(EndpointCall::Generate(GenerateCall::from_user("q")));
    let fault = endpoint.fault();
    assert!(matches!(fault, EndpointFault::Unauthorized { .. }));
    let shown = format!("{fault} {fault:?} {:?} {:?}", endpoint.endpoint, endpoint.endpoint.usage());
    assert!(!shown.contains("sk-very") && shown.contains("***"), "{shown}");
    assert!(server.requests()[0].head.contains(&format!("authorization: bearer {secret}")));
}

#[test]
fn a_guard_lives_until_the_answer_is_recorded() {
    struct CountedGuard(Arc<AtomicUsize>);
    impl Drop for CountedGuard {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let server = ScriptedServer::start(|request| if request.number == 0 { reply(500, "", "") } else { chat("x") });
    let live = Arc::new(AtomicUsize::new(0));
    let counted = live.clone();
    let begin = move || -> Option<AttemptGuard> {
        counted.fetch_add(1, Ordering::SeqCst);
        Some(Box::new(CountedGuard(counted.clone())))
    };
    let change = |host| EndpointHost { begin_attempt: Arc::new(begin), ..host };
    let mut endpoint = WatchedEndpoint::open_with(&quick_settings(&server.url()), None, change);
    let end = endpoint.ask("q");
    assert_eq!((end.attempts, live.load(Ordering::SeqCst)), (2, 1), "the first attempt's guard is gone");
    drop(end);
    assert_eq!(live.load(Ordering::SeqCst), 0);
}

#[test]
fn a_drain_lets_open_attempts_end_and_begins_none() {
    let server = ScriptedServer::start(|_| {
        let mut steps = vec![ServerStep::Wait(ms(80))];
        steps.extend(reply(200, "", &chat_body("late")));
        steps
    });
    let begun = Arc::new(AtomicUsize::new(0));
    let begin = move || -> Option<AttemptGuard> {
        // The run drains after two attempts.
        (begun.fetch_add(1, Ordering::SeqCst) < 2).then(|| Box::new(()) as AttemptGuard)
    };
    let change = |host| EndpointHost { begin_attempt: Arc::new(begin), ..host };
    let mut endpoint = WatchedEndpoint::open_with(&quick_settings(&server.url()), None, change);
    for text in ["a", "b", "c", "d"] {
        endpoint.send(EndpointCall::Generate(GenerateCall::from_user(text)));
    }
    assert_eq!([text_of(&endpoint.next_end().1), text_of(&endpoint.next_end().1)], ["late", "late"]);
    endpoint.assert_quiet();
    assert_eq!(server.requests().len(), 2);
}
