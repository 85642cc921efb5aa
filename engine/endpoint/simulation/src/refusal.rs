//! Errors of the interface: status and body, in the servers' own forms.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::fault::FaultKind;
use crate::settings::OverflowDialect;

/// A call that gets no answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallRefusal {
    pub(crate) status: u16,
    pub(crate) body: RefusalBody,
    pub(crate) headers: Vec<(String, String)>,
}

/// The body of a refusal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RefusalBody {
    Json(Value),
    Html(&'static str),
}

const HTML: &str = "<html><head><title>simulated</title></head><body><h1>A simulated page</h1></body></html>\n";

impl CallRefusal {
    /// An error object as OpenAI has it.
    pub(crate) fn new(status: u16, kind: &str, code: Option<&str>, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let body = json!({"error": {
            "message": format!("simulated: {message}"), "type": kind, "param": null, "code": code
        }});
        Self { status, body: RefusalBody::Json(body), headers: vec![] }
    }

    /// A request that is wrong.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", None, message)
    }

    /// A limit that is reached; `retry_after` is the header's value.
    pub(crate) fn limited(limit: &str, retry_after: Option<String>) -> Self {
        let mut refusal =
            Self::new(429, "rate_limit_error", Some("rate_limit_exceeded"), format!("the limit of {limit} is reached"));
        refusal.headers.extend(retry_after.map(|value| ("retry-after".to_owned(), value)));
        refusal
    }

    /// An account that is used up.
    pub(crate) fn quota() -> Self {
        Self::new(429, "insufficient_quota", Some("insufficient_quota"), "the account's quota is used up")
    }

    /// A model that is not served.
    pub(crate) fn unknown_model(model: &str) -> Self {
        let message = format!("the model `{model}` does not exist");
        Self::new(404, "invalid_request_error", Some("model_not_found"), message)
    }

    /// A missing or wrong key.
    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "invalid_request_error", Some("invalid_api_key"), "the API key is missing or wrong")
    }

    /// A prompt that is too long, in the words of a server. `wanted` are the tokens of the answer.
    pub(crate) fn overflow(dialect: OverflowDialect, context: u64, prompt: u64, wanted: u64) -> Self {
        let (status, body) = match dialect {
            OverflowDialect::Openai => (
                400,
                json!({"error": {
                    "message": format!(
                        "This model's maximum context length is {context} tokens. However, your messages resulted in \
                         {prompt} tokens. (simulated)"
                    ),
                    "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"
                }}),
            ),
            OverflowDialect::Vllm => (
                400,
                json!({"error": {
                    "message": format!(
                        "This model's maximum context length is {context} tokens. However, you requested {wanted} \
                         output tokens and your prompt contains {prompt} input tokens. (simulated)"
                    ),
                    "type": "BadRequestError", "param": "input_tokens", "code": 400
                }}),
            ),
            OverflowDialect::LlamaCpp => (
                400,
                json!({"error": {
                    "code": 400, "type": "exceed_context_size_error",
                    "message": "the request exceeds the available context size (simulated)",
                    "n_prompt_tokens": prompt, "n_ctx": context
                }}),
            ),
            OverflowDialect::Tgi => (
                422,
                json!({
                    "error": format!(
                        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {context}. Given: \
                         {prompt} `inputs` tokens and {wanted} `max_new_tokens` (simulated)"
                    ),
                    "error_type": "validation"
                }),
            ),
        };
        Self { status, body: RefusalBody::Json(body), headers: vec![] }
    }

    /// The refusal of a fault that needs no answer; `None` for the others. `retry_after` is for limits.
    pub(crate) fn of_fault(fault: FaultKind, context: u64, model: &str, retry_after: Option<String>) -> Option<Self> {
        let server = |status, what: &str| Self::new(status, "server_error", None, what);
        let html = |status| Self { status, body: RefusalBody::Html(HTML), headers: vec![] };
        let overflow = |dialect| Self::overflow(dialect, context, context + 1, 1);
        Some(match fault {
            FaultKind::LimitSeconds | FaultKind::LimitDate | FaultKind::LimitBare => {
                Self::limited("requests", retry_after)
            }
            FaultKind::InternalError => server(500, "an internal error"),
            FaultKind::BadGateway => html(502),
            FaultKind::Unavailable => server(503, "the server is not available"),
            FaultKind::Overloaded => Self::new(529, "overloaded_error", None, "the server is overloaded"),
            FaultKind::HtmlPage => html(200),
            FaultKind::ErrorObject => Self { status: 200, ..server(500, "an error object under status 200") },
            FaultKind::OverflowOpenai => overflow(OverflowDialect::Openai),
            FaultKind::OverflowVllm => overflow(OverflowDialect::Vllm),
            FaultKind::OverflowLlamaCpp => overflow(OverflowDialect::LlamaCpp),
            FaultKind::OverflowTgi => overflow(OverflowDialect::Tgi),
            FaultKind::NotFound => Self::unknown_model(model),
            FaultKind::Unauthorized => Self::unauthorized(),
            FaultKind::Forbidden => {
                Self::new(403, "permission_error", Some("forbidden"), "the key has no permission for this")
            }
            FaultKind::QuotaUsedUp => Self::quota(),
            FaultKind::PaymentRequired => Self::new(402, "billing_error", None, "the account is empty"),
            // The connection is reset before this is written.
            FaultKind::Refused | FaultKind::ResetBeforeHeaders => server(500, "never seen"),
            _ => return None,
        })
    }

    /// The response.
    pub(crate) fn into_response(self) -> Response<Body> {
        let (content_type, bytes) = match self.body {
            RefusalBody::Json(body) => ("application/json", body.to_string()),
            RefusalBody::Html(page) => ("text/html; charset=utf-8", page.to_owned()),
        };
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        add_headers(&mut response, self.headers);
        response
    }
}

/// Adds headers whose names and values are made by this crate.
pub(crate) fn add_headers(response: &mut Response<Body>, headers: Vec<(String, String)>) {
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
}
