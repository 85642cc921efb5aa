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
//! Small segments are merged into larger ones by their writer, while its run goes on ([`SegmentMerger`]). A merged
//! segment names those that it replaces; an entry keeps the rank of the segment in which it was first written, and a
//! location in a segment that is gone is read from its successor, in this process and in others.
//!
//! The caller interprets the values; the journal checks that each one is as it was written.

mod entry;
mod error;
mod format;
mod index;
mod merge;
mod places;
mod reader;
mod summary;
mod visit;
mod write;

pub use entry::{BUCKETS, JournalEntry, JournalKey};
pub use error::JournalError;
pub use index::{AnswerLocation, FoundSegment, Journal, JournalStats};
pub use merge::{FAN_IN, GRACE_MS, LEFT_ALONE_BYTES, MergingWriter, SegmentMerger, share_left};
pub use reader::SegmentReader;
pub use summary::{JournalSummary, SegmentEntry, journal_summary, scan_run, scan_segment};
pub use write::{Segment, write_segment};
