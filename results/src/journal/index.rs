//! The index of a worker's answered requests: the keys of its buckets, in memory.

use super::format::KeyRow;
use super::reader::{self, SegmentNames, SegmentReader};
use super::{BUCKETS, JournalError, JournalKey, Segment};
use crate::parallel;
use crate::store::{Store, StoreError};
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

/// Segments to read before their keys enter the index. It bounds the keys held twice.
const WINDOW: usize = 128;

/// The place of a value in the journal, and the key of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerLocation {
    /// Number of the segment in the journal that returned this location.
    pub(super) segment: u32,
    /// Bytes of the value's record.
    pub(super) length: u32,
    /// Offset of the value's record in the segment.
    pub(super) offset: u64,
    /// The whole key, for comparison with the record's.
    pub(super) key: JournalKey,
}

impl AnswerLocation {
    pub(super) fn record_range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.length)
    }
}

/// A location without its key.
#[derive(Clone, Copy, Debug)]
struct KeySlot {
    offset: u64,
    segment: u32,
    length: u32,
}

/// Counts of the loaded segments and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Segments read or added.
    pub segments: u64,
    /// Keys in memory.
    pub keys: u64,
    /// Bytes of these segments.
    pub bytes: u64,
    /// Unreadable segments. Their answers are computed again.
    pub damaged: u64,
}

/// The answered requests of some buckets.
///
/// The table takes 33 bytes for each slot and is between 7/16 and 7/8 full: 38 to 75 bytes per key. A lookup uses the
/// first 16 bytes of the key (a hash); the whole key is compared when the value is read.
#[derive(Debug)]
pub struct Journal {
    slots: FxHashMap<u128, KeySlot>,
    owns: Vec<bool>,
    names: SegmentNames,
    reader: SegmentReader,
    damaged: Vec<JournalError>,
    stats: JournalStats,
}

impl Journal {
    /// Loads the keys of the owned buckets from all segments under the folders `prefixes`.
    ///
    /// If several segments hold a key, one of the `preferred` (object names) wins, else the segment with the greatest
    /// file name, the latest: a request is only answered again if its old answer was unusable, and the new answer
    /// replaces it. Corrupt segments, and segments removed since the listing, are left out and reported by
    /// [`Journal::damaged`]; their requests are computed again.
    ///
    /// # Errors
    /// [`JournalError::Version`], or an error of the store.
    pub fn open(
        store: &Store,
        prefixes: &[String],
        owns: &dyn Fn(u16) -> bool,
        preferred: &BTreeSet<String>,
    ) -> Result<Self, JournalError> {
        let owns: Vec<bool> = (0..BUCKETS).map(owns).collect();
        let mut segments = Vec::new();
        for prefix in prefixes {
            segments.extend(store.list(prefix)?.into_iter().filter(|(name, _)| name.ends_with(".seg")));
        }
        segments.sort_by(|(a, _), (b, _)| segment_rank(a, preferred).cmp(&segment_rank(b, preferred)));
        segments.dedup();
        let names = SegmentNames::default();
        let reader = SegmentReader::new(store.clone(), Arc::clone(&names));
        let mut journal = Self {
            slots: FxHashMap::default(),
            owns,
            names,
            reader,
            damaged: Vec::new(),
            stats: JournalStats::default(),
        };
        journal.load_segments(store, &segments)?;
        Ok(journal)
    }

    /// The location of a request's answer, if it is known. Costs about one access to main memory.
    #[inline]
    pub fn locate(&self, key: &JournalKey) -> Option<AnswerLocation> {
        let slot = self.slots.get(&key_prefix(key))?;
        Some(AnswerLocation { segment: slot.segment, length: slot.length, offset: slot.offset, key: *key })
    }

    /// The values at `locations`; see [`SegmentReader::read`].
    pub fn read(&self, locations: &[AnswerLocation]) -> Vec<Result<Bytes, JournalError>> {
        self.reader.read(locations)
    }

    /// A reader for another thread. It also reads locations in segments added later.
    pub fn reader(&self) -> SegmentReader {
        self.reader.clone()
    }

    /// Adds the owned entries of a newly written segment to the index. They replace known entries: a request is only
    /// answered again if its old answer was unusable.
    pub fn add_segment(&mut self, segment: &Segment) {
        let index = self.push_name(&segment.name);
        for row in segment.rows.iter().filter(|row| self.owns[row.bucket as usize]) {
            self.slots.insert(key_prefix(&row.key), slot_of_row(index, row));
        }
        self.stats.segments += 1;
        self.stats.bytes += segment.bytes();
    }

    /// Keys in memory.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if the index is empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Counts of the loaded segments and keys.
    pub fn stats(&self) -> JournalStats {
        JournalStats { keys: self.slots.len() as u64, damaged: self.damaged.len() as u64, ..self.stats }
    }

    /// Errors of the segments left out when the journal was opened.
    pub fn damaged(&self) -> &[JournalError] {
        &self.damaged
    }

    /// The object name of a location's segment.
    pub fn segment_name(&self, location: &AnswerLocation) -> Arc<str> {
        Arc::clone(&self.names.read().unwrap_or_else(PoisonError::into_inner)[location.segment as usize])
    }

    /// Reads the key tables, many at once, and indexes them in the order of `segments`: the first segment wins.
    fn load_segments(&mut self, store: &Store, segments: &[(String, u64)]) -> Result<(), JournalError> {
        for window in segments.chunks(WINDOW) {
            let owns = &self.owns;
            let tables = parallel::map(window, |(name, size)| reader::read_rows(store, name, *size, owns));
            for ((name, size), table) in window.iter().zip(tables) {
                match table {
                    Ok(rows) => {
                        let index = self.push_name(name);
                        for row in &rows {
                            self.slots.entry(key_prefix(&row.key)).or_insert(slot_of_row(index, row));
                        }
                        self.stats.segments += 1;
                        self.stats.bytes += size;
                    }
                    Err(error @ JournalError::Corrupt { .. }) => self.damaged.push(error),
                    Err(JournalError::Store(error @ (StoreError::NotFound { .. } | StoreError::Short { .. }))) => {
                        self.damaged.push(JournalError::Store(error))
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn push_name(&mut self, name: &str) -> u32 {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.push(Arc::from(name));
        (names.len() - 1) as u32
    }
}

/// The precedence of segments: preferred ones, then the latest by file name, then by folder.
fn segment_rank<'a>(name: &'a str, preferred: &BTreeSet<String>) -> (bool, Reverse<(&'a str, &'a str)>) {
    (!preferred.contains(name), Reverse((name.rsplit('/').next().unwrap_or(name), name)))
}

fn key_prefix(key: &JournalKey) -> u128 {
    let mut first = [0; 16];
    first.copy_from_slice(&key.0[..16]);
    u128::from_le_bytes(first)
}

fn slot_of_row(segment: u32, row: &KeyRow) -> KeySlot {
    KeySlot { offset: row.offset, segment, length: row.length }
}
