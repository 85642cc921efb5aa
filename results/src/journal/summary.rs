//! Sums over the journal without loading it, and the entries of one segment.

use super::format::{self, KeyRow};
use super::{BUCKETS, JournalError, JournalKey, reader};
use crate::layout;
use crate::store::{Store, StoreError};
use bytes::Bytes;

/// The shared journal in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct JournalSummary {
    /// Readable segments.
    pub segments: u64,
    /// Entries in them. A key in several segments counts in each.
    pub entries: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// An error for each corrupt segment. The other figures exclude them.
    pub damaged: Vec<String>,
}

/// Adds up the directories of all segments of the shared journal.
///
/// # Errors
/// [`JournalError::Version`], or an error of the store.
pub fn journal_summary(store: &Store) -> Result<JournalSummary, JournalError> {
    let mut summary = JournalSummary::default();
    for (name, size) in store.list(layout::JOURNAL)?.into_iter().filter(|(name, _)| name.ends_with(".seg")) {
        match reader::read_footer(store, &name, size) {
            Ok(footer) => {
                summary.segments += 1;
                summary.entries += footer.rows;
                summary.bytes += size;
            }
            Err(error @ JournalError::Corrupt { .. }) => summary.damaged.push(error.to_string()),
            Err(JournalError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(summary)
}

/// An entry of a segment, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// The bucket of its route.
    pub bucket: u16,
    /// The request's key.
    pub key: JournalKey,
    /// Bytes of its record in the segment.
    pub stored: u32,
    /// The answer.
    pub value: Bytes,
}

/// Reads a whole segment, sorted by bucket and key. The segment must fit in memory.
///
/// # Errors
/// [`JournalError::Version`], [`JournalError::Corrupt`], [`JournalError::Value`], or an error of the store.
pub fn scan_segment(store: &Store, name: &str) -> Result<Vec<SegmentEntry>, JournalError> {
    let bytes = store.get(name)?;
    // Readers of some buckets do not read the header, and nothing depends on it. Here every byte counts.
    if !bytes.starts_with(&format::segment_header()) {
        return Err(JournalError::Corrupt { path: store.full_name(name), what: "its header is damaged" });
    }
    let rows: Vec<KeyRow> = reader::read_rows(store, name, bytes.len() as u64, &vec![true; BUCKETS as usize])?;
    rows.into_iter()
        .map(|row| {
            let corrupt = || JournalError::Value { path: store.full_name(name), offset: row.offset };
            let start = usize::try_from(row.offset).map_err(|_| corrupt())?;
            let record = bytes.get(start..start + row.length as usize).ok_or_else(corrupt)?;
            match format::read_record(record) {
                Some((key, value)) if key == row.key => {
                    Ok(SegmentEntry { bucket: row.bucket, key, stored: row.length, value: Bytes::from(value) })
                }
                _ => Err(corrupt()),
            }
        })
        .collect()
}
