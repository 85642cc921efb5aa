//! Tests of causes, by replies as servers write them.

use super::*;
use bytes::Bytes;
use reqwest::header::HeaderMap;

fn cause(status: u16, body: &str) -> AttemptCause {
    let reply = HttpReply { status, headers: HeaderMap::new(), body: Bytes::copy_from_slice(body.as_bytes()) };
    classify_status(&reply, KnownAnswers::all(false)).cause
}

#[test]
fn overflows_of_six_servers() {
    for (status, body) in [
        // OpenAI.
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 4097 tokens.",
                "type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
        // vLLM, of 2026 and before.
        (
            400,
            r#"{"error":{"message":"You passed 5000 input tokens.","type":"BadRequestError","param":"input_tokens",
                "code":400}}"#,
        ),
        (
            400,
            r#"{"object":"error",
                "message":"This model's maximum context length is 512 tokens. However, you requested 600","code":400}"#,
        ),
        // llama.cpp.
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size",
                "type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
        ),
        // Text Generation Inference.
        (
            422,
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3000",
                "error_type":"validation"}"#,
        ),
        // SGLang.
        (
            400,
            r#"{"object":"error",
                "message":"The input (9000 tokens) is longer than the model's context length (8192 tokens).",
                "code":400}"#,
        ),
        // Ollama.
        (400, r#"{"error":{"message":"the input length exceeds the context length","type":"api_error"}}"#),
    ] {
        assert_eq!(cause(status, body), AttemptCause::ContextOverflow, "{body}");
    }
}

#[test]
fn statuses_and_words() {
    for (status, body, expected) in [
        (400, r#"{"error":{"message":"bad temperature"}}"#, AttemptCause::BadRequest),
        (400, "<html>Bad Request</html>", AttemptCause::BareBadRequest),
        (422, r#"{"detail":[{"loc":["body","foo"],"msg":"extra fields"}]}"#, AttemptCause::BadRequest),
        (400, r#"{"error":{"code":"content_filter","message":"filtered"}}"#, AttemptCause::PromptFiltered),
        (
            400,
            r#"{"error":{"code":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
            AttemptCause::PromptFiltered,
        ),
        (401, "", AttemptCause::Unauthorized),
        (403, r#"{"error":"no"}"#, AttemptCause::Forbidden),
        (402, "", AttemptCause::QuotaUsedUp),
        (404, r#"{"error":{"code":"model_not_found"}}"#, AttemptCause::UnknownModel),
        (404, "", AttemptCause::UnknownModel),
        (307, "", AttemptCause::Redirected),
        (409, "", AttemptCause::TryAgain),
        (429, "", AttemptCause::LimitUnknown),
        (429, r#"{"error":{"code":"insufficient_quota"}}"#, AttemptCause::QuotaUsedUp),
        (500, "", AttemptCause::Status500),
        (502, "<html>", AttemptCause::Status502),
        (503, r#"{"error":{"type":"overloaded_error"}}"#, AttemptCause::Overloaded),
        (504, "", AttemptCause::Status504),
        (520, "", AttemptCause::Status5xx),
        (529, "", AttemptCause::Overloaded),
        (204, "", AttemptCause::NotJson),
    ] {
        assert_eq!(cause(status, body), expected, "{status} {body}");
    }
}

#[test]
fn a_known_model_is_gone_not_unknown() {
    let reply = HttpReply { status: 404, headers: HeaderMap::new(), body: Bytes::new() };
    assert_eq!(classify_status(&reply, KnownAnswers::all(true)).cause, AttemptCause::ModelGone);
}

#[test]
fn limits_by_their_time() {
    for (value, expected) in [
        ("3", AttemptCause::LimitSeconds),
        ("Sun, 06 Nov 1994 08:49:37 GMT", AttemptCause::LimitDate),
        ("later", AttemptCause::LimitUnknown),
    ] {
        let headers = [("retry-after".parse().unwrap(), value.parse().unwrap())].into_iter().collect();
        let reply = HttpReply { status: 429, headers, body: Bytes::new() };
        assert_eq!(classify_status(&reply, KnownAnswers::all(false)).cause, expected, "{value}");
    }
}

#[test]
fn errors_within_an_answer() {
    for (error, expected) in [
        (r#"{"message":"boom"}"#, AttemptCause::ErrorInAnswer),
        (r#""boom""#, AttemptCause::ErrorInAnswer),
        (r#"{"message":"slow down","code":429}"#, AttemptCause::LimitUnknown),
        (r#"{"message":"upstream","code":"502"}"#, AttemptCause::Status502),
        (r#"{"message":"This model's maximum context length is 8","code":400}"#, AttemptCause::ContextOverflow),
        (r#"{"message":"x","code":400}"#, AttemptCause::BadRequest),
    ] {
        let error: Value = serde_json::from_str(error).unwrap();
        assert_eq!(classify_error(&error, false).cause, expected, "{error}");
    }
}

#[test]
fn messages_are_one_short_line() {
    let reply = HttpReply { status: 400, headers: HeaderMap::new(), body: Bytes::from("é \n".repeat(5000)) };
    let message = classify_status(&reply, KnownAnswers::all(false)).message;
    assert!(message.starts_with("HTTP 400: é é") && message.chars().count() < 320, "{message}");
    let empty = HttpReply { status: 500, headers: HeaderMap::new(), body: Bytes::new() };
    assert_eq!(classify_status(&empty, KnownAnswers::all(false)).message, "HTTP 500");
}
