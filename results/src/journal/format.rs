//! The bytes of a segment.
//!
//! ```text
//!   header     magic "HOPEJRNL", version u32, zero u32                                             16 bytes
//!   values     in the order of the table: check u32, plain length u32, key [32], stored bytes
//!   table      rows sorted by (bucket, key): key [32], offset u64, length u32, zero u32            48 bytes each
//!   directory  for each bucket that has rows: bucket u16, zero u16, rows u32, check of its rows u64  16 bytes each
//!   trailer    table offset u64, rows u64, buckets u32, version u32, check u64, magic "HOPEJRNL"    40 bytes
//! ```
//!
//! A segment merged from others (`merge.rs`) has version 2. Its values are those of its sources, block after block, and
//! it has two more parts. A row has the number of its *origin* in place of the zero: the segment in which the entry was
//! first written, as an item of the lineage. Rows of one key are in the order of their origins, latest first.
//!
//! ```text
//!   header, values, table                                       as above
//!   lineage    folder and run as u32 length and text; for each replaced segment, in the order of names:
//!              created_ms u64, generation u64, seq u64, shift u64, worker u32, merge u32           40 bytes each
//!   directory                                                   as above
//!   extension  replaced segments u32, level u32, bytes of the lineage u64                          16 bytes
//!   trailer                                                     as above; its check covers lineage and extension, too
//! ```
//!
//! The *shift* of a replaced segment is the distance that its values have moved: a record at offset x is at x + shift
//! now. So a location in a segment that is gone needs one addition to be a location in its successor.
//!
//! Integers are little-endian. A *check* is the beginning of a BLAKE3 hash: of a value's record after the check, of a
//! bucket's rows, and, in the trailer, of the header, the directory and the trailer before it. A reader of some buckets
//! therefore checks everything it has read. A value is stored plain, or compressed with zstd if that is shorter; then
//! the highest bit of its plain length is set.

use super::entry::{BUCKETS, JournalKey};
use super::error::JournalError;
use crate::layout::{self, SegmentId};
use std::cmp::Ordering;

pub(super) const MAGIC: &[u8; 8] = b"HOPEJRNL";
pub(super) const VERSION: u32 = 1;
/// The version of merged segments.
pub(super) const MERGED_VERSION: u32 = 2;
pub(super) const HEADER_BYTES: usize = 16;
pub(super) const RECORD_BYTES: usize = 40;
pub(super) const ROW_BYTES: usize = 48;
pub(super) const BUCKET_BYTES: usize = 16;
pub(super) const TRAILER_BYTES: usize = 40;
/// Bytes of a merged segment between directory and trailer.
const EXTENSION_BYTES: usize = 16;
/// Bytes of a replaced segment in the lineage.
const REPLACED_BYTES: usize = 40;

/// Set in a value's plain length if the stored bytes are compressed.
const COMPRESSED: u32 = 1 << 31;

/// The largest value, in bytes.
pub(super) const VALUE_LIMIT: usize = (1 << 30) - 1;

/// Values shorter than this are not worth compressing.
const COMPRESS_FROM: usize = 64;

/// The zstd level: values are written once and read often, but a worker has other things to do.
pub(super) const ZSTD_LEVEL: i32 = 3;

/// A row of the key table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRow {
    pub(super) bucket: u16,
    pub(super) key: JournalKey,
    /// Offset of the value's record in the segment.
    pub(super) offset: u64,
    /// Bytes of the value's record.
    pub(super) length: u32,
    /// Number of its origin in the lineage; 0 in a segment that is not merged.
    pub(super) origin: u32,
}

/// A segment that a merged one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplacedSegment {
    pub(super) id: SegmentId,
    /// Distance from a record's offset in it to the offset in the merged segment, in bytes.
    pub(super) shift: u64,
}

/// The segments that a merged one replaces, its sources and theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lineage {
    /// Their folder.
    pub(super) folder: String,
    /// The run that wrote them.
    pub(super) run: String,
    /// Merges between the first written segments and this one, at most.
    pub(super) level: u32,
    /// In the order of names.
    pub(super) replaced: Vec<ReplacedSegment>,
}

impl Lineage {
    /// The object name of a replaced segment.
    pub(super) fn name_of(&self, replaced: &ReplacedSegment) -> String {
        layout::segment_object(&self.folder, &self.run, &replaced.id)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.folder.len() + self.run.len() + self.replaced.len() * REPLACED_BYTES);
        for text in [&self.folder, &self.run] {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        for ReplacedSegment { id, shift } in &self.replaced {
            let SegmentId { created_ms, generation, worker, seq, merge } = *id;
            [created_ms, generation, seq, *shift].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
            [worker, merge].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        }
        out
    }

    /// Reads a checked lineage; `None` if it is not one.
    fn from_bytes(bytes: &[u8], count: u32, level: u32) -> Option<Self> {
        let (folder, rest) = split_text(bytes)?;
        let (run, items) = split_text(rest)?;
        if items.len() != count as usize * REPLACED_BYTES {
            return None;
        }
        let item = |bytes: &[u8]| {
            let (created_ms, generation, seq) = (u64_at(bytes, 0), u64_at(bytes, 8), u64_at(bytes, 16));
            let (worker, merge) = (u32_at(bytes, 32), u32_at(bytes, 36));
            ReplacedSegment { id: SegmentId { created_ms, generation, worker, seq, merge }, shift: u64_at(bytes, 24) }
        };
        let replaced: Vec<_> = items.chunks_exact(REPLACED_BYTES).map(item).collect();
        replaced.is_sorted_by(|a, b| a.id < b.id).then_some(Self { folder, run, level, replaced })
    }
}

/// A text at the beginning of `bytes`, and the rest.
fn split_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = bytes.split_at_checked(4)?;
    let (text, rest) = rest.split_at_checked(u32_at(length, 0) as usize)?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

/// A bucket of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketRows {
    pub(super) bucket: u16,
    /// Index of the bucket's first row in the table.
    pub(super) first: u64,
    pub(super) rows: u32,
    pub(super) check: u64,
}

/// The trailer and the directory, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentFooter {
    pub(super) table: u64,
    pub(super) rows: u64,
    pub(super) buckets: Vec<BucketRows>,
    /// The replaced segments; `None` for a segment that is not merged.
    pub(super) lineage: Option<Lineage>,
}

/// The trailer alone, before its directory is read.
pub(super) struct SegmentTrailer {
    table: u64,
    rows: u64,
    buckets: u32,
    check: u64,
    extension: Option<MergedExtension>,
}

/// The extension of a merged segment.
struct MergedExtension {
    replaced: u32,
    level: u32,
    lineage_bytes: u64,
}

pub(super) fn check64(parts: &[&[u8]]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    u64_at(hasher.finalize().as_bytes(), 0)
}

fn check32(bytes: &[u8]) -> u32 {
    u32_at(blake3::hash(bytes).as_bytes(), 0)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn key_at(bytes: &[u8], at: usize) -> JournalKey {
    let mut key = [0; 32];
    key.copy_from_slice(&bytes[at..at + 32]);
    JournalKey(key)
}

pub(super) fn segment_header(version: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header
}

/// Appends a value's record.
pub(super) fn push_record(
    out: &mut Vec<u8>,
    compressor: &mut zstd::bulk::Compressor<'_>,
    key: &JournalKey,
    value: &[u8],
) -> Result<u32, JournalError> {
    if value.len() > VALUE_LIMIT {
        return Err(JournalError::TooLarge { bytes: value.len(), limit: VALUE_LIMIT });
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let compressed = if value.len() < COMPRESS_FROM {
        None
    } else {
        let compressed = compressor.compress(value).map_err(|source| JournalError::Compression { source })?;
        (compressed.len() < value.len()).then_some(compressed)
    };
    let length = value.len() as u32;
    let flagged = if compressed.is_some() { length | COMPRESSED } else { length };
    out.extend_from_slice(&flagged.to_le_bytes());
    out.extend_from_slice(&key.0);
    out.extend_from_slice(compressed.as_deref().unwrap_or(value));
    let check = check32(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&check.to_le_bytes());
    Ok((out.len() - start) as u32)
}

/// The key and the value in a record, or `None` if the record is corrupt.
pub(super) fn read_record(record: &[u8]) -> Option<(JournalKey, Vec<u8>)> {
    if record.len() < RECORD_BYTES || check32(&record[4..]) != u32_at(record, 0) {
        return None;
    }
    let flagged = u32_at(record, 4);
    let length = (flagged & !COMPRESSED) as usize;
    let stored = &record[RECORD_BYTES..];
    let value =
        if flagged & COMPRESSED == 0 { stored.to_vec() } else { zstd::bulk::decompress(stored, length).ok()? };
    (value.len() == length).then(|| (key_at(record, 8), value))
}

/// Whether a record is as it was written, and of this key.
pub(super) fn is_intact(record: &[u8], key: &JournalKey) -> bool {
    check32(&record[4..]) == u32_at(record, 0) && record[8..RECORD_BYTES] == key.0
}

pub(super) fn push_row(out: &mut Vec<u8>, row: &KeyRow) {
    out.extend_from_slice(&row.key.0);
    out.extend_from_slice(&row.offset.to_le_bytes());
    out.extend_from_slice(&row.length.to_le_bytes());
    out.extend_from_slice(&row.origin.to_le_bytes());
}

/// Everything behind the table for `rows`, encoded as `table`.
pub(super) fn encode_footer(rows: &[KeyRow], table: &[u8], table_offset: u64, lineage: Option<&Lineage>) -> Vec<u8> {
    let mut out = lineage.map(Lineage::to_bytes).unwrap_or_default();
    let lineage_bytes = out.len() as u64;
    let mut buckets = 0u32;
    let mut first = 0;
    while first < rows.len() {
        let bucket = rows[first].bucket;
        let count = rows[first..].iter().take_while(|row| row.bucket == bucket).count();
        let bytes = &table[first * ROW_BYTES..(first + count) * ROW_BYTES];
        out.extend_from_slice(&bucket.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&(count as u32).to_le_bytes());
        out.extend_from_slice(&check64(&[bytes]).to_le_bytes());
        buckets += 1;
        first += count;
    }
    if let Some(lineage) = lineage {
        out.extend_from_slice(&(lineage.replaced.len() as u32).to_le_bytes());
        out.extend_from_slice(&lineage.level.to_le_bytes());
        out.extend_from_slice(&lineage_bytes.to_le_bytes());
    }
    let version = if lineage.is_some() { MERGED_VERSION } else { VERSION };
    let mut trailer = Vec::with_capacity(TRAILER_BYTES);
    trailer.extend_from_slice(&table_offset.to_le_bytes());
    trailer.extend_from_slice(&(rows.len() as u64).to_le_bytes());
    trailer.extend_from_slice(&buckets.to_le_bytes());
    trailer.extend_from_slice(&version.to_le_bytes());
    let check = check64(&[&segment_header(version), &out, &trailer]);
    trailer.extend_from_slice(&check.to_le_bytes());
    trailer.extend_from_slice(MAGIC);
    out.extend_from_slice(&trailer);
    out
}

impl SegmentTrailer {
    /// Reads the trailer from the last bytes of a segment at `path`.
    pub(super) fn from_bytes(path: &str, tail: &[u8]) -> Result<Self, JournalError> {
        let corrupt = |what| JournalError::Corrupt { path: path.to_owned(), what };
        let cut = || corrupt("it does not end as a segment does");
        let (rest, bytes) = tail.split_at_checked(tail.len().wrapping_sub(TRAILER_BYTES)).ok_or_else(cut)?;
        if &bytes[32..] != MAGIC {
            return Err(cut());
        }
        let extension = match u32_at(bytes, 20) {
            VERSION => None,
            MERGED_VERSION => {
                let at = rest.len().checked_sub(EXTENSION_BYTES).ok_or_else(cut)?;
                let (replaced, level) = (u32_at(rest, at), u32_at(rest, at + 4));
                Some(MergedExtension { replaced, level, lineage_bytes: u64_at(rest, at + 8) })
            }
            found => {
                return Err(JournalError::Version { path: path.to_owned(), found, supported: MERGED_VERSION });
            }
        };
        let buckets = u32_at(bytes, 16);
        if buckets > u32::from(BUCKETS) {
            return Err(corrupt("its directory has too many buckets"));
        }
        Ok(Self { table: u64_at(bytes, 0), rows: u64_at(bytes, 8), buckets, check: u64_at(bytes, 24), extension })
    }

    /// Bytes behind the table.
    pub(super) fn footer_bytes(&self) -> u64 {
        let merged = self.extension.as_ref().map_or(0, |it| it.lineage_bytes.saturating_add(EXTENSION_BYTES as u64));
        merged.saturating_add((self.buckets as usize * BUCKET_BYTES + TRAILER_BYTES) as u64)
    }

    /// Reads directory and lineage from the last [`SegmentTrailer::footer_bytes`] of a segment of `size` bytes.
    pub(super) fn read_directory(&self, path: &str, size: u64, bytes: &[u8]) -> Result<SegmentFooter, JournalError> {
        let corrupt = |what| JournalError::Corrupt { path: path.to_owned(), what };
        if bytes.len() as u64 != self.footer_bytes() {
            return Err(corrupt("its directory is cut off"));
        }
        let (body, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        let version = if self.extension.is_some() { MERGED_VERSION } else { VERSION };
        if check64(&[&segment_header(version), body, &trailer[..24]]) != self.check {
            return Err(corrupt("its directory does not match its checksum"));
        }
        let (lineage, directory) = match &self.extension {
            None => (None, body),
            Some(MergedExtension { replaced, level, lineage_bytes }) => {
                let (lineage, rest) = body.split_at(*lineage_bytes as usize);
                let lineage = Lineage::from_bytes(lineage, *replaced, *level);
                let lineage =
                    lineage.ok_or_else(|| corrupt("the names of the segments it replaces are not readable"))?;
                (Some(lineage), &rest[..rest.len() - EXTENSION_BYTES])
            }
        };
        let table_bytes = self.rows.checked_mul(ROW_BYTES as u64);
        let end = table_bytes.and_then(|bytes| bytes.checked_add(self.table)?.checked_add(self.footer_bytes()));
        if end != Some(size) || self.table < HEADER_BYTES as u64 {
            return Err(corrupt("its size is not what its trailer says"));
        }
        let mut buckets: Vec<BucketRows> = Vec::with_capacity(self.buckets as usize);
        let mut first = 0;
        for bytes in directory.chunks_exact(BUCKET_BYTES) {
            let found = BucketRows { bucket: u16_at(bytes, 0), first, rows: u32_at(bytes, 4), check: u64_at(bytes, 8) };
            let ascending = buckets.last().is_none_or(|last| last.bucket < found.bucket);
            if !ascending || found.bucket >= BUCKETS || found.rows == 0 {
                return Err(corrupt("its directory is out of order"));
            }
            first += u64::from(found.rows);
            buckets.push(found);
        }
        if first != self.rows {
            return Err(corrupt("its directory does not cover its table"));
        }
        Ok(SegmentFooter { table: self.table, rows: self.rows, buckets, lineage })
    }
}

impl SegmentFooter {
    /// Byte range of a bucket's rows.
    pub(super) fn row_range(&self, bucket: &BucketRows) -> std::ops::Range<u64> {
        let start = self.table + bucket.first * ROW_BYTES as u64;
        start..start + u64::from(bucket.rows) * ROW_BYTES as u64
    }

    /// Reads a bucket's rows, and checks that they are in order and point into the values.
    pub(super) fn read_bucket(
        &self,
        path: &str,
        bucket: &BucketRows,
        bytes: &[u8],
    ) -> Result<Vec<KeyRow>, JournalError> {
        let corrupt = |what| JournalError::Corrupt { path: path.to_owned(), what };
        if bytes.len() != bucket.rows as usize * ROW_BYTES || check64(&[bytes]) != bucket.check {
            return Err(corrupt("the keys of a bucket do not match their checksum"));
        }
        let mut rows: Vec<KeyRow> = Vec::with_capacity(bucket.rows as usize);
        for bytes in bytes.chunks_exact(ROW_BYTES) {
            let (key, offset, length) = (key_at(bytes, 0), u64_at(bytes, 32), u32_at(bytes, 40));
            // Segments that are not merged have no origins, and no key twice.
            let origin = if self.lineage.is_some() { u32_at(bytes, 44) } else { 0 };
            let ascending = rows.last().is_none_or(|last| match last.key.cmp(&key) {
                Ordering::Less => true,
                Ordering::Equal => origin < last.origin,
                Ordering::Greater => false,
            });
            let inside = offset.checked_add(u64::from(length)).is_some_and(|end| end <= self.table);
            let first_written = |lineage: &Lineage| {
                lineage.replaced.get(origin as usize).is_some_and(|replaced| replaced.id.merge == 0)
            };
            if !ascending || !inside || (length as usize) < RECORD_BYTES {
                return Err(corrupt("the keys of a bucket are out of order"));
            }
            if !self.lineage.as_ref().is_none_or(first_written) {
                return Err(corrupt("a key has no origin"));
            }
            rows.push(KeyRow { bucket: bucket.bucket, key, offset, length, origin });
        }
        Ok(rows)
    }
}
