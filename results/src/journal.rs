//! Answered requests, in immutable segments that all runs of a store share.
//!
//! A worker answers the requests of some buckets, and writes what it has answered as segments, each one put. A later
//! run, or the same one after a crash and with any number of workers, loads the *keys* of its own buckets
//! ([`Journal::open`]), finds a request's answer in memory ([`Journal::locate`]) and reads the value by range
//! ([`Journal::read`], or a [`SegmentReader`] on another thread). Segments need no log and no lock: an entry that is
//! there twice holds two answers to the same question, and a fixed rule says which one counts.
//!
//! ```text
//!   operator's thread            reader's thread
//!   Journal::locate(key) ------> SegmentReader::read([location]) --> bytes, or an error: a miss
//!   Journal::add(segment) <----- write_segment(entries)
//! ```
//!
//! What a value means is the caller's; the journal checks that it is the one that was written.

mod error;
mod format;
mod index;
mod reader;
mod summary;
mod write;

pub use error::JournalError;
pub use index::{Journal, JournalStats, Location};
pub use reader::SegmentReader;
pub use summary::{JournalSummary, SegmentEntry, scan_segment, summary};
pub use write::{Segment, write_segment};

use bytes::Bytes;

/// Buckets of routes. Fixed: it is part of what a segment means.
pub const BUCKETS: u16 = 4096;

/// The content address of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; 32]);

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An answered request, to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The bucket of its route, below [`BUCKETS`].
    pub bucket: u16,
    /// Which request.
    pub key: Key,
    /// Its answer, as the caller writes answers.
    pub bytes: Bytes,
}
