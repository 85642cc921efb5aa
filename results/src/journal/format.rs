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
//! Integers are little-endian. A *check* is the beginning of a BLAKE3 hash: of a value's record after the check, of a
//! bucket's rows, and, in the trailer, of the header, the directory and the trailer before it. A reader of some buckets
//! therefore checks everything it has read. A value is stored plain, or compressed with zstd if that is shorter; then
//! the highest bit of its plain length is set.

use super::{BUCKETS, JournalError, JournalKey};

pub(super) const MAGIC: &[u8; 8] = b"HOPEJRNL";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 16;
pub(super) const RECORD_BYTES: usize = 40;
pub(super) const ROW_BYTES: usize = 48;
pub(super) const BUCKET_BYTES: usize = 16;
pub(super) const TRAILER_BYTES: usize = 40;

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
}

/// The trailer alone, before its directory is read.
pub(super) struct SegmentTrailer {
    table: u64,
    rows: u64,
    buckets: u32,
    check: u64,
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

pub(super) fn segment_header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
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

pub(super) fn push_row(out: &mut Vec<u8>, row: &KeyRow) {
    out.extend_from_slice(&row.key.0);
    out.extend_from_slice(&row.offset.to_le_bytes());
    out.extend_from_slice(&row.length.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
}

/// The directory and the trailer for `rows`, encoded as `table`.
pub(super) fn encode_footer(rows: &[KeyRow], table: &[u8], table_offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
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
    let mut trailer = Vec::with_capacity(TRAILER_BYTES);
    trailer.extend_from_slice(&table_offset.to_le_bytes());
    trailer.extend_from_slice(&(rows.len() as u64).to_le_bytes());
    trailer.extend_from_slice(&buckets.to_le_bytes());
    trailer.extend_from_slice(&VERSION.to_le_bytes());
    let check = check64(&[&segment_header(), &out, &trailer]);
    trailer.extend_from_slice(&check.to_le_bytes());
    trailer.extend_from_slice(MAGIC);
    out.extend_from_slice(&trailer);
    out
}

impl SegmentTrailer {
    /// Reads the last [`TRAILER_BYTES`] of a segment at `path`.
    pub(super) fn from_bytes(path: &str, bytes: &[u8]) -> Result<Self, JournalError> {
        let corrupt = |what| JournalError::Corrupt { path: path.to_owned(), what };
        if bytes.len() != TRAILER_BYTES || &bytes[32..] != MAGIC {
            return Err(corrupt("it does not end as a segment does"));
        }
        let found = u32_at(bytes, 20);
        if found != VERSION {
            return Err(JournalError::Version { path: path.to_owned(), found, supported: VERSION });
        }
        let buckets = u32_at(bytes, 16);
        if buckets > u32::from(BUCKETS) {
            return Err(corrupt("its directory has too many buckets"));
        }
        Ok(Self { table: u64_at(bytes, 0), rows: u64_at(bytes, 8), buckets, check: u64_at(bytes, 24) })
    }

    /// Bytes of the directory and the trailer.
    pub(super) fn footer_bytes(&self) -> usize {
        self.buckets as usize * BUCKET_BYTES + TRAILER_BYTES
    }

    /// Reads the directory from the last [`SegmentTrailer::footer_bytes`] of a segment of `size` bytes.
    pub(super) fn read_directory(&self, path: &str, size: u64, bytes: &[u8]) -> Result<SegmentFooter, JournalError> {
        let corrupt = |what| JournalError::Corrupt { path: path.to_owned(), what };
        if bytes.len() != self.footer_bytes() {
            return Err(corrupt("its directory is cut off"));
        }
        let (directory, trailer) = bytes.split_at(bytes.len() - TRAILER_BYTES);
        if check64(&[&segment_header(), directory, &trailer[..24]]) != self.check {
            return Err(corrupt("its directory does not match its checksum"));
        }
        let table_bytes = self.rows.checked_mul(ROW_BYTES as u64);
        let end = table_bytes.and_then(|bytes| bytes.checked_add(self.table)?.checked_add(self.footer_bytes() as u64));
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
        Ok(SegmentFooter { table: self.table, rows: self.rows, buckets })
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
            let ascending = rows.last().is_none_or(|last| last.key < key);
            let inside = offset.checked_add(u64::from(length)).is_some_and(|end| end <= self.table);
            if !ascending || !inside || (length as usize) < RECORD_BYTES {
                return Err(corrupt("the keys of a bucket are out of order"));
            }
            rows.push(KeyRow { bucket: bucket.bucket, key, offset, length });
        }
        Ok(rows)
    }
}
