//! The kinds of faults, as a table: name, status, and whether the tokens of the call are billed.

use serde::{Deserialize, Serialize};

/// The way in which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is described in the table below, which is also the one that is printed")]
pub enum FaultKind {
    LimitSeconds,
    LimitDate,
    LimitBare,
    InternalError,
    BadGateway,
    Unavailable,
    Overloaded,
    Refused,
    ResetBeforeHeaders,
    ResetAfterHeaders,
    CutBody,
    BadJson,
    HtmlPage,
    ErrorObject,
    NoChoices,
    NullContent,
    FewerChoices,
    ContentFilter,
    Length,
    StallBeforeHeaders,
    StallInBody,
    Drip,
    OverflowOpenai,
    OverflowVllm,
    OverflowLlamaCpp,
    OverflowTgi,
    NotFound,
    WrongModel,
    Unauthorized,
    Forbidden,
    QuotaUsedUp,
    PaymentRequired,
}

/// A row of the table of faults.
#[derive(Debug, Clone, Copy)]
pub struct FaultRow {
    /// The kind.
    pub kind: FaultKind,
    /// Its name in settings and logs.
    pub name: &'static str,
    /// The HTTP status, or 0 if none is sent.
    pub status: u16,
    /// The model has computed an answer: its tokens are billed, although the caller cannot use it.
    pub billed: bool,
    /// A careful client sends the call again; for the others it gives up this call or the whole run.
    pub passes: bool,
    /// A description for users.
    pub what: &'static str,
}

macro_rules! faults {
    ($($kind:ident $name:literal $status:literal $billed:literal $passes:literal $what:literal;)*) => {
        /// Every kind of fault.
        pub const FAULTS: &[FaultRow] = &[$(FaultRow {
            kind: FaultKind::$kind,
            name: $name,
            status: $status,
            billed: $billed,
            passes: $passes,
            what: $what,
        }),*];
    };
}

faults! {
    LimitSeconds "limit_seconds" 429 false true "`Retry-After` in seconds";
    LimitDate "limit_date" 429 false true "`Retry-After` as an HTTP date";
    LimitBare "limit_bare" 429 false true "without `Retry-After`";
    InternalError "internal_error" 500 false true "an error object";
    BadGateway "bad_gateway" 502 false true "an HTML page of a proxy";
    Unavailable "unavailable" 503 false true "an error object";
    Overloaded "overloaded" 529 false true "an error object";
    Refused "refused" 0 false true
        "the connection is reset and the port is closed for `faults.refused_ms`: others are refused, too";
    ResetBeforeHeaders "reset_before_headers" 0 false true "the connection is reset, nothing is sent";
    ResetAfterHeaders "reset_after_headers" 200 true true "the connection is reset after half of the body";
    CutBody "cut_body" 200 true true "the connection is closed in order after half of the body";
    BadJson "bad_json" 200 true true "half of the body is sent as if it were all of it";
    HtmlPage "html_page" 200 false true "an HTML page";
    ErrorObject "error_object" 200 false true "an error object under status 200";
    NoChoices "no_choices" 200 true true "an empty list of choices, results or data";
    NullContent "null_content" 200 true true "every choice's text is null";
    FewerChoices "fewer_choices" 200 true true "the last choice is missing; none is left if one was asked for";
    ContentFilter "content_filter" 200 true false "no text, `finish_reason` is `content_filter`";
    Length "length" 200 true false "half of the text, `finish_reason` is `length`";
    StallBeforeHeaders "stall_before_headers" 200 true true "nothing is sent for `faults.stall_ms`, then the answer";
    StallInBody "stall_in_body" 200 true true "nothing is sent for `faults.stall_ms` after half of the body";
    Drip "drip" 200 true true "the body comes in pieces of `faults.drip_bytes` every `faults.drip_ms`";
    OverflowOpenai "overflow_openai" 400 false false "the context is too long, in OpenAI's words";
    OverflowVllm "overflow_vllm" 400 false false "the context is too long, in vLLM's words";
    OverflowLlamaCpp "overflow_llama_cpp" 400 false false "the context is too long, in llama.cpp's words";
    OverflowTgi "overflow_tgi" 422 false false "the context is too long, in TGI's words";
    NotFound "not_found" 404 false true "the model is not known, although it was";
    WrongModel "wrong_model" 200 true false "the answer names another model";
    Unauthorized "unauthorized" 401 false false "the key is not accepted";
    Forbidden "forbidden" 403 false false "the key may not do this";
    QuotaUsedUp "quota_used_up" 429 false false "`insufficient_quota`";
    PaymentRequired "payment_required" 402 false false "the account is empty";
}

impl FaultKind {
    /// The row of the kind.
    pub fn row(self) -> &'static FaultRow {
        // The table is in the order of the enum, which a test checks.
        &FAULTS[self as usize]
    }

    /// The kind with a name.
    pub fn named(name: &str) -> Option<Self> {
        FAULTS.iter().find(|row| row.name == name).map(|row| row.kind)
    }

    /// The names of all kinds, for messages.
    pub fn names() -> String {
        FAULTS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_table() {
        let page = include_str!("../../../../ops/docs/simulation.md");
        let says = |holds: bool| if holds { "yes" } else { "no" };
        for row in FAULTS {
            let status = if row.status == 0 { "-".to_owned() } else { row.status.to_string() };
            let (passes, billed) = (says(row.passes), says(row.billed));
            let line = format!("| `{}` | {status} | {passes} | {billed} | {} |\n", row.name, row.what);
            assert!(page.contains(&line), "ops/docs/simulation.md lacks {line}");
        }
    }

    #[test]
    fn the_table_is_in_the_order_of_the_kinds() {
        for (place, row) in FAULTS.iter().enumerate() {
            assert_eq!(row.kind as usize, place, "{}", row.name);
            assert_eq!(FaultKind::named(row.name), Some(row.kind));
            assert_eq!(serde_json::to_value(row.kind).ok(), Some(serde_json::json!(row.name)));
        }
        assert!(FAULTS.len() >= 24);
    }
}
