//! Errors of the journal.

use crate::store::StoreError;

/// A failed journal operation.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The segment was written by another version of the format.
    #[error("journal segment `{path}` has format version {found}; this program reads versions 1 to {supported}")]
    Version {
        /// The segment.
        path: String,
        /// Its version.
        found: u32,
        /// The last supported version.
        supported: u32,
    },
    /// The segment is torn, or was changed after it was written.
    #[error("journal segment `{path}` is corrupt: {what}")]
    Corrupt {
        /// The segment.
        path: String,
        /// The violated rule.
        what: &'static str,
    },
    /// A value's bytes do not match its checksum or its key.
    #[error("journal segment `{path}`: the value at byte {offset} is corrupt")]
    Value {
        /// The segment.
        path: String,
        /// Offset of the value, in bytes.
        offset: u64,
    },
    /// The segment could not be read. Another error of the same call gives the full reason.
    #[error("journal segment `{path}` cannot be read: {reason}")]
    Unreadable {
        /// The segment.
        path: String,
        /// Why.
        reason: String,
        /// Whether the store's error may pass.
        may_pass: bool,
    },
    /// A bucket that does not exist.
    #[error("bucket {found} does not exist; buckets are 0 to {}", super::entry::BUCKETS - 1)]
    Bucket {
        /// The given bucket.
        found: u16,
    },
    /// A value is too large.
    #[error("a value of {bytes} bytes does not fit in the journal, which holds up to {limit}")]
    TooLarge {
        /// Size of the value.
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
