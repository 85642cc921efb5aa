//! What can go wrong with the journal.

use crate::store::StoreError;

/// A journal operation that did not work.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The segment was written by another version of the format.
    #[error("journal segment `{path}` has format version {found}; this program reads version {supported}")]
    Version {
        /// The segment.
        path: String,
        /// Its version.
        found: u32,
        /// The one that can be read.
        supported: u32,
    },
    /// The segment is not what was written: torn, or changed since.
    #[error("journal segment `{path}` is corrupt: {what}")]
    Corrupt {
        /// The segment.
        path: String,
        /// What does not hold.
        what: &'static str,
    },
    /// A value's bytes do not match its checksum or its key.
    #[error("journal segment `{path}`: the value at byte {offset} is corrupt")]
    Value {
        /// The segment.
        path: String,
        /// Where the value starts.
        offset: u64,
    },
    /// The segment could not be read, for a reason that another error of the same call tells in full.
    #[error("journal segment `{path}` cannot be read: {reason}")]
    Unreadable {
        /// The segment.
        path: String,
        /// Why.
        reason: String,
    },
    /// A bucket that does not exist.
    #[error("bucket {found} does not exist; buckets are 0 to {}", super::BUCKETS - 1)]
    Bucket {
        /// As given.
        found: u16,
    },
    /// A value that does not fit.
    #[error("a value of {bytes} bytes does not fit in the journal, which holds up to {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Compression failed.
    #[error("cannot compress a journal value")]
    Compression {
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
