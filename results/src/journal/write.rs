//! Writes a segment: one put.

use super::entry::{BUCKETS, JournalEntry};
use super::error::JournalError;
use super::format::{self, KeyRow, ROW_BYTES, ZSTD_LEVEL};
use crate::store::Store;
use bytes::Bytes;

/// A written segment with its key table, for [`super::Journal::add_segment`].
#[derive(Clone, Debug)]
pub struct Segment {
    pub(super) name: String,
    pub(super) rows: Vec<KeyRow>,
    bytes: u64,
}

impl Segment {
    /// Its object's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Entries in it.
    pub fn entries(&self) -> usize {
        self.rows.len()
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Writes `entries` as the segment `name` (see [`crate::layout::segment_name`]) and returns when it is durable.
///
/// Entries are sorted by bucket and key; of several entries with one key, the last is kept: a request is only answered
/// again if its answer was unusable. The bytes depend on the kept entries alone.
///
/// # Errors
/// A bucket out of range, a value of 1 GiB or more, or an error of the store; then the segment may exist or not.
pub fn write_segment(store: &Store, name: &str, mut entries: Vec<JournalEntry>) -> Result<Segment, JournalError> {
    if let Some(entry) = entries.iter().find(|entry| entry.bucket >= BUCKETS) {
        return Err(JournalError::Bucket { found: entry.bucket });
    }
    entries.reverse();
    entries.sort_by_key(|entry| (entry.bucket, entry.key));
    entries.dedup_by(|next, kept| (next.bucket, next.key) == (kept.bucket, kept.key));
    let (bytes, rows) = encode_segment(&entries)?;
    let size = bytes.len() as u64;
    store.put(name, Bytes::from(bytes))?;
    Ok(Segment { name: name.to_owned(), rows, bytes: size })
}

/// The bytes and the key table of a segment of sorted entries.
fn encode_segment(entries: &[JournalEntry]) -> Result<(Vec<u8>, Vec<KeyRow>), JournalError> {
    let mut compressor =
        zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(|source| JournalError::Compression { source })?;
    let mut out = format::segment_header(format::VERSION).to_vec();
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        let offset = out.len() as u64;
        let length = format::push_record(&mut out, &mut compressor, &entry.key, &entry.bytes)?;
        rows.push(KeyRow { bucket: entry.bucket, key: entry.key, offset, length, origin: 0 });
    }
    let table_offset = out.len() as u64;
    let mut table = Vec::with_capacity(rows.len() * ROW_BYTES);
    for row in &rows {
        format::push_row(&mut table, row);
    }
    let footer = format::encode_footer(&rows, &table, table_offset, None);
    out.extend_from_slice(&table);
    out.extend_from_slice(&footer);
    Ok((out, rows))
}
