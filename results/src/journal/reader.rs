//! Reads values from segments by range, and key tables. Values of segments that are gone are read from the merged
//! segment that replaces them.

use super::entry::JournalKey;
use super::error::JournalError;
use super::format::{self, BucketRows, KeyRow, Lineage, SegmentFooter, SegmentTrailer, TRAILER_BYTES};
use super::index::AnswerLocation;
use super::places::SegmentPlaces;
use crate::layout::SegmentName;
use crate::parallel;
use crate::store::{Store, StoreError};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Bytes of the first read, from the end of a segment: mostly enough for the directory, and for the whole table of a
/// small segment.
const TAIL_BYTES: u64 = 64 << 10;

/// Values with a gap of at most this size are read together: on a bucket a request costs more than such a gap.
const GAP_BYTES: u64 = 32 << 10;

/// The longest range of one read.
const RANGE_BYTES: u64 = 8 << 20;

/// Tries of a read whose segment is gone. Each finds another successor, and a merge of merged segments takes minutes.
const ROUNDS: usize = 4;

/// Reads values; clones may be used from any thread, and share their knowledge of merged segments.
#[derive(Clone, Debug)]
pub struct SegmentReader {
    store: Store,
    places: Arc<RwLock<SegmentPlaces>>,
    /// Held while successors are searched for: several searches at once would list the same folder.
    searching: Arc<Mutex<()>>,
}

/// A record to be read.
struct WantedRecord {
    /// Its index in the answer.
    index: usize,
    /// Number of the object that holds it.
    object: u32,
    /// Its place in that object.
    range: Range<u64>,
}

impl SegmentReader {
    pub(super) fn new(store: Store) -> Self {
        Self { store, places: Arc::default(), searching: Arc::default() }
    }

    /// The values at `locations`, in their order. Neighbouring values are read together.
    ///
    /// A segment that is gone was merged with others: its folder is listed again, and the values are read from its
    /// successor. A segment that is missing without a successor, or corrupt, gives an error for each of its locations;
    /// the other locations give their values. Callers treat an error as a miss.
    pub fn read(&self, locations: &[AnswerLocation]) -> Vec<Result<Bytes, JournalError>> {
        let mut values: Vec<Option<Result<Bytes, JournalError>>> = locations.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..locations.len()).collect();
        for round in 0..ROUNDS {
            let (missing, lost) = self.read_open(locations, &open, &mut values);
            if missing.is_empty() || round + 1 == ROUNDS || !self.find_successors(&missing) {
                break;
            }
            open = lost;
        }
        values.into_iter().flatten().collect()
    }

    /// Reads some of `locations`. Returns the names of the objects that are gone, and the locations in them.
    fn read_open(
        &self,
        locations: &[AnswerLocation],
        open: &[usize],
        values: &mut [Option<Result<Bytes, JournalError>>],
    ) -> (BTreeSet<Arc<str>>, Vec<usize>) {
        let mut records = self.locate_records(locations, open);
        records.sort_by_key(|record| (record.object, record.range.start));
        let groups: Vec<&[WantedRecord]> = records.chunk_by(|a, b| a.object == b.object).collect();
        let names: Vec<Arc<str>> = {
            let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
            groups.iter().map(|group| places.object_name(group[0].object)).collect()
        };
        let ranges: Vec<Vec<Range<u64>>> = groups.iter().map(|group| coalesce_ranges(group)).collect();
        let wanted: Vec<(&str, Vec<Range<u64>>)> =
            names.iter().zip(&ranges).map(|(name, ranges)| (&**name, ranges.clone())).collect();
        let blocks = self.store.get_ranges_many(&wanted);
        let (mut missing, mut lost) = (BTreeSet::new(), Vec::new());
        for (((group, ranges), name), blocks) in groups.iter().zip(&ranges).zip(&names).zip(blocks) {
            let path = self.store.full_name(name);
            if matches!(blocks, Err(StoreError::NotFound { .. })) {
                missing.insert(Arc::clone(name));
                lost.extend(group.iter().map(|record| record.index));
            }
            for record in *group {
                values[record.index] = Some(match &blocks {
                    Ok(blocks) => value_from_blocks(&path, &locations[record.index].key, record, ranges, blocks),
                    Err(error) => Err(unreadable_segment(&path, error)),
                });
            }
        }
        (missing, lost)
    }

    /// The present places of some of `locations`.
    fn locate_records(&self, locations: &[AnswerLocation], open: &[usize]) -> Vec<WantedRecord> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let located = open.iter().map(|&index| {
            let location = &locations[index];
            let (object, shift) = places.place(location.segment);
            let start = location.offset.saturating_add(shift);
            WantedRecord { index, object, range: start..start.saturating_add(u64::from(location.length)) }
        });
        located.collect()
    }

    /// Searches the folders of `missing` objects for merged segments that replace them. True if one was found, or if
    /// the folder changes so quickly that another look may find one.
    fn find_successors(&self, missing: &BTreeSet<Arc<str>>) -> bool {
        let _one = self.searching.lock().unwrap_or_else(PoisonError::into_inner);
        // The listing of a folder on a disk may miss an object that is made meanwhile, so there are two.
        for _ in 0..2 {
            let wanted: Vec<SegmentName> = {
                let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
                if missing.iter().any(|name| !places.has_records(name)) {
                    return true;
                }
                missing
                    .iter()
                    .filter(|name| !places.is_lost(name))
                    .filter_map(|name| SegmentName::parse(name))
                    .collect()
            };
            if wanted.is_empty() {
                return false;
            }
            match self.adopt_successors(&wanted) {
                Ok(false) => {}
                Ok(true) => return true,
                // The values then have the error of their own reads.
                Err(error) => {
                    tracing::warn!("the journal cannot be searched for a merged segment: {error}");
                    return false;
                }
            }
        }
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        missing.iter().for_each(|name| places.note_lost(name));
        false
    }

    /// Reads the lineages of merged segments by the writers of `wanted` segments. True if one of them has records that
    /// this reader knows, or is gone already.
    fn adopt_successors(&self, wanted: &[SegmentName]) -> Result<bool, StoreError> {
        let writers: BTreeSet<(&str, &str)> =
            wanted.iter().map(|name| (name.folder.as_str(), name.run.as_str())).collect();
        let folders: BTreeSet<&str> = writers.iter().map(|(folder, _)| *folder).collect();
        let mut listed = Vec::new();
        for folder in folders {
            listed.extend(self.store.list(folder)?);
        }
        {
            let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
            listed.retain(|(name, _)| {
                let merged = SegmentName::parse(name).filter(|name| name.id.merge > 0);
                merged.is_some_and(|it| writers.contains(&(it.folder.as_str(), it.run.as_str())))
                    && !places.is_adopted(name)
            });
        }
        // The latest has replaced the others, if they replaced the same.
        listed.reverse();
        let footers = parallel::map(&listed, |(name, size)| read_footer(&self.store, name, *size));
        let mut found = false;
        for ((name, _), footer) in listed.iter().zip(footers) {
            match footer {
                Ok(SegmentFooter { lineage: Some(lineage), .. }) => found |= self.adopt_lineage(name, &lineage),
                Err(JournalError::Store(StoreError::NotFound { .. })) => found = true,
                // A damaged successor is as good as none.
                _ => {}
            }
        }
        Ok(found)
    }

    /// From now on reads records of replaced segments from the merged segment `name`. True if there are such records.
    fn adopt_lineage(&self, name: &str, lineage: &Lineage) -> bool {
        let replaced: Vec<(String, u64)> =
            lineage.replaced.iter().map(|replaced| (lineage.name_of(replaced), replaced.shift)).collect();
        self.places.write().unwrap_or_else(PoisonError::into_inner).adopt_merged(name, &replaced, false)
    }

    /// As [`SegmentReader::adopt_lineage`], for sources of this process, each with its shift.
    pub(super) fn adopt_merged(&self, name: &str, sources: &[(String, u64)]) {
        self.places.write().unwrap_or_else(PoisonError::into_inner).adopt_merged(name, sources, true);
    }

    /// The number of a segment, for locations in it.
    pub(super) fn number_segment(&self, name: &str) -> u32 {
        self.places.write().unwrap_or_else(PoisonError::into_inner).number_segment(name)
    }

    /// The object that holds the records of a segment now.
    pub(super) fn object_of(&self, segment: u32) -> Arc<str> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.object_name(places.place(segment).0)
    }
}

fn unreadable_segment(path: &str, error: &StoreError) -> JournalError {
    JournalError::Unreadable { path: path.to_owned(), reason: error.to_string(), may_pass: error.may_pass() }
}

/// The ranges to read for records of one object, sorted by offset.
fn coalesce_ranges(group: &[WantedRecord]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for WantedRecord { range: wanted, .. } in group {
        match ranges.last_mut() {
            Some(last) if wanted.start <= last.end + GAP_BYTES && wanted.end - last.start <= RANGE_BYTES => {
                last.end = last.end.max(wanted.end);
            }
            _ => ranges.push(wanted.clone()),
        }
    }
    ranges
}

/// Cuts one value out of the blocks read from its segment.
fn value_from_blocks(
    path: &str,
    key: &JournalKey,
    record: &WantedRecord,
    ranges: &[Range<u64>],
    blocks: &[Bytes],
) -> Result<Bytes, JournalError> {
    let wanted = &record.range;
    let corrupt = || JournalError::Value { path: path.to_owned(), offset: wanted.start };
    let at = ranges.partition_point(|range| range.start <= wanted.start).checked_sub(1).ok_or_else(corrupt)?;
    let start = (wanted.start - ranges[at].start) as usize;
    let length = (wanted.end - wanted.start) as usize;
    let bytes = start.checked_add(length).and_then(|end| blocks[at].get(start..end)).ok_or_else(corrupt)?;
    match format::read_record(bytes) {
        Some((found, value)) if found == *key => Ok(Bytes::from(value)),
        _ => Err(corrupt()),
    }
}

/// The end of a segment, read once, with its directory.
struct SegmentTail {
    footer: SegmentFooter,
    /// Offset of `bytes` in the segment.
    start: u64,
    bytes: Bytes,
}

fn read_tail(store: &Store, name: &str, size: u64) -> Result<SegmentTail, JournalError> {
    let path = store.full_name(name);
    if size < (format::HEADER_BYTES + TRAILER_BYTES) as u64 {
        return Err(JournalError::Corrupt { path, what: "it is shorter than an empty segment" });
    }
    let mut start = size.saturating_sub(TAIL_BYTES);
    let mut bytes = store.get_range(name, start..size)?;
    let trailer = SegmentTrailer::from_bytes(&path, &bytes)?;
    let footer_bytes = trailer.footer_bytes();
    if footer_bytes > size {
        return Err(JournalError::Corrupt { path, what: "its directory is larger than itself" });
    }
    if footer_bytes > bytes.len() as u64 {
        start = size - footer_bytes;
        bytes = store.get_range(name, start..size)?;
    }
    let footer = trailer.read_directory(&path, size, &bytes[bytes.len() - footer_bytes as usize..])?;
    Ok(SegmentTail { footer, start, bytes })
}

/// The directory and all rows of a segment that is in memory.
pub(super) fn parse_segment(path: &str, bytes: &[u8]) -> Result<(SegmentFooter, Vec<KeyRow>), JournalError> {
    let corrupt = |what| JournalError::Corrupt { path: path.to_owned(), what };
    if bytes.len() < format::HEADER_BYTES + TRAILER_BYTES {
        return Err(corrupt("it is shorter than an empty segment"));
    }
    let trailer = SegmentTrailer::from_bytes(path, bytes)?;
    let footer_at = (bytes.len() as u64).checked_sub(trailer.footer_bytes());
    let footer_at = footer_at.ok_or_else(|| corrupt("its directory is larger than itself"))? as usize;
    let footer = trailer.read_directory(path, bytes.len() as u64, &bytes[footer_at..])?;
    let mut rows = Vec::with_capacity(footer.rows as usize);
    for bucket in &footer.buckets {
        let range = footer.row_range(bucket);
        rows.extend(footer.read_bucket(path, bucket, &bytes[range.start as usize..range.end as usize])?);
    }
    Ok((footer, rows))
}

/// The directory of a segment of `size` bytes.
pub(super) fn read_footer(store: &Store, name: &str, size: u64) -> Result<SegmentFooter, JournalError> {
    read_tail(store, name, size).map(|tail| tail.footer)
}

/// The rows of a segment's wanted buckets, in order, and its directory.
pub(super) fn read_rows(
    store: &Store,
    name: &str,
    size: u64,
    owns: &[bool],
) -> Result<(SegmentFooter, Vec<KeyRow>), JournalError> {
    let tail = read_tail(store, name, size)?;
    let path = store.full_name(name);
    let wanted: Vec<BucketRows> =
        tail.footer.buckets.iter().copied().filter(|bucket| owns[bucket.bucket as usize]).collect();
    let far: Vec<Range<u64>> =
        wanted.iter().map(|b| tail.footer.row_range(b)).filter(|r| r.start < tail.start).collect();
    let mut far_bytes = if far.is_empty() { Vec::new() } else { store.get_ranges(name, &far)? }.into_iter();
    let mut rows = Vec::with_capacity(wanted.iter().map(|bucket| bucket.rows as usize).sum());
    for bucket in &wanted {
        let range = tail.footer.row_range(bucket);
        let bytes = if range.start < tail.start {
            far_bytes.next().unwrap_or_default()
        } else {
            tail.bytes.slice((range.start - tail.start) as usize..(range.end - tail.start) as usize)
        };
        rows.extend(tail.footer.read_bucket(&path, bucket, &bytes)?);
    }
    Ok((tail.footer, rows))
}
