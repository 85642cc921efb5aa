//! Calls as lines of batch files, and lines of results as ends of calls. Nothing is sent here.
//!
//! OpenAI's and Azure's batch API and vLLM's `run-batch` read the same JSON Lines, and answer in the same form:
//!
//! ```text
//!   EndpointCall --> {"custom_id", "method", "url", "body"}     one line of a file of requests
//!                    {"custom_id", "response", "error"} -->     one line of a file of results, in any order
//!                                       read as the same body over HTTP would be --> CallEnd, or a cause
//! ```
//!
//! A body is the one that a call over HTTP sends, without a stream, so the same request has the same answer on both
//! ways. What a result leads to is decided by the same table of causes ([`crate::verdict`]). One difference: a limit,
//! a wrong key or an unknown model is no fault of the run here. Such a result is unusable, and its request waits.

use crate::answer::{
    CallAnswer, CallEnd, CallFailure, CallVerdict, FailureKind, TokenUsage, count_tokens, count_written, empty_end,
};
use crate::call::EndpointCall;
use crate::classify::{KnownAnswers, classify_status};
use crate::dialect::EndpointDialect;
use crate::exchange::HttpReply;
use crate::needs::missing_ability;
use crate::settings::EndpointSettings;
use crate::transport::ApiRoute;
use crate::verdict::{AttemptCause, NextStep};
use crate::wire::{PartAnswer, PreparedCall, ReplyFacts};
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

/// The most requests in one file that the batch APIs take.
pub const MOST_LINES: usize = 50_000;

/// The most bytes of one file that they take.
pub const MOST_FILE_BYTES: u64 = 200_000_000;

/// An endpoint whose calls are written down instead of sent.
#[derive(Clone, Debug)]
pub struct OfflineEndpoint(EndpointSettings);

/// A call to be written as a line, or to be ended by lines of results.
pub struct OfflineCall {
    prepared: PreparedCall,
    route: ApiRoute,
    dialect: EndpointDialect,
    /// Unusable results of the call that make it a failure.
    attempts: u32,
    counted: u32,
    end: CallEnd,
}

/// The consequence of one line of results.
#[derive(Debug)]
pub enum ResultVerdict {
    /// The call has its end.
    Ended(Box<CallEnd>),
    /// The line is no answer; the call waits for another one.
    Unusable(String),
}

/// One line of a file of results. Further fields (`id`, `request_id`) have no meaning here.
#[derive(Deserialize)]
struct ResultLine {
    #[serde(default)]
    response: Option<ResultResponse>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ResultResponse {
    #[serde(default = "good_status")]
    status_code: u16,
    #[serde(default)]
    body: Option<Value>,
}

/// The identity in a line of requests or results.
#[derive(Deserialize)]
struct LineId {
    custom_id: Option<String>,
}

fn good_status() -> u16 {
    200
}

/// The `custom_id` of a line of requests or of results.
///
/// # Errors
/// The reason for its absence: the line is not JSON, or has no such field.
pub fn line_id(line: &[u8]) -> Result<String, String> {
    match serde_json::from_slice::<LineId>(line) {
        Ok(LineId { custom_id: Some(id) }) => Ok(id),
        Ok(LineId { custom_id: None }) => Err("no `custom_id`".to_owned()),
        Err(error) => Err(format!("not a JSON object with a `custom_id`: {error}")),
    }
}

impl OfflineEndpoint {
    /// An endpoint by its settings. Its key, its addresses and its limits are not looked at.
    pub fn new(settings: &EndpointSettings) -> Self {
        Self(EndpointSettings { stream: false, ..settings.clone() })
    }

    /// The call in the form that is written.
    ///
    /// # Errors
    /// The end of a call that needs something the dialect lacks.
    pub fn prepare_call(&self, call: EndpointCall) -> Result<OfflineCall, Box<CallEnd>> {
        if let Some(reason) = missing_ability(&self.0, &call) {
            let failure = CallFailure { kind: FailureKind::Refused, message: reason };
            return Err(Box::new(CallEnd { verdict: CallVerdict::Failed(failure), ..empty_end() }));
        }
        let prepared = PreparedCall::prepare(&self.0, call);
        let (route, dialect, attempts) = (prepared.route, self.0.dialect, self.0.attempts);
        Ok(OfflineCall { prepared, route, dialect, attempts, counted: 0, end: empty_end() })
    }
}

impl OfflineCall {
    /// The name of its path, for files: the batch API wants one path in each.
    pub fn route_name(&self) -> &'static str {
        match self.route {
            ApiRoute::Chat => "chat",
            ApiRoute::Completions => "completions",
            ApiRoute::Embeddings => "embeddings",
            ApiRoute::Rerank => "rerank",
            ApiRoute::Retrieve => "retrieve",
        }
    }

    /// Its line in a file of requests, with the end of the line.
    pub fn write_line(&self, id: &str) -> Vec<u8> {
        let path = match self.route {
            ApiRoute::Chat => "/chat/completions",
            ApiRoute::Completions => "/completions",
            ApiRoute::Embeddings => "/embeddings",
            ApiRoute::Rerank => "/rerank",
            // No batch API has it, and no retriever's settings name a folder of batch files.
            ApiRoute::Retrieve => "/retrieve",
        };
        // Azure's batch API has paths without a version.
        let version = if self.dialect == EndpointDialect::Azure { "" } else { "/v1" };
        let body = self.prepared.body_for(self.prepared.choices, 0).to_bytes();
        let head = format!(r#"{{"custom_id":{},"method":"POST","url":"{version}{path}","body":"#, json!(id));
        let mut line = Vec::with_capacity(head.len() + body.len() + 2);
        line.extend_from_slice(head.as_bytes());
        line.extend_from_slice(&body);
        line.extend_from_slice(b"}\n");
        line
    }

    /// Reads one line of results for this call. A usage is counted with every line that has one: an answer that cannot
    /// be used was paid, too.
    pub fn read_result(&mut self, line: &[u8]) -> ResultVerdict {
        self.end.attempts += 1;
        let (cause, message) = match self.read_answer(line) {
            Ok(answer) => return self.ended(CallVerdict::Answered(answer)),
            Err(found) => found,
        };
        let named = format!("{cause}: {message}");
        match cause.row().step {
            NextStep::Fail(kind) => self.ended(failed(kind, message)),
            NextStep::Retry(kind) => {
                self.counted += 1;
                match self.counted >= self.attempts {
                    true => self.ended(failed(kind, format!("{message} (after {} results)", self.end.attempts))),
                    false => ResultVerdict::Unusable(named),
                }
            }
            NextStep::Answer | NextStep::AskRest | NextStep::Wait | NextStep::Leave(_) => {
                ResultVerdict::Unusable(named)
            }
        }
    }

    fn ended(&mut self, verdict: CallVerdict) -> ResultVerdict {
        let end = std::mem::replace(&mut self.end, empty_end());
        ResultVerdict::Ended(Box::new(CallEnd { verdict, ..end }))
    }

    fn read_answer(&mut self, line: &[u8]) -> Result<CallAnswer, (AttemptCause, String)> {
        let (status, body) = result_body(line)?;
        if status != 200 {
            // The model is that of the job, and other lines may have its answers: it is gone, not unknown.
            let reply = HttpReply { status, headers: HeaderMap::new(), body: body.into() };
            let found = classify_status(&reply, KnownAnswers::all(true));
            return Err((found.cause, found.message));
        }
        match self.prepared.read_answer(&body, true) {
            Ok((answer, facts)) => self.take_answer(answer, facts),
            Err(fault) => {
                if fault.facts.usage.is_some() {
                    self.count_usage(*fault.facts, 0, false);
                }
                Err((fault.cause, fault.message))
            }
        }
    }

    fn take_answer(&mut self, answer: PartAnswer, facts: ReplyFacts) -> Result<CallAnswer, (AttemptCause, String)> {
        let wanted = self.prepared.choices as usize;
        let answer = match answer {
            PartAnswer::Whole(answer) => {
                self.count_usage(facts, 0, true);
                answer
            }
            PartAnswer::Choices(mut choices) => {
                choices.truncate(wanted);
                let complete = choices.len() == wanted;
                self.count_usage(facts, count_written(&choices), complete);
                if !complete {
                    let message = format!("{} choices instead of {wanted}", choices.len());
                    return Err((AttemptCause::FewerChoices, message));
                }
                CallAnswer::Generated(choices)
            }
        };
        Ok(answer)
    }

    /// Counts a paid result; `written` are its tokens by the rule, where the server does not count.
    fn count_usage(&mut self, facts: ReplyFacts, written: u64, used: bool) {
        let prompt = self.prepared.prompt_tokens.unwrap_or_else(|| count_tokens(self.prepared.prompt_bytes));
        let usage = facts.usage.unwrap_or(TokenUsage { prompt, completion: written, ..TokenUsage::default() });
        self.end.usage += usage;
        if used {
            self.end.answer_usage = usage;
        }
        self.end.answers += 1;
        self.end.model = facts.model.or(self.end.model.take());
        self.end.system_fingerprint = facts.system_fingerprint.or(self.end.system_fingerprint.take());
    }
}

/// The status and the body of a line of results. An error in place of a body becomes one.
fn result_body(line: &[u8]) -> Result<(u16, Vec<u8>), (AttemptCause, String)> {
    let unreadable = |error: serde_json::Error| (AttemptCause::NotJson, error.to_string());
    let ResultLine { response, error } = serde_json::from_slice(line).map_err(unreadable)?;
    let error = error.filter(|error| !error.is_null());
    let (status, body) = match (response, error) {
        (Some(ResultResponse { status_code, body: Some(body) }), _) => (status_code, body),
        // vLLM's form: the error stands beside the response's status.
        (Some(ResultResponse { status_code, body: None }), Some(error)) => (status_code, error_body(error)),
        (Some(ResultResponse { status_code, body: None }), None) => {
            return Err((AttemptCause::NotJson, format!("the response with the status {status_code} has no body")));
        }
        // The batch ended before the request was answered, or the runner failed.
        (None, Some(error)) => return Err((AttemptCause::TryAgain, format!("no response: {error}"))),
        (None, None) => return Err((AttemptCause::NotJson, "neither a response nor an error".to_owned())),
    };
    Ok((status, serde_json::to_vec(&body).map_err(unreadable)?))
}

/// An error as servers send it in a body.
fn error_body(error: Value) -> Value {
    match error.get("error") {
        Some(_) => error,
        None => json!({ "error": error }),
    }
}

fn failed(kind: FailureKind, message: String) -> CallVerdict {
    CallVerdict::Failed(CallFailure { kind, message })
}

#[cfg(test)]
mod tests;
