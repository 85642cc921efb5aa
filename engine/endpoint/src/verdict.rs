//! Causes of an attempt's end, and the consequence of each, as one table.
//!
//! Each attempt ends for exactly one cause. A cause says two things: the state of the *server* ([`ServerSignal`]) and
//! the next step of the *call* ([`NextStep`]). Two rules stand above the table:
//!
//! * A fault becomes a failure of its call only if answers since then show that the server works for other calls.
//!   Otherwise the fault is the endpoint's, and its patience decides. At its end a few calls may be given up.
//!   `flow/failing.rs` has both rules.
//! * A limit is never counted: a call may wait for its turn as long as the server names times.
//!
//! `ops/docs/endpoints.md` has the table for users; a test compares the two.

use crate::answer::FailureKind;
use std::fmt;

/// The state of the server as a cause shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSignal {
    /// It works.
    Alive,
    /// It works and wants fewer calls.
    Limited,
    /// It does not work.
    Faulty,
}

/// The next step of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// It ends with the answer.
    Answer,
    /// It is answered in part; the missing choices are asked for.
    AskRest,
    /// It ends with a failure.
    Fail(FailureKind),
    /// It is sent again after a pause; with its attempts or its time used up it ends with this failure.
    Retry(FailureKind),
    /// It waits as long as the server says, and is sent again. Not counted.
    Wait,
    /// The endpoint is wrong: the run is told at once, the call stays unanswered.
    Leave(FaultKind),
}

/// The kind of an endpoint's fault that is told at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is documented at `EndpointFault`")]
pub enum FaultKind {
    Unauthorized,
    UnknownModel,
    QuotaUsedUp,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct VerdictRow {
    /// The cause.
    pub cause: AttemptCause,
    /// Its name in tables, logs and metrics.
    pub name: &'static str,
    /// Its signs.
    pub signs: &'static str,
    /// The server's state.
    pub signal: ServerSignal,
    /// The call's next step.
    pub step: NextStep,
}

/// Declares the causes and their table in one place.
macro_rules! verdict_table {
    ($($cause:ident, $name:literal, $signal:ident, $step:expr, $signs:literal;)*) => {
        /// The cause of an attempt's end. [`VERDICTS`] says its signs and consequences.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each is documented by its line of the table")]
        pub enum AttemptCause {
            $($cause,)*
        }

        /// The number of causes.
        pub const CAUSES: usize = [$(AttemptCause::$cause),*].len();

        /// The table, in the order of [`AttemptCause`].
        pub const VERDICTS: [VerdictRow; CAUSES] = [
            $(VerdictRow {
                cause: AttemptCause::$cause,
                name: $name,
                signs: $signs,
                signal: ServerSignal::$signal,
                step: $step,
            },)*
        ];
    };
}

use FailureKind::{ContextOverflow, Malformed, Refused, TimedOut, Unavailable};
use NextStep::{Answer, AskRest, Fail, Leave, Retry, Wait};

verdict_table! {
    // Answers.
    Answered, "answered", Alive, Answer, "200 with all choices; cut, filtered and refused texts say so in the choice";
    FewerChoices, "fewer_choices", Alive, AskRest, "200 with fewer choices than asked for";
    // The way there and back.
    ConnectionRefused, "connection_refused", Faulty, Retry(Unavailable), "nothing listens at the address";
    Unreachable, "unreachable", Faulty, Retry(Unavailable),
        "no route, no name, no TLS, not the HTTP/2 asked for, or no connection in time";
    ResetBeforeHeaders, "reset_before_headers", Faulty, Retry(Unavailable), "the connection ends before a status";
    NotHttp, "not_http", Faulty, Retry(Unavailable), "bytes that are not HTTP";
    CutBody, "cut_body", Faulty, Retry(Unavailable), "the connection ends within the body";
    StallBeforeHeaders, "stall_before_headers", Faulty, Retry(TimedOut), "no byte of an answer for `stall_s`";
    StallInBody, "stall_in_body", Faulty, Retry(TimedOut), "no further byte of a body for `stall_s`";
    DeadlineInBody, "deadline_in_body", Alive, Fail(TimedOut), "bytes drip until `call_timeout_s` is used up";
    // The server's own trouble.
    Status500, "status_500", Faulty, Retry(Unavailable), "500";
    Status502, "status_502", Faulty, Retry(Unavailable), "502";
    Status503, "status_503", Faulty, Retry(Unavailable), "503";
    Status504, "status_504", Faulty, Retry(Unavailable), "504";
    Overloaded, "overloaded", Faulty, Retry(Unavailable), "529, or an error that says `overloaded`";
    Status5xx, "status_5xx", Faulty, Retry(Unavailable), "another status from 500 on";
    ModelGone, "model_gone", Faulty, Retry(Unavailable), "404 or `model_not_found` of a model that has answered before";
    TryAgain, "try_again", Alive, Retry(Unavailable), "408, 409, 423, 425; a stream that HTTP/2 refuses";
    // Limits.
    LimitSeconds, "limit_seconds", Limited, Wait, "429 with `Retry-After` in seconds, or `retry-after-ms`";
    LimitDate, "limit_date", Limited, Wait, "429 with `Retry-After` as a date";
    LimitUnknown, "limit_unknown", Limited, Wait, "429 without a time";
    // The endpoint is wrong.
    QuotaUsedUp, "quota_used_up", Limited, Leave(FaultKind::QuotaUsedUp), "402, or a 429 with `insufficient_quota`";
    Unauthorized, "unauthorized", Alive, Leave(FaultKind::Unauthorized), "401";
    Forbidden, "forbidden", Alive, Leave(FaultKind::Unauthorized), "403";
    UnknownModel, "unknown_model", Alive, Leave(FaultKind::UnknownModel),
        "404, 405 or `model_not_found`, of a model that never answered";
    Redirected, "redirected", Faulty, Leave(FaultKind::UnknownModel),
        "3xx: keys and prompts are not sent to another address";
    // The request is wrong.
    BadRequest, "bad_request", Alive, Fail(Refused), "400, 413, 422 and other 4xx with an error as JSON";
    BareBadRequest, "bare_bad_request", Alive, Retry(Refused), "the same without an error as JSON: often a proxy's";
    PromptFiltered, "prompt_filtered", Alive, Fail(Refused), "an error that names a content filter";
    ContextOverflow, "context_overflow", Alive, Fail(ContextOverflow),
        "an error that names the model's context, in the words of six servers";
    BeyondDialect, "beyond_dialect", Alive, Fail(Refused),
        "the call needs something that the dialect lacks; nothing is sent";
    // The answer is wrong.
    NotJson, "not_json", Faulty, Retry(Malformed), "200 with something else than JSON: HTML, half an object, nothing";
    ErrorInAnswer, "error_in_answer", Alive, Retry(Malformed), "200 with an error whose code is none of the above";
    NoChoices, "no_choices", Alive, Retry(Malformed), "200 without choices";
    NullContent, "null_content", Alive, Retry(Malformed), "a choice without text, refusal, thoughts or filter";
    Aborted, "aborted", Alive, Retry(Unavailable), "a choice that the server gave up: `abort`, `error`";
    WrongShape, "wrong_shape", Alive, Retry(Malformed),
        "scores, vectors, log-probabilities or results that are missing, too few or not numbers";
    AnswerTooLong, "answer_too_long", Alive, Retry(Malformed), "a body beyond the bound";
}

impl AttemptCause {
    /// Its line of the table.
    pub fn row(self) -> &'static VerdictRow {
        &VERDICTS[self as usize]
    }

    /// Whether such a fault of the server may come from the request. It does not if nothing was sent, if the model is
    /// gone, or if the server says that it cannot serve anyone now.
    pub fn may_be_of_request(self) -> bool {
        use AttemptCause::{ConnectionRefused, ModelGone, Overloaded, Status503, Unreachable};
        !matches!(self, ConnectionRefused | Unreachable | Status503 | Overloaded | ModelGone)
    }
}

impl fmt::Display for AttemptCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

/// The table as Markdown, for the documentation.
pub fn verdict_markdown() -> String {
    let mut text = "| cause | signs | server | call |\n| --- | --- | --- | --- |\n".to_owned();
    for row in &VERDICTS {
        let signal = match row.signal {
            ServerSignal::Alive => "works",
            ServerSignal::Limited => "limits",
            ServerSignal::Faulty => "fails",
        };
        let step = match row.step {
            Answer => "answered".to_owned(),
            AskRest => "the rest is asked for".to_owned(),
            Fail(kind) => format!("`{}`", kind.name()),
            Retry(kind) => format!("again; at last `{}`", kind.name()),
            Wait => "waits, never counted".to_owned(),
            Leave(_) => "the run leaves with 2".to_owned(),
        };
        text += &format!("| `{}` | {} | {signal} | {step} |\n", row.name, row.signs);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_line() {
        for (place, row) in VERDICTS.iter().enumerate() {
            assert_eq!(row.cause as usize, place);
            assert!(VERDICTS[..place].iter().all(|earlier| earlier.name != row.name), "{}", row.name);
            let limit = matches!(row.step, Wait | Leave(FaultKind::QuotaUsedUp));
            assert_eq!(row.signal == ServerSignal::Limited, limit, "{}", row.name);
        }
        const { assert!(CAUSES >= 24) }
    }

    #[test]
    fn the_documentation_has_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops/docs/endpoints.md");
        let text = std::fs::read_to_string(path).unwrap();
        for line in verdict_markdown().lines() {
            assert!(text.lines().any(|found| found == line), "missing in {path}: {line}");
        }
    }
}
