//! Every cause of the table, as a server makes it.

use crate::scripted_server::{ScriptedServer, ServerStep, chat, chat_body, ms, reply};
use crate::watched_endpoint::{WatchedEndpoint, failure_of, quick_settings, text_of};
use hopeval_endpoint::verdict::{NextStep, VERDICTS};
use hopeval_endpoint::{
    AnswerKind, AttemptCause, CallAnswer, CallVerdict, EndpointCall, EndpointDialect, EndpointFault, EndpointHost,
    EndpointSettings, FailureKind, FinishReason, GenerateCall, RerankCall,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

fn raw(text: &str) -> ServerStep {
    ServerStep::Send(text.as_bytes().to_vec())
}

/// Replies after which the call is sent again, with their causes.
fn passing_faults() -> Vec<(AttemptCause, Vec<ServerStep>)> {
    use AttemptCause as Cause;
    let whole = chat_body("never");
    let half = &whole[..whole.len() / 2];
    let head = format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n", whole.len());
    let date = httpdate_of(SystemTime::now());
    let later = httpdate_of(SystemTime::now() + Duration::from_secs(1));
    let limited = |headers: &str| reply(429, headers, r#"{"error":{"message":"slow down"}}"#);
    vec![
        (Cause::LimitSeconds, limited("retry-after: 0.03\r\n")),
        (Cause::LimitSeconds, limited("retry-after-ms: 30\r\n")),
        (Cause::LimitDate, limited(&format!("date: {date}\r\nretry-after: {later}\r\n"))),
        (Cause::LimitUnknown, limited("")),
        (Cause::Status500, reply(500, "", "oops")),
        (Cause::Status502, reply(502, "", "<html>Bad Gateway</html>")),
        (Cause::Status503, reply(503, "retry-after: 0.02\r\n", "")),
        (Cause::Status504, reply(504, "", "")),
        (Cause::Overloaded, reply(529, "", "")),
        (Cause::Status5xx, reply(520, "", "")),
        (Cause::TryAgain, reply(409, "", "")),
        (Cause::ModelGone, reply(404, "", r#"{"error":{"message":"no such model"}}"#)),
        (Cause::ResetBeforeHeaders, vec![ServerStep::Reset]),
        (Cause::ResetBeforeHeaders, vec![ServerStep::Close]),
        (Cause::ResetBeforeHeaders, vec![raw("HTTP/1.1 200 OK\r\ncontent-le"), ServerStep::Close]),
        (Cause::NotHttp, vec![raw("SSH-2.0-server\r\n\r\n"), ServerStep::Close]),
        (Cause::CutBody, vec![raw(&head), ServerStep::Wait(ms(20)), ServerStep::Reset]),
        (Cause::CutBody, vec![raw(&head), raw(half), ServerStep::Close]),
        (Cause::CutBody, vec![raw(&head), raw(half), ServerStep::Wait(ms(20)), ServerStep::Reset]),
        (Cause::StallBeforeHeaders, vec![ServerStep::Wait(ms(400))]),
        (Cause::StallInBody, vec![raw(&head), raw(half), ServerStep::Wait(ms(400))]),
        (Cause::NotJson, reply(200, "", half)),
        (Cause::NotJson, reply(200, "content-type: text/html\r\n", "<html>Sign in</html>")),
        (Cause::NotJson, reply(200, "", "")),
        (Cause::NotJson, reply(204, "", "")),
        (Cause::ErrorInAnswer, reply(200, "", r#"{"error":{"message":"boom"}}"#)),
        (Cause::LimitUnknown, reply(200, "", r#"{"error":{"message":"slow down","code":429}}"#)),
        (Cause::NoChoices, reply(200, "", r#"{"choices":[]}"#)),
        (Cause::NullContent, reply(200, "", r#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#)),
        (Cause::Aborted, reply(200, "", r#"{"choices":[{"message":{"content":"a"},"finish_reason":"abort"}]}"#)),
        (Cause::WrongShape, reply(200, "", r#"{"choices":7}"#)),
        (Cause::BareBadRequest, reply(400, "", "<html>400 The plain HTTP request was sent to HTTPS port</html>")),
    ]
}

/// Replies that end their call, with cause and kind.
fn lasting_failures() -> Vec<(AttemptCause, FailureKind, Vec<ServerStep>)> {
    use AttemptCause as Cause;
    use FailureKind::{ContextOverflow, Refused, TimedOut};
    let error = |status: u16, body: &str| reply(status, "", body);
    let mut drip = vec![raw("HTTP/1.1 200 X\r\ncontent-length: 5000\r\n\r\n")];
    drip.extend((0..40).flat_map(|_| [ServerStep::Wait(ms(30)), raw(" ")]));
    vec![
        (Cause::BadRequest, Refused, error(400, r#"{"error":{"message":"temperature must be positive"}}"#)),
        (Cause::BadRequest, Refused, error(422, r#"{"detail":[{"msg":"extra fields"}]}"#)),
        (Cause::PromptFiltered, Refused, error(400, r#"{"error":{"code":"content_filter","message":"no"}}"#)),
        (
            Cause::ContextOverflow,
            ContextOverflow,
            error(400, r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#),
        ),
        (
            Cause::ContextOverflow,
            ContextOverflow,
            error(400, r#"{"error":{"message":"5000 tokens","param":"input_tokens","code":400}}"#),
        ),
        (
            Cause::ContextOverflow,
            ContextOverflow,
            error(400, r#"{"error":{"type":"exceed_context_size_error","message":"n_ctx"}}"#),
        ),
        (
            Cause::ContextOverflow,
            ContextOverflow,
            error(
                422,
                r#"{"error":"`inputs` tokens + `max_new_tokens` must be <= 8. Given: 9","error_type":"validation"}"#,
            ),
        ),
        (Cause::DeadlineInBody, TimedOut, drip),
    ]
}

/// Replies that say the endpoint is wrong.
fn endpoint_faults() -> Vec<(AttemptCause, &'static str, Vec<ServerStep>)> {
    use AttemptCause as Cause;
    vec![
        (Cause::Unauthorized, "unauthorized", reply(401, "", r#"{"error":{"message":"bad key"}}"#)),
        (Cause::Forbidden, "unauthorized", reply(403, "", "")),
        (Cause::UnknownModel, "unknown", reply(404, "", r#"{"error":{"code":"model_not_found","message":"no m"}}"#)),
        (Cause::UnknownModel, "unknown", reply(405, "", "")),
        (Cause::Redirected, "unknown", reply(307, "location: http://127.0.0.1:9/\r\n", "")),
        (Cause::QuotaUsedUp, "quota", reply(402, "", "")),
        (Cause::QuotaUsedUp, "quota", reply(429, "retry-after: 1\r\n", r#"{"error":{"code":"insufficient_quota"}}"#)),
    ]
}

fn httpdate_of(time: SystemTime) -> String {
    // Both dates stand in one reply: only their distance counts, and it is one second.
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() % 60;
    format!("Sun, 06 Nov 1994 08:49:{seconds:02} GMT")
}

#[test]
fn faults_pass_and_the_same_bytes_are_sent_again() {
    for (cause, steps) in passing_faults() {
        let server = ScriptedServer::start(move |request| match request.number {
            0 => chat("first"),
            1 => steps.clone(),
            _ => chat("second"),
        });
        let mut endpoint = WatchedEndpoint::open(&quick_settings(&server.url()));
        assert_eq!(text_of(&endpoint.ask("known")), "first");
        let end = endpoint.ask("same");
        assert_eq!((text_of(&end), end.attempts), ("second", 2), "{cause}");
        let usage = endpoint.endpoint.usage();
        assert_eq!(usage.count_of(cause), 1, "{cause}: {:?}", usage.counted_causes().collect::<Vec<_>>());
        let bodies: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
        assert_eq!((bodies.len(), &bodies[1]), (3, &bodies[2]), "{cause}");
        assert_eq!((usage.answered, usage.in_flight, usage.waiting), (2, 0, 0), "{cause}");
    }
}

#[test]
fn lasting_failures_end_their_call() {
    for (cause, kind, steps) in lasting_failures() {
        let server = ScriptedServer::start(move |_| steps.clone());
        let settings = EndpointSettings { call_timeout_s: 0.3, ..quick_settings(&server.url()) };
        let mut endpoint = WatchedEndpoint::open(&settings);
        let end = endpoint.ask("q");
        assert_eq!((failure_of(&end).kind, end.attempts), (kind, 1), "{cause}: {end:?}");
        assert_eq!(endpoint.endpoint.usage().count_of(cause), 1, "{cause}");
        assert!(failure_of(&end).message.starts_with(&server.url()), "{end:?}");
    }
}

#[test]
fn a_wrong_endpoint_is_told_once_and_answers_nothing() {
    for (cause, name, steps) in endpoint_faults() {
        let server = ScriptedServer::start(move |_| steps.clone());
        let mut endpoint = WatchedEndpoint::open(&quick_settings(&server.url()));
        for text in ["a", "b", "c"] {
            endpoint.send(EndpointCall::Generate(GenerateCall::from_user(text)));
        }
        let fault = endpoint.fault();
        let told = match &fault {
            EndpointFault::Unauthorized { .. } => "unauthorized",
            EndpointFault::UnknownModel { .. } => "unknown",
            EndpointFault::QuotaUsedUp { .. } => "quota",
            EndpointFault::Down { .. } => "down",
        };
        assert_eq!(told, name, "{cause}: {fault}");
        assert!(!fault.may_pass() && fault.to_string().contains("HTTP "), "{fault}");
        endpoint.send(EndpointCall::Generate(GenerateCall::from_user("late")));
        endpoint.assert_quiet();
        assert!(endpoint.endpoint.usage().count_of(cause) >= 1, "{cause}");
        assert!(server.requests().len() <= 3, "nothing is sent any more");
    }
}

#[test]
fn a_model_known_from_before_is_gone_not_unknown() {
    let server = ScriptedServer::start(|request| if request.number < 3 { reply(404, "", "") } else { chat("back") });
    let change = |host| EndpointHost { model_known: Arc::new(|| true), ..host };
    let mut endpoint = WatchedEndpoint::open_with(&quick_settings(&server.url()), None, change);
    assert_eq!(text_of(&endpoint.ask("q")), "back");
}

#[test]
fn a_path_that_never_answered_is_unknown() {
    let server = ScriptedServer::start(|request| match request.head.contains("/rerank") {
        true => reply(404, "", ""),
        false => chat("a"),
    });
    let answers = vec![AnswerKind::Generate, AnswerKind::Rerank];
    let settings = EndpointSettings { dialect: EndpointDialect::Vllm, answers, ..quick_settings(&server.url()) };
    let change = |host| EndpointHost { model_known: Arc::new(|| true), ..host };
    let mut endpoint = WatchedEndpoint::open_with(&settings, None, change);
    assert_eq!(text_of(&endpoint.ask("q")), "a");
    endpoint.send(EndpointCall::Rerank(RerankCall { query: "q".to_owned(), documents: vec!["d".to_owned()] }));
    assert!(matches!(endpoint.fault(), EndpointFault::UnknownModel { .. }));
}

#[test]
fn texts_end_for_their_reason() {
    for (choice, finish) in [
        (r#"{"message":{"content":"a"},"finish_reason":"length"}"#, FinishReason::Length),
        (r#"{"message":{"content":"a"},"finish_reason":"content_filter"}"#, FinishReason::Filtered),
        (r#"{"message":{"content":null,"refusal":"a"},"finish_reason":"stop"}"#, FinishReason::Refused),
        (
            r#"{"message":{"content":"a"},"finish_reason":"stop","stop_reason":"\n"}"#,
            FinishReason::Stop(Some("\n".into())),
        ),
    ] {
        let server = ScriptedServer::start(move |_| reply(200, "", &format!(r#"{{"choices":[{choice}]}}"#)));
        let end = WatchedEndpoint::open(&quick_settings(&server.url())).ask("q");
        let CallVerdict::Answered(CallAnswer::Generated(choices)) = &end.verdict else { panic!("{end:?}") };
        assert_eq!((choices[0].text.as_str(), &choices[0].finish), ("a", &finish));
        assert_eq!(end.attempts, 1);
    }
}

#[test]
fn a_call_alone_in_its_fault_fails_while_others_are_answered() {
    for (kind, steps) in [
        (FailureKind::Unavailable, reply(500, "", "boom")),
        (FailureKind::Malformed, reply(200, "", "<html>")),
        (FailureKind::Malformed, reply(200, "", r#"{"choices":[]}"#)),
    ] {
        let server = ScriptedServer::start(
            move |request| {
                if request.body.contains("poison") { steps.clone() } else { chat("fine") }
            },
        );
        let settings = EndpointSettings { attempts: 4, concurrency: 4, ..quick_settings(&server.url()) };
        let mut endpoint = WatchedEndpoint::open(&settings);
        let poison = endpoint.send(EndpointCall::Generate(GenerateCall::from_user("poison")));
        let (mut failed, mut answered) = (None, 0);
        while failed.is_none() {
            endpoint.send(EndpointCall::Generate(GenerateCall::from_user("good")));
            let (number, end) = endpoint.next_end();
            if number == poison {
                failed = Some(end);
            } else {
                assert_eq!(text_of(&end), "fine");
                answered += 1;
            }
            assert!(answered < 20_000, "the poisonous call never ends");
        }
        let end = failed.unwrap();
        assert_eq!(failure_of(&end).kind, kind);
        assert!(end.attempts >= 4 && failure_of(&end).message.contains("attempts"), "{end:?}");
    }
}

#[test]
fn the_tests_have_every_cause() {
    use AttemptCause as Cause;
    let mut seen: BTreeSet<AttemptCause> = passing_faults().into_iter().map(|(cause, _)| cause).collect();
    seen.extend(lasting_failures().into_iter().map(|(cause, ..)| cause));
    seen.extend(endpoint_faults().into_iter().map(|(cause, ..)| cause));
    // Elsewhere: answers.rs, outages.rs; a body of 256 MB is no test.
    seen.extend([Cause::Answered, Cause::FewerChoices, Cause::BeyondDialect, Cause::ConnectionRefused]);
    seen.extend([Cause::Unreachable, Cause::AnswerTooLong]);
    let missing: Vec<&str> = VERDICTS.iter().filter(|row| !seen.contains(&row.cause)).map(|row| row.name).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let steps = VERDICTS.iter().filter(|row| matches!(row.step, NextStep::Retry(_) | NextStep::Wait)).count();
    assert!(passing_faults().len() >= steps - 3);
}
