//! An answered request: its bucket, its key and its answer.

use bytes::Bytes;

/// Buckets of routes. Fixed: it is part of the segments' format.
pub const BUCKETS: u16 = 4096;

/// The content address of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JournalKey(pub [u8; 32]);

impl std::fmt::Display for JournalKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An answered request to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The bucket of its route, below [`BUCKETS`].
    pub bucket: u16,
    /// The request's key.
    pub key: JournalKey,
    /// The answer, in the caller's encoding.
    pub bytes: Bytes,
}
