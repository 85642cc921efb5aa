//! Reads values from segments by range, and key tables.

use super::format::{self, BucketRows, KeyRow, SegmentFooter, SegmentTrailer, TRAILER_BYTES};
use super::{AnswerLocation, JournalError};
use crate::store::{Store, StoreError};
use bytes::Bytes;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes of the first read, from the end of a segment: mostly enough for the directory, and for the whole table of a
/// small segment.
const TAIL_BYTES: u64 = 64 << 10;

/// Values with a gap of at most this size are read together: on a bucket a request costs more than such a gap.
const GAP_BYTES: u64 = 32 << 10;

/// The longest range of one read.
const RANGE_BYTES: u64 = 8 << 20;

/// The names of the segments, by the number in a location. Only ever appended to.
pub(super) type SegmentNames = Arc<RwLock<Vec<Arc<str>>>>;

/// Reads values; clones may be used from any thread.
#[derive(Clone, Debug)]
pub struct SegmentReader {
    store: Store,
    names: SegmentNames,
}

impl SegmentReader {
    pub(super) fn new(store: Store, names: SegmentNames) -> Self {
        Self { store, names }
    }

    /// The values at `locations`, in their order. Neighbouring values are read together.
    ///
    /// A missing or corrupt segment gives an error for each of its locations; the other locations give their values.
    /// Callers treat an error as a miss.
    pub fn read(&self, locations: &[AnswerLocation]) -> Vec<Result<Bytes, JournalError>> {
        let mut order: Vec<usize> = (0..locations.len()).collect();
        order.sort_by_key(|&i| (locations[i].segment, locations[i].offset));
        let groups: Vec<&[usize]> = order.chunk_by(|&a, &b| locations[a].segment == locations[b].segment).collect();
        let names = self.names_of(groups.iter().map(|group| locations[group[0]].segment));
        let ranges: Vec<Vec<Range<u64>>> = groups.iter().map(|group| coalesce_ranges(locations, group)).collect();
        let wanted: Vec<(&str, Vec<Range<u64>>)> =
            names.iter().zip(&ranges).map(|(name, ranges)| (&**name, ranges.clone())).collect();
        let blocks = self.store.get_ranges_many(&wanted);
        let mut values: Vec<Option<Result<Bytes, JournalError>>> = locations.iter().map(|_| None).collect();
        for (((group, ranges), name), blocks) in groups.iter().zip(&ranges).zip(&names).zip(blocks) {
            let path = self.store.full_name(name);
            for &i in *group {
                values[i] = Some(match &blocks {
                    Ok(blocks) => value_from_blocks(&path, &locations[i], ranges, blocks),
                    Err(error) => Err(unreadable_segment(&path, error)),
                });
            }
        }
        values.into_iter().flatten().collect()
    }

    /// The names of segments. Locations come from the journal with these names, and names are never removed.
    fn names_of(&self, segments: impl Iterator<Item = u32>) -> Vec<Arc<str>> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        segments.map(|segment| Arc::clone(&names[segment as usize])).collect()
    }
}

fn unreadable_segment(path: &str, error: &StoreError) -> JournalError {
    JournalError::Unreadable { path: path.to_owned(), reason: error.to_string(), may_pass: error.may_pass() }
}

/// The ranges to read for a group of locations, sorted by offset.
fn coalesce_ranges(locations: &[AnswerLocation], group: &[usize]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &i in group {
        let wanted = locations[i].record_range();
        match ranges.last_mut() {
            Some(last) if wanted.start <= last.end + GAP_BYTES && wanted.end - last.start <= RANGE_BYTES => {
                last.end = last.end.max(wanted.end);
            }
            _ => ranges.push(wanted),
        }
    }
    ranges
}

/// Cuts one value out of the blocks read from its segment.
fn value_from_blocks(
    path: &str,
    location: &AnswerLocation,
    ranges: &[Range<u64>],
    blocks: &[Bytes],
) -> Result<Bytes, JournalError> {
    let corrupt = || JournalError::Value { path: path.to_owned(), offset: location.offset };
    let wanted = location.record_range();
    let at = ranges.partition_point(|range| range.start <= wanted.start).checked_sub(1).ok_or_else(corrupt)?;
    let start = (wanted.start - ranges[at].start) as usize;
    let record = blocks[at].get(start..start + location.length as usize).ok_or_else(corrupt)?;
    match format::read_record(record) {
        Some((key, value)) if key == location.key => Ok(Bytes::from(value)),
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
    let trailer = SegmentTrailer::from_bytes(&path, &bytes[bytes.len() - TRAILER_BYTES..])?;
    let footer_bytes = trailer.footer_bytes();
    if footer_bytes as u64 > size {
        return Err(JournalError::Corrupt { path, what: "its directory is larger than itself" });
    }
    if footer_bytes > bytes.len() {
        start = size - footer_bytes as u64;
        bytes = store.get_range(name, start..size)?;
    }
    let footer = trailer.read_directory(&path, size, &bytes[bytes.len() - footer_bytes..])?;
    Ok(SegmentTail { footer, start, bytes })
}

/// The directory of a segment of `size` bytes.
pub(super) fn read_footer(store: &Store, name: &str, size: u64) -> Result<SegmentFooter, JournalError> {
    read_tail(store, name, size).map(|tail| tail.footer)
}

/// The rows of a segment's wanted buckets, in order.
pub(super) fn read_rows(store: &Store, name: &str, size: u64, owns: &[bool]) -> Result<Vec<KeyRow>, JournalError> {
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
    Ok(rows)
}
