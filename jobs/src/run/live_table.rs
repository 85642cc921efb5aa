//! The live table of a running run, as an object of its own.

use super::evaluator::TallyKey;
use hopeval_operators::tally::TallyChange;
use hopeval_results::layout;
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

/// Name of the live table's object.
pub fn live_object(run: &str) -> String {
    format!("{}/live.json", layout::run_folder(run))
}
