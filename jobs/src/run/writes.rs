//! The writers of a run: their names, and their news of durable writes.

use crate::services::usage::{ServiceUsage, Usage};
use serde::{Deserialize, Serialize};

/// Whose segments they are.
#[derive(Clone, Debug)]
pub struct Author {
    /// The run.
    pub run: String,
    /// Its generation.
    pub generation: u64,
    /// The worker.
    pub worker: u32,
}

/// A durable write of one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Receipt {
    /// Responses.
    Segment {
        /// The object.
        name: String,
    },
    /// Outcomes, and what the worker's services did until then.
    Part {
        /// The object; none if there were only spendings to report.
        part: Option<String>,
        /// (chunk, outcomes) that it holds.
        chunks: Vec<(u64, u64)>,
        /// What services did since the worker's last receipt.
        used: Vec<(String, Usage)>,
    },
}

/// What a commit carries for whoever adds up or watches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// What services did, since the commit before.
    pub spent: Vec<ServiceUsage>,
}
