//! Errors of a commit log.

use crate::check::FileRemedy;
use crate::store::StoreError;

/// A failed log operation.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A later generation has begun: this writer must stop.
    #[error("generation {generation} of the run has been superseded by generation {by}")]
    Superseded {
        /// The writer's generation.
        generation: u64,
        /// The latest generation.
        by: u64,
    },
    /// Two committers write in one generation.
    #[error("record {seq} of generation {generation} was written by another committer, {committer}")]
    Conflict {
        /// The number, already taken.
        seq: u64,
        /// The generation of both committers.
        generation: u64,
        /// The other committer.
        committer: String,
    },
    /// The record is not JSON of the right shape.
    #[error("commit record `{path}` cannot be read: {source}\nhint: {}", FileRemedy::Restore.hint())]
    Malformed {
        /// The record.
        path: String,
        /// Why, with line and column.
        #[source]
        source: serde_json::Error,
    },
    /// The record carries another number than its name.
    #[error("commit record `{path}` carries the number {found}")]
    Misplaced {
        /// The record.
        path: String,
        /// The number in it.
        found: u64,
    },
    /// The record was written by another version of the format.
    #[error("commit record `{path}` has format version {found}; this program reads version {supported}")]
    Version {
        /// The record.
        path: String,
        /// Its version.
        found: u32,
        /// The supported version.
        supported: u32,
    },
    /// A record is missing, but a later one exists.
    #[error("commit record `{missing}` is missing, but `{found}` is there")]
    Gap {
        /// The missing record.
        missing: String,
        /// The later record.
        found: String,
    },
}
