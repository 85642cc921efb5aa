//! The index of a worker's answered requests: the keys of its buckets, in memory.

use super::entry::{BUCKETS, JournalKey};
use super::error::JournalError;
use super::format::{KeyRow, Lineage};
use super::reader::{self, SegmentReader};
use super::visit::{JournalVisit, SegmentPart, visit_segments};
use super::write::Segment;
use crate::layout::SegmentName;
use crate::store::{Store, StoreError};
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;

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
    reader: SegmentReader,
    damaged: Vec<JournalError>,
    stats: JournalStats,
    found: Vec<FoundSegment>,
}

/// A segment found when a journal was opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundSegment {
    /// Its name.
    pub name: SegmentName,
    /// Its size in bytes.
    pub bytes: u64,
    /// Merges between the first written segments and this one, at most; 0 if it is not merged.
    pub level: u32,
    /// Whether a merged segment replaces it, so that nothing of it is needed any more.
    pub replaced: bool,
}

impl Journal {
    /// Loads the keys of the owned buckets from all segments under the folders `prefixes`.
    ///
    /// If several segments hold a key, one of the `preferred` (object names) wins, else the segment with the greatest
    /// file name, the latest: a request is only answered again if its old answer was unusable, and the new answer
    /// replaces it. An entry of a merged segment has the rank of the segment in which it was first written. Corrupt
    /// segments, and segments removed since the listing without a successor, are left out and reported by
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
        let mut journal = Self {
            slots: FxHashMap::default(),
            owns: Vec::new(),
            reader: SegmentReader::new(store.clone()),
            damaged: Vec::new(),
            stats: JournalStats::default(),
            found: Vec::new(),
        };
        let mut origins = LoadedOrigins::default();
        let visit = JournalVisit { store, prefixes, wanted: &|_| true };
        let read = |name: &str, size: u64| {
            let (footer, rows) = reader::read_rows(store, name, size, &owns)?;
            Ok(SegmentPart { lineage: footer.lineage, content: rows })
        };
        let replaced = visit_segments(&visit, read, &mut |name, size, part| {
            let SegmentPart { lineage, content: rows } = match part {
                Ok(part) => part,
                Err(error @ JournalError::Corrupt { .. }) => {
                    journal.damaged.push(error);
                    return Ok(());
                }
                Err(JournalError::Store(error @ (StoreError::NotFound { .. } | StoreError::Short { .. }))) => {
                    journal.damaged.push(JournalError::Store(error));
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            journal.stats.segments += 1;
            journal.stats.bytes += size;
            let level = lineage.as_ref().map_or(0, |lineage| lineage.level);
            journal.note_found(name, size, level, false);
            journal.load_rows(&mut origins, preferred, LoadedSegment { name: name.to_owned(), lineage }, &rows);
            Ok(())
        })?;
        replaced.iter().for_each(|(name, size)| journal.note_found(name, *size, 0, true));
        journal.owns = owns;
        journal.number_segments(&origins);
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
        let index = self.reader.number_segment(&segment.name);
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

    /// The segments found when the journal was opened, those of other runs included.
    pub fn found(&self) -> &[FoundSegment] {
        &self.found
    }

    /// The latest creation that a name of [`Journal::found`] tells, in milliseconds since 1970. Clocks of hosts differ:
    /// what was found may be of a later time than now.
    pub fn latest_ms(&self) -> u64 {
        self.found.iter().map(|found| found.name.id.created_ms).max().unwrap_or(0)
    }

    /// Forgets [`Journal::found`]: a large journal has many names.
    pub fn forget_found(&mut self) {
        self.found = Vec::new();
    }

    /// The object that holds a location's segment now.
    pub fn segment_name(&self, location: &AnswerLocation) -> Arc<str> {
        self.reader.object_of(location.segment)
    }

    fn note_found(&mut self, name: &str, bytes: u64, level: u32, replaced: bool) {
        self.found.extend(SegmentName::parse(name).map(|name| FoundSegment { name, bytes, level, replaced }));
    }

    /// Indexes a segment's rows. Until [`Journal::number_segments`] a slot's segment is the number of its origin.
    fn load_rows(
        &mut self,
        origins: &mut LoadedOrigins,
        preferred: &BTreeSet<String>,
        segment: LoadedSegment,
        rows: &[KeyRow],
    ) {
        let first = origins.add_segment(segment);
        for row in rows {
            let slot = slot_of_row(first + row.origin, row);
            match self.slots.entry(key_prefix(&row.key)) {
                Entry::Vacant(vacant) => drop(vacant.insert(slot)),
                Entry::Occupied(mut held) => {
                    if origins.rank(slot.segment, preferred) < origins.rank(held.get().segment, preferred) {
                        held.insert(slot);
                    }
                }
            }
        }
    }

    /// Gives each loaded segment its number, and each slot that of its segment.
    fn number_segments(&mut self, origins: &LoadedOrigins) {
        let numbers: Vec<u32> =
            origins.segments.iter().map(|(_, segment)| self.reader.number_segment(&segment.name)).collect();
        for slot in self.slots.values_mut() {
            slot.segment = numbers[origins.index_of(slot.segment)];
        }
    }
}

/// A segment whose keys are being loaded.
struct LoadedSegment {
    name: String,
    lineage: Option<Lineage>,
}

/// The origins of all loaded segments, numbered in order.
#[derive(Default)]
struct LoadedOrigins {
    /// Each with the number of its first origin.
    segments: Vec<(u32, LoadedSegment)>,
    next: u32,
}

impl LoadedOrigins {
    /// Adds a segment, and returns the number of its first origin.
    fn add_segment(&mut self, segment: LoadedSegment) -> u32 {
        let first = self.next;
        self.next += segment.lineage.as_ref().map_or(1, |lineage| lineage.replaced.len() as u32);
        self.segments.push((first, segment));
        first
    }

    /// The index of an origin's segment.
    fn index_of(&self, origin: u32) -> usize {
        self.segments.partition_point(|(first, _)| *first <= origin) - 1
    }

    /// The precedence of an origin: preferred ones, then the latest by file name, then by folder. If two merged
    /// segments have the origin, the later one counts, since the other may be about to be removed.
    fn rank(&self, origin: u32, preferred: &BTreeSet<String>) -> impl Ord {
        let (first, LoadedSegment { name: object, lineage }) = &self.segments[self.index_of(origin)];
        let name = match lineage {
            None => object.clone(),
            Some(lineage) => lineage.name_of(&lineage.replaced[(origin - first) as usize]),
        };
        let file = name.rsplit('/').next().unwrap_or(&name).to_owned();
        (!preferred.contains(&name), Reverse((file, name, object.clone())))
    }
}

fn key_prefix(key: &JournalKey) -> u128 {
    let mut first = [0; 16];
    first.copy_from_slice(&key.0[..16]);
    u128::from_le_bytes(first)
}

fn slot_of_row(segment: u32, row: &KeyRow) -> KeySlot {
    KeySlot { offset: row.offset, segment, length: row.length }
}
