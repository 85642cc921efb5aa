//! Lines of batch files: their bodies, and what each line of results leads to.

use super::*;
use crate::answer::FinishReason;
use crate::call::{EmbedCall, GenerateCall, RerankCall};
use crate::settings::AnswerKind;

fn settings(dialect: EndpointDialect) -> EndpointSettings {
    let answers = vec![AnswerKind::Generate, AnswerKind::Embed];
    EndpointSettings { dialect, answers, stream: true, ..EndpointSettings::new("m", "http://a/v1") }
}

fn call(dialect: EndpointDialect) -> OfflineCall {
    let call = EndpointCall::Generate(GenerateCall { max_tokens: Some(5), ..GenerateCall::from_user("1234567") });
    OfflineEndpoint::new(&settings(dialect)).prepare_call(call).expect("it can be written")
}

/// The answer of a line to a plain call.
fn read(line: &str) -> ResultVerdict {
    call(EndpointDialect::Vllm).read_result(line.as_bytes())
}

/// The end by a line.
fn end_of(line: &str) -> CallEnd {
    match read(line) {
        ResultVerdict::Ended(end) => *end,
        ResultVerdict::Unusable(reason) => panic!("{line}: {reason}"),
    }
}

#[test]
fn a_line_has_the_body_of_a_call_without_a_stream() {
    let line = call(EndpointDialect::Vllm).write_line("k");
    let expected = concat!(
        r#"{"custom_id":"k","method":"POST","url":"/v1/chat/completions","body":{"model":"m","#,
        r#""messages":[{"role":"user","content":"1234567"}],"max_tokens":5}}"#,
        "\n"
    );
    assert_eq!(String::from_utf8(line.clone()).unwrap(), expected);
    assert_eq!(line_id(&line), Ok("k".to_owned()));
    assert_eq!(call(EndpointDialect::Vllm).route_name(), "chat");
    let azure = String::from_utf8(call(EndpointDialect::Azure).write_line("k")).unwrap();
    assert!(azure.contains(r#""url":"/chat/completions""#), "{azure}");
    let embed = EndpointCall::Embed(EmbedCall { texts: vec!["a".to_owned()] });
    let embed = OfflineEndpoint::new(&settings(EndpointDialect::OpenAi)).prepare_call(embed).unwrap();
    assert!(String::from_utf8(embed.write_line("k")).unwrap().contains(r#""url":"/v1/embeddings""#));
    assert!(line_id(b"{}").unwrap_err().contains("custom_id") && line_id(b"<html>").is_err());
}

#[test]
fn a_call_beyond_the_dialect_is_refused_as_over_http() {
    let rerank = EndpointCall::Rerank(RerankCall { query: "q".to_owned(), documents: vec!["d".to_owned()] });
    let Err(end) = OfflineEndpoint::new(&settings(EndpointDialect::OpenAi)).prepare_call(rerank) else {
        panic!("the dialect has no reranking");
    };
    assert!(matches!(&end.verdict, CallVerdict::Failed(failure) if failure.kind == FailureKind::Refused), "{end:?}");
}

#[test]
fn an_answer_is_read_with_its_usage() {
    let line = concat!(
        r#"{"id":"b","custom_id":"k","response":{"status_code":200,"request_id":"r","body":{"model":"m-1","#,
        r#""choices":[{"message":{"content":"Paris"},"finish_reason":"stop"}],"#,
        r#""usage":{"prompt_tokens":7,"completion_tokens":3}}},"error":null}"#
    );
    let end = end_of(line);
    let CallVerdict::Answered(CallAnswer::Generated(choices)) = &end.verdict else { panic!("{end:?}") };
    assert_eq!((choices[0].text.as_str(), &choices[0].finish), ("Paris", &FinishReason::Stop(None)));
    let usage = TokenUsage { prompt: 7, completion: 3, measured: true, ..TokenUsage::default() };
    assert_eq!((end.usage, end.answer_usage, end.attempts, end.answers), (usage, usage, 1, 1));
    assert_eq!(end.model.as_deref(), Some("m-1"));
    // Without a count the rule counts: a token for three bytes.
    let end = end_of(r#"{"response":{"body":{"choices":[{"message":{"content":"12345"}}]}}}"#);
    assert_eq!((end.usage.prompt, end.usage.completion, end.usage.measured), (3, 2, false));
}

#[test]
fn failures_of_a_call_are_its_end_and_all_others_wait() {
    let overflow = r#"{"error":{"message":"the maximum context length is 8","type":"BadRequestError","code":400}}"#;
    let ended = [
        // OpenAI's form, then vLLM's.
        format!(r#"{{"response":{{"status_code":400,"body":{overflow}}},"error":null}}"#),
        format!(r#"{{"response":{{"status_code":400,"body":null}},"error":{overflow}}}"#),
    ];
    for line in ended {
        let end = end_of(&line);
        let overflown =
            matches!(&end.verdict, CallVerdict::Failed(failure) if failure.kind == FailureKind::ContextOverflow);
        assert!(overflown, "{line}: {end:?}");
    }
    let waiting = [
        (r#"{"response":null,"error":{"code":"batch_expired","message":"late"}}"#, "batch_expired"),
        (r#"{"response":{"status_code":429,"body":{"error":{"message":"slow down"}}}}"#, "limit_unknown"),
        (r#"{"response":{"status_code":401,"body":{"error":{"message":"no key"}}}}"#, "unauthorized"),
        (r#"{"response":{"status_code":404,"body":{"error":{"message":"no such model"}}}}"#, "model_gone"),
        (r#"{"response":{"status_code":500,"body":null},"error":{"message":"oops"}}"#, "status_500"),
        (r#"{"response":{"status_code":200,"body":{"choices":[]}}}"#, "no_choices"),
        (r#"{"response":{"status_code":200,"body":null}}"#, "not_json"),
        (r#"{"custom_id":"k"}"#, "not_json"),
        ("{", "not_json"),
    ];
    for (line, expected) in waiting {
        let ResultVerdict::Unusable(reason) = read(line) else { panic!("{line}") };
        assert!(reason.contains(expected), "{line}: {reason}");
    }
}

#[test]
fn unusable_results_are_paid_and_become_a_failure_at_last() {
    let endpoint = OfflineEndpoint::new(&EndpointSettings { attempts: 3, ..settings(EndpointDialect::Vllm) });
    let mut call = endpoint.prepare_call(EndpointCall::Generate(GenerateCall::from_user("q"))).unwrap();
    let bad = br#"{"response":{"body":{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}}}"#;
    let limit = br#"{"response":{"status_code":429,"body":{}}}"#;
    for line in [&bad[..], &limit[..], &bad[..]] {
        assert!(matches!(call.read_result(line), ResultVerdict::Unusable(_)));
    }
    let ResultVerdict::Ended(end) = call.read_result(bad) else { panic!("the third fault that counts is the last") };
    assert!(matches!(&end.verdict, CallVerdict::Failed(failure) if failure.kind == FailureKind::Malformed), "{end:?}");
    assert_eq!((end.usage.prompt, end.answer_usage.prompt, end.answers, end.attempts), (21, 0, 3, 4));
}
