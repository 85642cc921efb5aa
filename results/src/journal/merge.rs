//! Merges small segments into larger ones while a run goes on, so that the number of objects does not grow with time.
//!
//! Paid answers are written within a second, a segment each; after a day that would be 86,400 objects. A
//! [`SegmentMerger`] merges the segments of one writer by levels, like the digits of a number: [`FAN_IN`] segments of a
//! level become one of the next, and a merge that would fill a level takes that level along. Segments of
//! [`LEFT_ALONE_BYTES`] and more stay as they are. So an entry is copied once for each level, and each level has fewer
//! than [`FAN_IN`] segments.
//!
//! ```text
//!   read the sources --> put the merged one --> readers of this process move --> wait GRACE_MS --> delete the sources
//!                        (durable)                                               (other readers finish)
//! ```
//!
//! *Nothing is ever lost*: a segment is deleted only when one with all its entries is durable, and only by this order.
//! A process that is killed in between leaves both, and a reader takes each entry once: the merged segment names what
//! it replaces. The next generation deletes the rest. This needs no fence: two processes that merge the same sources,
//! of which one was taken for dead, make two segments with the same entries; either may be read, and a source that is
//! gone is left out of a merge, since it has a successor.
//!
//! *Nothing is decided*: a merge keeps all entries, also several of one key, each with its origin, because the one that
//! counts depends on the reader (a run prefers the segments that its commits name), and because each was paid for.
//!
//! Values are copied as they are, and each one is checked on the way: a damaged source is left where it is.

use super::error::JournalError;
use super::format::{self, KeyRow, Lineage, ReplacedSegment, SegmentFooter};
use super::index::FoundSegment;
use super::reader::{self, SegmentReader};
use crate::layout::{SegmentId, SegmentName};
use crate::parallel;
use crate::store::{Store, StoreError};
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Segments of a level that become one of the next.
pub const FAN_IN: usize = 16;

/// A segment of this size or more is not merged.
pub const LEFT_ALONE_BYTES: u64 = 32 << 20;

/// The most bytes of the sources of a merge. They are held in memory, twice for a moment.
const MERGE_BYTES: u64 = 64 << 20;

/// The time between a merge and the removal of its sources, in milliseconds: for reads under way, and longer than the
/// listing of a folder.
pub const GRACE_MS: u64 = 10_000;

/// The writer whose segments are merged.
#[derive(Clone, Debug)]
pub struct MergingWriter {
    /// The folder of the segments.
    pub folder: String,
    /// The run.
    pub run: String,
    /// Its generation.
    pub generation: u64,
    /// The worker.
    pub worker: u32,
}

/// Merges the segments of one writer.
#[derive(Debug)]
pub struct SegmentMerger {
    store: Store,
    writer: MergingWriter,
    /// Moves to the merged segments.
    reader: Option<SegmentReader>,
    /// By level.
    waiting: BTreeMap<u32, Vec<WaitingSegment>>,
    /// Replaced segments, each with the time of its removal.
    replaced: VecDeque<(u64, String)>,
    /// Merges so far.
    merges: u32,
}

/// A segment to be merged.
#[derive(Clone, Debug)]
struct WaitingSegment {
    name: SegmentName,
    bytes: u64,
}

impl SegmentMerger {
    /// A merger without segments. `reader`, if there is one, reads from merged segments as soon as they are durable.
    pub fn new(store: &Store, writer: MergingWriter, reader: Option<SegmentReader>) -> Self {
        let (waiting, replaced) = (BTreeMap::new(), VecDeque::new());
        Self { store: store.clone(), writer, reader, waiting, replaced, merges: 0 }
    }

    /// Adds a durable segment of this writer.
    pub fn add_segment(&mut self, name: &str, bytes: u64) {
        if let Some(name) = SegmentName::parse(name) {
            self.add_waiting(0, WaitingSegment { name, bytes });
        }
    }

    /// Takes over segments of this folder that earlier generations of the run have left. No other merger may be given
    /// the same.
    pub fn take_over(&mut self, left: &[FoundSegment], now_ms: u64) {
        for FoundSegment { name, bytes, level, replaced } in left {
            let MergingWriter { folder, run, generation, .. } = &self.writer;
            if (&name.folder, &name.run) != (folder, run) || name.id.generation >= *generation {
                continue;
            }
            if *replaced {
                self.replaced.push_back((now_ms + GRACE_MS, name.object_name()));
            } else {
                self.add_waiting(*level, WaitingSegment { name: name.clone(), bytes: *bytes });
            }
        }
    }

    fn add_waiting(&mut self, level: u32, segment: WaitingSegment) {
        if segment.bytes < LEFT_ALONE_BYTES {
            self.waiting.entry(level).or_default().push(segment);
        }
    }

    /// Merges one group of segments, if a level is full. True if there was one.
    ///
    /// # Errors
    /// An error of the store. The sources are kept, and will be tried again.
    pub fn merge_once(&mut self, now_ms: u64) -> Result<bool, JournalError> {
        let Some((level, sources)) = self.take_group() else { return Ok(false) };
        match self.merge_sources(level, &sources, now_ms) {
            Ok(()) => Ok(true),
            Err(error) => {
                self.waiting.entry(level - 1).or_default().extend(sources);
                Err(error)
            }
        }
    }

    /// Deletes replaced segments whose time has come, or all of them at the end of a run. Returns their number.
    ///
    /// # Errors
    /// An error of the store. What is left will be tried again.
    pub fn delete_replaced(&mut self, now_ms: u64) -> Result<usize, JournalError> {
        let due: Vec<(u64, String)> = {
            let count = self.replaced.iter().take_while(|(at, _)| *at <= now_ms).count();
            self.replaced.drain(..count).collect()
        };
        let mut deleted = 0;
        let mut failure = None;
        for ((at, name), result) in due.iter().zip(parallel::map(&due, |(_, name)| self.store.delete(name))) {
            match result {
                Ok(()) => deleted += 1,
                Err(error) => {
                    self.replaced.push_back((*at, name.clone()));
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(deleted), |error| Err(error.into()))
    }

    /// The time of the next removal, in milliseconds since 1970.
    pub fn next_removal(&self) -> Option<u64> {
        self.replaced.front().map(|(at, _)| *at)
    }

    /// The segments to merge next, and the level of the merged one. All levels that would be full are taken together.
    fn take_group(&mut self) -> Option<(u32, Vec<WaitingSegment>)> {
        let (&first, _) = self.waiting.iter().find(|(_, waiting)| waiting.len() >= FAN_IN)?;
        let mut group = self.waiting.remove(&first).unwrap_or_default();
        let mut level = first + 1;
        while let Some(waiting) = self.waiting.get_mut(&level).filter(|waiting| waiting.len() + 1 >= FAN_IN) {
            group.append(waiting);
            level += 1;
        }
        group.sort_by_key(|segment| segment.name.id);
        let mut bytes = 0;
        let fitting = group.iter().take_while(|segment| {
            bytes += segment.bytes;
            bytes <= MERGE_BYTES
        });
        let fitting = fitting.count();
        let rest = group.split_off(fitting);
        self.waiting.entry(level - 1).or_default().extend(rest);
        Some((level, group))
    }

    fn merge_sources(&mut self, level: u32, sources: &[WaitingSegment], now_ms: u64) -> Result<(), JournalError> {
        let read = parallel::map(sources, |source| SourceSegment::read(&self.store, &source.name));
        let mut readable = Vec::with_capacity(sources.len());
        for (source, read) in sources.iter().zip(read) {
            match read {
                Ok(read) => readable.push((source.clone(), read)),
                // Another process has merged it: its entries are in that segment.
                Err(JournalError::Store(StoreError::NotFound { .. })) => {}
                Err(error @ JournalError::Store(_)) => return Err(error),
                Err(error) => tracing::warn!(%error, "a journal segment is not merged with others"),
            }
        }
        let [(first, _), .., (last, _)] = readable.as_slice() else {
            self.waiting.entry(level - 1).or_default().extend(readable.into_iter().map(|(source, _)| source));
            return Ok(());
        };
        debug_assert!(first.name.id < last.name.id, "this is a bug: sources are not in the order of names");
        let MergingWriter { folder, run, generation, worker } = self.writer.clone();
        let merge = self.merges + 1;
        let id = SegmentId { generation, worker, merge, ..last.name.id };
        let name = SegmentName { folder, run, id };
        let object = name.object_name();
        let sources: Vec<SourceSegment> = readable.into_iter().map(|(_, read)| read).collect();
        let merged = encode_merged(&name, level, &sources);
        let size = merged.bytes.len() as u64;
        self.store.put(&object, merged.bytes)?;
        self.merges = merge;
        if let Some(reader) = &self.reader {
            reader.adopt_merged(&object, &merged.sources);
        }
        self.replaced.extend(merged.sources.into_iter().map(|(name, _)| (now_ms + GRACE_MS, name)));
        self.add_waiting(level, WaitingSegment { name, bytes: size });
        Ok(())
    }
}

/// A segment to be merged, whole and checked.
struct SourceSegment {
    name: SegmentName,
    bytes: Bytes,
    footer: SegmentFooter,
    rows: Vec<KeyRow>,
}

impl SourceSegment {
    fn read(store: &Store, name: &SegmentName) -> Result<Self, JournalError> {
        let object = name.object_name();
        let (bytes, path) = (store.get(&object)?, store.full_name(&object));
        let (footer, rows) = reader::parse_segment(&path, &bytes)?;
        for row in &rows {
            let record = &bytes[row.offset as usize..(row.offset + u64::from(row.length)) as usize];
            if !format::is_intact(record, &row.key) {
                return Err(JournalError::Value { path, offset: row.offset });
            }
        }
        Ok(Self { name: name.clone(), bytes, footer, rows })
    }

    /// The segments that it replaces, itself included, without a move.
    fn replaced(&self) -> Vec<ReplacedSegment> {
        let mut replaced = self.footer.lineage.as_ref().map_or(Vec::new(), |lineage| lineage.replaced.clone());
        replaced.push(ReplacedSegment { id: self.name.id, shift: 0 });
        replaced
    }

    /// The segment in which an entry was first written.
    fn origin_of(&self, row: &KeyRow) -> SegmentId {
        self.footer.lineage.as_ref().map_or(self.name.id, |lineage| lineage.replaced[row.origin as usize].id)
    }
}

/// A merged segment to be written.
struct EncodedMerge {
    bytes: Bytes,
    /// The object names of its sources, each with its shift.
    sources: Vec<(String, u64)>,
}

/// The bytes of the segment `name`, merged from `sources` of the same folder and run, in the order of their names.
fn encode_merged(name: &SegmentName, level: u32, sources: &[SourceSegment]) -> EncodedMerge {
    let mut out = format::segment_header(format::MERGED_VERSION).to_vec();
    let (mut replaced, mut shifts, mut moved) = (BTreeMap::new(), Vec::new(), Vec::new());
    for source in sources {
        let shift = (out.len() - format::HEADER_BYTES) as u64;
        out.extend_from_slice(&source.bytes[format::HEADER_BYTES..source.footer.table as usize]);
        for ReplacedSegment { id, shift: before } in source.replaced() {
            replaced.entry(id).or_insert(before + shift);
        }
        shifts.push(shift);
        moved.push((source.name.object_name(), shift));
    }
    let numbers: BTreeMap<SegmentId, u32> = replaced.keys().enumerate().map(|(n, id)| (*id, n as u32)).collect();
    let mut rows: Vec<KeyRow> = Vec::with_capacity(sources.iter().map(|source| source.rows.len()).sum());
    for (source, shift) in sources.iter().zip(&shifts) {
        rows.extend(source.rows.iter().map(|row| {
            let origin = numbers[&source.origin_of(row)];
            KeyRow { offset: row.offset + shift, origin, ..*row }
        }));
    }
    rows.sort_by_key(|row| (row.bucket, row.key, Reverse(row.origin)));
    // Two merged sources may have an origin in common, if two processes merged it.
    rows.dedup_by(|next, kept| (next.bucket, next.key, next.origin) == (kept.bucket, kept.key, kept.origin));
    let table_offset = out.len() as u64;
    let mut table = Vec::with_capacity(rows.len() * format::ROW_BYTES);
    rows.iter().for_each(|row| format::push_row(&mut table, row));
    let lineage = Lineage {
        folder: name.folder.clone(),
        run: name.run.clone(),
        level,
        replaced: replaced.into_iter().map(|(id, shift)| ReplacedSegment { id, shift }).collect(),
    };
    let footer = format::encode_footer(&rows, &table, table_offset, Some(&lineage));
    out.extend_from_slice(&table);
    out.extend_from_slice(&footer);
    EncodedMerge { bytes: Bytes::from(out), sources: moved }
}

/// The segments of `found` that worker `index` of `workers` takes over from earlier generations, so that each segment
/// has one worker.
pub fn share_left(found: &[FoundSegment], run: &str, index: usize, workers: usize) -> Vec<FoundSegment> {
    let mine = |found: &&FoundSegment| found.name.run == run && found.name.id.worker as usize % workers == index;
    let names: BTreeSet<FoundSegment> = found.iter().filter(mine).cloned().collect();
    names.into_iter().collect()
}
