//! The writers of a run: their identities, and their receipts for durable writes.

use crate::services::usage::{ServiceUsage, Usage};
use crate::write_backlog::WriteBacklog;
use hopeval_results::FileCheck;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The identity of a writer of segments and parts.
#[derive(Clone, Debug)]
pub struct WriterId {
    /// The run.
    pub run: String,
    /// Its generation.
    pub generation: u64,
    /// The worker.
    pub worker: u32,
}

/// Counts the writes of a writer that are not durable yet.
#[derive(Clone)]
pub struct WriteCounts {
    /// Writes of all writers of the process.
    pub open: Arc<AtomicUsize>,
    /// What this writer has under way.
    pub backlog: WriteBacklog,
}

/// A durable part of outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WrittenPart {
    /// The object.
    pub name: String,
    /// Its check.
    pub check: FileCheck,
}

/// A durable write of one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Receipt {
    /// Responses.
    Segment {
        /// The object.
        name: String,
    },
    /// Outcomes, and the usage of the worker's services until then.
    Part {
        /// The object; `None` if the receipt only reports usage.
        part: Option<WrittenPart>,
        /// Its cohorts, as (cohort, outcomes).
        #[serde(rename = "chunks")]
        cohorts: Vec<(u64, u64)>,
        /// Usage of services since the worker's last receipt.
        used: Vec<(String, Usage)>,
    },
}

/// A note in a commit, for sums of usage and for observers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CommitNote {
    /// Usage of services since the previous commit.
    pub spent: Vec<ServiceUsage>,
}
