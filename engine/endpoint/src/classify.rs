//! The cause of a reply with another status than 200, or of an error within a 200.
//!
//! Servers word the same error differently. [`WORDS`] is the table of their words; a status decides where none of them
//! stands in the error.

use crate::exchange::HttpReply;
use crate::exchange::retry_after::{NamedTime, named_time};
use crate::verdict::AttemptCause;
use serde_json::Value;
use std::time::SystemTime;

/// The letters of a server's text that a message keeps.
const MOST_LETTERS: usize = 300;

/// Words of servers' errors. They count with the statuses listed, in the error's code, type, parameter or message, in
/// lower case. The first line that fits counts.
const WORDS: [(&str, &[u16], AttemptCause); 25] = [
    // OpenAI and Azure.
    ("insufficient_quota", &[200, 402, 403, 429], AttemptCause::QuotaUsedUp),
    ("billing_hard_limit_reached", &[200, 400, 402, 403, 429], AttemptCause::QuotaUsedUp),
    ("billing_not_active", &[200, 402, 403, 429], AttemptCause::QuotaUsedUp),
    ("context_length_exceeded", OVERFLOW, AttemptCause::ContextOverflow),
    ("string_above_max_length", OVERFLOW, AttemptCause::ContextOverflow),
    // OpenAI, vLLM, LiteLLM, Ollama.
    ("maximum context length", OVERFLOW, AttemptCause::ContextOverflow),
    ("exceeds the context length", OVERFLOW, AttemptCause::ContextOverflow),
    ("contextwindowexceeded", OVERFLOW, AttemptCause::ContextOverflow),
    ("prompt is too long", OVERFLOW, AttemptCause::ContextOverflow),
    // vLLM.
    ("input_tokens", OVERFLOW, AttemptCause::ContextOverflow),
    ("maximum model length", OVERFLOW, AttemptCause::ContextOverflow),
    // llama.cpp.
    ("exceed_context_size", OVERFLOW, AttemptCause::ContextOverflow),
    ("exceeds the available context size", OVERFLOW, AttemptCause::ContextOverflow),
    // SGLang.
    ("model's context length", OVERFLOW, AttemptCause::ContextOverflow),
    ("model's maximum context", OVERFLOW, AttemptCause::ContextOverflow),
    // Text Generation Inference and Text Embeddings Inference.
    ("`inputs` tokens + `max_new_tokens` must be", OVERFLOW, AttemptCause::ContextOverflow),
    ("`inputs` must have less than", OVERFLOW, AttemptCause::ContextOverflow),
    // Filters.
    ("content_filter", REQUEST, AttemptCause::PromptFiltered),
    ("content_policy_violation", REQUEST, AttemptCause::PromptFiltered),
    ("responsibleaipolicyviolation", REQUEST, AttemptCause::PromptFiltered),
    ("content management policy", REQUEST, AttemptCause::PromptFiltered),
    ("moderation", REQUEST, AttemptCause::PromptFiltered),
    ("model_not_found", &[200, 400, 403, 404], AttemptCause::UnknownModel),
    // Servers that say "overloaded" with a 500 or a 200.
    ("overloaded", &[200, 500, 503], AttemptCause::Overloaded),
    ("rate_limit_exceeded", &[200, 503], AttemptCause::LimitUnknown),
];

/// Statuses with which a request may be too long: llama.cpp's older servers say 500.
const OVERFLOW: &[u16] = &[200, 400, 413, 422, 500];

/// Statuses with which a request may be refused for its content.
const REQUEST: &[u16] = &[200, 400, 403, 422];

/// The cause of a reply, and a message for people.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReplyCause {
    /// The cause.
    pub(crate) cause: AttemptCause,
    /// The status and the server's words, shortened.
    pub(crate) message: String,
    /// The time that the server names for the next attempt.
    pub(crate) named: Option<NamedTime>,
}

/// The parts of an error that servers give.
struct ErrorFields {
    /// Code, type, parameter and message in lower case.
    words: String,
    /// The message, or the code.
    message: String,
    /// A code that is an HTTP status.
    status: Option<u16>,
}

/// The parts of an endpoint that have answered before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownAnswers {
    /// The model, on any path: an error that names it is an outage.
    pub(crate) model: bool,
    /// The path of the request: else a 404 says that there is none. A server of chats may have no path for rankings.
    pub(crate) path: bool,
}

impl KnownAnswers {
    /// Model and path, both or none.
    pub(crate) const fn all(known: bool) -> Self {
        Self { model: known, path: known }
    }
}

/// The cause of a reply whose status is not 200.
pub(crate) fn classify_status(reply: &HttpReply, known: KnownAnswers) -> ReplyCause {
    let status = reply.status;
    let named = named_time(&reply.headers, SystemTime::now());
    let error = serde_json::from_slice::<Value>(&reply.body).ok().as_ref().and_then(error_fields);
    let cause = match error.as_ref().and_then(|error| cause_by_words(status, &error.words)) {
        Some(cause) => known_or_not(cause, known.model),
        None => known_or_not(cause_by_status(status, error.is_some(), named), known.path),
    };
    let words = match &error {
        Some(error) => shorten_text(&error.message),
        None => shorten_text(&String::from_utf8_lossy(&reply.body[..reply.body.len().min(4 * MOST_LETTERS)])),
    };
    let message = if words.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {words}") };
    ReplyCause { cause, message, named }
}

/// The cause of an error within a 200: its code may be a status of its own.
pub(crate) fn classify_error(error: &Value, model_known: bool) -> ReplyCause {
    let fields = object_fields(error);
    let cause = cause_by_words(200, &fields.words).or_else(|| {
        let cause = cause_by_status(fields.status?, true, None);
        Some(cause).filter(|cause| *cause != AttemptCause::Status5xx)
    });
    let cause = known_or_not(cause.unwrap_or(AttemptCause::ErrorInAnswer), model_known);
    let message = format!("HTTP 200 with an error: {}", shorten_text(&fields.message));
    ReplyCause { cause, message, named: None }
}

/// A model that has answered before is gone, not unknown.
fn known_or_not(cause: AttemptCause, model_known: bool) -> AttemptCause {
    match cause {
        AttemptCause::UnknownModel if model_known => AttemptCause::ModelGone,
        cause => cause,
    }
}

fn cause_by_words(status: u16, words: &str) -> Option<AttemptCause> {
    let fits = |(word, statuses, _): &&(&str, &[u16], AttemptCause)| statuses.contains(&status) && words.contains(word);
    WORDS.iter().find(fits).map(|(_, _, cause)| *cause)
}

fn cause_by_status(status: u16, has_error: bool, named: Option<NamedTime>) -> AttemptCause {
    match status {
        300..=399 => AttemptCause::Redirected,
        401 => AttemptCause::Unauthorized,
        402 => AttemptCause::QuotaUsedUp,
        403 => AttemptCause::Forbidden,
        404 | 405 => AttemptCause::UnknownModel,
        408 | 409 | 423 | 425 => AttemptCause::TryAgain,
        429 => match named {
            Some(NamedTime::Seconds(_)) => AttemptCause::LimitSeconds,
            Some(NamedTime::Date(_)) => AttemptCause::LimitDate,
            None => AttemptCause::LimitUnknown,
        },
        other if (400..500).contains(&other) && has_error => AttemptCause::BadRequest,
        other if (400..500).contains(&other) => AttemptCause::BareBadRequest,
        500 => AttemptCause::Status500,
        502 => AttemptCause::Status502,
        503 => AttemptCause::Status503,
        504 => AttemptCause::Status504,
        529 => AttemptCause::Overloaded,
        later if later > 500 => AttemptCause::Status5xx,
        // Other successes carry no answer: 204 is an empty body.
        _ => AttemptCause::NotJson,
    }
}

/// The error of a body: `{"error": {..}}`, `{"error": "text"}`, vLLM's older `{"object": "error", ..}`, FastAPI's
/// `{"detail": ..}`.
fn error_fields(body: &Value) -> Option<ErrorFields> {
    match body.get("error") {
        Some(error) if !error.is_null() => {
            let mut fields = object_fields(error);
            // Text Generation Inference names the type beside the error.
            if let Some(kind) = body.get("error_type").and_then(Value::as_str) {
                fields.words.push_str(&kind.to_lowercase());
            }
            Some(fields)
        }
        _ if body.get("object").is_some_and(|object| object == "error") => Some(object_fields(body)),
        _ => body.get("detail").or_else(|| body.get("message")).map(object_fields),
    }
}

/// The fields of an error, which is an object or a text.
fn object_fields(error: &Value) -> ErrorFields {
    let plain = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let field = |name: &str| error.get(name).and_then(plain);
    let message = field("message").or_else(|| field("code")).or_else(|| plain(error)).unwrap_or_default();
    let mut words = message.to_lowercase();
    for name in ["code", "type", "param", "innererror", "metadata"] {
        if let Some(text) = field(name) {
            words.push('\n');
            words.push_str(&text.to_lowercase());
        }
    }
    let code = error.get("code").or_else(|| error.get("status"));
    let status = code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    let status = status.filter(|status| (400..600).contains(status)).map(|status| status as u16);
    ErrorFields { words, message, status }
}

/// A server's text in one line, shortened.
pub(crate) fn shorten_text(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_LETTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
