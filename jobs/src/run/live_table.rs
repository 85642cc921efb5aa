//! The live table of a running run, as an object of its own.

use super::evaluator::TallyKey;
use crate::error::JobError;
use hopeval_operators::tally::TallyChange;
use hopeval_results::{FileRemedy, Store, StoreError, layout, seal};
use serde::{Deserialize, Serialize};

/// The live table as of a commit, in its own object. `tests/golden/commits.txt` holds the stored names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveTable {
    /// Valid commits included.
    pub commits: u64,
    /// Outcomes in them.
    pub outcomes: u64,
    /// Edits of gold in all the tallies, counted from the log's beginning: those known at the generation's start.
    /// Corrections for later edits arrive in the tallies one by one, after the corrected outcomes.
    #[serde(default)]
    pub golds: u64,
    /// The tallies.
    pub tallies: Vec<(TallyKey, TallyChange)>,
}

impl LiveTable {
    /// Writes the live table of `run` in place of the one before.
    ///
    /// # Errors
    /// An error of the store.
    pub fn store(&self, store: &Store, run: &str) -> Result<(), JobError> {
        let unwritable = |source| JobError::Stored { what: "the live table", run: run.to_owned(), source };
        let bytes = serde_json::to_vec(self).map_err(unwritable)?;
        Ok(store.put(&live_object(run), seal::add_seal(&bytes).into())?)
    }

    /// The live table of `run`, if it has one.
    ///
    /// # Errors
    /// A damaged object, one of another version, or an error of the store.
    pub fn load(store: &Store, run: &str) -> Result<Option<Self>, JobError> {
        let name = live_object(run);
        let bytes = match store.get(&name) {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            bytes => bytes?,
        };
        let bytes = seal::remove_seal(store, &name, &bytes, FileRemedy::Restore)?.json;
        let malformed = |source| JobError::malformed(store, &name, FileRemedy::Restore, source);
        serde_json::from_slice(&bytes).map(Some).map_err(malformed)
    }
}

/// Name of the live table's object.
pub fn live_object(run: &str) -> String {
    format!("{}/live.json", layout::run_folder(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beyond_64_bits_come_back() {
        let sums = (3, 3, -5 * i128::from(u64::MAX), i128::MAX);
        let live = LiveTable { tallies: vec![(TallyKey::default(), sums)], ..LiveTable::default() };
        assert_eq!(serde_json::from_slice::<LiveTable>(&serde_json::to_vec(&live).unwrap()).unwrap(), live);
    }
}
