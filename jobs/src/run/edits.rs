//! Reads edits of gold from a run's log.

use crate::error::JobError;
use hopeval_results::check::get_checked;
use hopeval_results::tables::QuestionRow;
use hopeval_results::{FileRemedy, Log, Store};
use std::collections::BTreeMap;

/// The rows of edited questions, by position. Of several edits, the one recorded latest in the log wins, whatever the
/// edits' numbers.
pub type GoldEdits = BTreeMap<u64, QuestionRow>;

/// All edits in `log`.
///
/// # Errors
/// An edit cannot be read.
pub fn read_edits(store: &Store, log: &Log) -> Result<GoldEdits, JobError> {
    edits_after(store, log, 0)
}

/// The edits after the first `seen` of the log.
///
/// # Errors
/// An edit cannot be read.
pub fn edits_after(store: &Store, log: &Log, seen: usize) -> Result<GoldEdits, JobError> {
    let mut edits = GoldEdits::new();
    for gold in log.state().golds.iter().skip(seen) {
        let bytes = get_checked(store, &gold.path, gold.check.as_ref(), FileRemedy::Restore)?;
        for line in bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
            let row: QuestionRow = serde_json::from_slice(line).map_err(|source| JobError::Stored {
                what: "an edit of gold",
                run: log.run().to_owned(),
                source,
            })?;
            edits.insert(row.index, row);
        }
    }
    Ok(edits)
}

/// The row as edited.
pub fn edited_row(edits: &GoldEdits, row: QuestionRow) -> QuestionRow {
    edits.get(&row.index).cloned().unwrap_or(row)
}
