//! Answered requests, in immutable segments shared by all runs of a store.
//!
//! A worker answers the requests of some buckets and writes the answers as segments, each with one put. A later run,
//! or the same run after a crash and with any number of workers, loads the *keys* of its own buckets
//! ([`Journal::open`]), finds the location of an answer in memory ([`Journal::locate`]) and reads the value by range
//! ([`Journal::read`], or a [`SegmentReader`] on another thread). Segments need no log and no lock: two entries with
//! one key hold two answers to the same request, and a fixed rule chooses between them.
//!
//! ```text
//!   operator's thread            reader's thread
//!   Journal::locate(key) ------> SegmentReader::read([location]) --> bytes, or an error: a miss
//!   Journal::add(segment) <----- write_segment(entries)
//! ```
//!
//! The caller interprets the values; the journal checks that each one is as it was written.

mod error;
mod format;
mod index;
mod reader;
mod summary;
mod write;

pub use error::JournalError;
pub use index::{AnswerLocation, Journal, JournalStats};
pub use reader::SegmentReader;
pub use summary::{JournalSummary, SegmentEntry, journal_summary, scan_segment};
pub use write::{Segment, write_segment};

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
