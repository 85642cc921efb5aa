//! Work to be estimated: its size, and guesses of the hosts' part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The part of a run to be estimated.
#[derive(Clone, Debug, Default)]
pub struct ForecastedWork {
    /// Questions of the process.
    pub questions: u64,
    /// Configurations.
    pub configurations: u64,
    /// Outcomes of the whole run: of all processes, and of earlier generations.
    pub all_outcomes: u64,
    /// Workers of the process: as many requests of one service are computed at once at most.
    pub workers: u64,
    /// Weights of the services' models, where known.
    pub parameters: BTreeMap<String, u64>,
    /// The services that a server answers: only its answers tell how long they take, and many come at once.
    pub servers: BTreeSet<Arc<str>>,
}

/// Work of the hosts for a reply that no service counts, in seconds: a guess for runs that only read the journal. The
/// ratio of clock to work corrects it.
pub(super) const REPLY_WORK: f64 = 20e-6;

/// The same for an outcome, with its evaluation.
pub(super) const OUTCOME_WORK: f64 = 100e-6;

/// The same for a token of a request to a model: assembling, tokenising and queueing the request.
pub(super) const TOKEN_WORK: f64 = 1e-6;
