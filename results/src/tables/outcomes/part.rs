//! Writes an outcome part: the outcomes of a worker since its last part.

use super::OutcomeRow;
use crate::log::FinalTable;
use crate::store::Store;
use crate::tables::{TableError, TableWriter};

/// A configuration with at least this many rows has its own row groups. Smaller ones share: a row group costs metadata,
/// and a job may have hundreds of configurations.
const OWN_GROUP_ROWS: usize = 256;

/// The compressed columns: texts that may be long, of answers, errors and notes. Parts are small, and a run has
/// hundreds of them.
const COMPRESSED: &[&[&str]] = &[&["message"], &["answer"], &["trace", "notes", "list", "item", "text"]];

/// Writes `rows` as the part `path` (see [`crate::layout::outcome_part`]), sorted by configuration and index.
///
/// Row groups begin with a configuration if possible. A reader of some configurations finds them by the row groups'
/// statistics.
///
/// # Errors
/// An error of the store.
pub fn write_part(store: &Store, path: &str, mut rows: Vec<OutcomeRow>) -> Result<FinalTable, TableError> {
    rows.sort_by_key(|row| (row.configuration, row.index));
    let mut writer = TableWriter::with_compressed(store, path, COMPRESSED)?;
    let mut last = None;
    for row in rows {
        if last.replace(row.configuration).is_some_and(|last| last != row.configuration)
            && writer.pending_rows() >= OWN_GROUP_ROWS
        {
            writer.end_row_group()?;
        }
        writer.push(row)?;
    }
    writer.finish()
}
