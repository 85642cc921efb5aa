//! Counters of an endpoint, for metrics and reports.

use crate::answer::{CallVerdict, FailureKind, TokenUsage};
use crate::verdict::{AttemptCause, CAUSES, VERDICTS};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most pairs of model and fingerprint that are kept; a server with more changes with every answer.
const MOST_MODELS: usize = 64;

/// The counters of one endpoint since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointUsage {
    /// Calls taken.
    pub calls: u64,
    /// Calls answered.
    pub answered: u64,
    /// Calls that failed, by kind.
    pub failed: BTreeMap<FailureKind, u64>,
    /// HTTP requests begun.
    pub attempts: u64,
    /// HTTP requests by the cause of their end, in the order of [`AttemptCause`].
    pub causes: [u64; CAUSES],
    /// Tokens by all answers.
    pub tokens: TokenUsage,
    /// HTTP requests in flight.
    pub in_flight: usize,
    /// Calls that wait for their turn.
    pub waiting: usize,
    /// The most calls in flight now, by the limits that the server stated.
    pub concurrency: usize,
    /// Answers by the server's own names: model, fingerprint. More than one line is drift.
    pub models: BTreeMap<(String, String), u64>,
}

impl EndpointUsage {
    /// The HTTP requests that ended for a cause.
    pub fn count_of(&self, cause: AttemptCause) -> u64 {
        self.causes[cause as usize]
    }

    /// The causes that occurred, with their counts.
    pub fn counted_causes(&self) -> impl Iterator<Item = (AttemptCause, u64)> + '_ {
        VERDICTS.iter().map(|row| (row.cause, self.count_of(row.cause))).filter(|(_, count)| *count > 0)
    }
}

/// One line for logs: `5 calls (4 answered, 1 refused), 7 attempts (5 answered, 2 status_503)`.
impl fmt::Display for EndpointUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failed.iter().map(|(kind, count)| (kind.name(), *count));
        let answered = [("answered", self.answered)].into_iter().filter(|(_, count)| *count > 0);
        let causes = self.counted_causes().map(|(cause, count)| (cause.row().name, count));
        write!(f, "{} calls{}", self.calls, named_counts(answered.chain(failed)))?;
        write!(f, ", {} attempts{}", self.attempts, named_counts(causes))
    }
}

/// ` (2 of_one_kind, 3 of_another)`, or nothing.
fn named_counts<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let parts: Vec<String> = counts.map(|(name, count)| format!("{count} {name}")).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// The counters as they grow.
pub(crate) struct UsageCounters(Mutex<EndpointUsage>);

impl UsageCounters {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(EndpointUsage {
            calls: 0,
            answered: 0,
            failed: BTreeMap::new(),
            attempts: 0,
            causes: [0; CAUSES],
            tokens: TokenUsage::default(),
            in_flight: 0,
            waiting: 0,
            concurrency: 0,
            models: BTreeMap::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, EndpointUsage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call was taken.
    pub(crate) fn count_call(&self) {
        self.lock().calls += 1;
    }

    /// An HTTP request was begun.
    pub(crate) fn count_attempt(&self) {
        self.lock().attempts += 1;
    }

    /// An HTTP request ended.
    pub(crate) fn count_cause(&self, cause: AttemptCause) {
        self.lock().causes[cause as usize] += 1;
    }

    /// An answer was read.
    pub(crate) fn count_answer(&self, tokens: TokenUsage, model: Option<&str>, fingerprint: Option<&str>) {
        let mut usage = self.lock();
        usage.tokens += tokens;
        let (model, fingerprint) = (model.unwrap_or_default(), fingerprint.unwrap_or_default());
        // Most servers have one pair. A look-up by key would need a copy of both texts.
        let known = usage.models.iter_mut().find(|(pair, _)| pair.0 == model && pair.1 == fingerprint);
        if let Some((_, count)) = known {
            *count += 1;
        } else if usage.models.len() < MOST_MODELS {
            usage.models.insert((model.to_owned(), fingerprint.to_owned()), 1);
        }
    }

    /// A call ended, or had a part of its answer.
    pub(crate) fn count_end(&self, verdict: &CallVerdict) {
        let mut usage = self.lock();
        match verdict {
            CallVerdict::Answered(_) => usage.answered += 1,
            CallVerdict::Part(_) => {}
            CallVerdict::Failed(failure) => *usage.failed.entry(failure.kind).or_default() += 1,
        }
    }

    /// The counters now, with the load by the limits' owner: in flight, waiting, the most in flight.
    pub(crate) fn snapshot(&self, (in_flight, waiting, concurrency): (usize, usize, usize)) -> EndpointUsage {
        EndpointUsage { in_flight, waiting, concurrency, ..self.lock().clone() }
    }
}
