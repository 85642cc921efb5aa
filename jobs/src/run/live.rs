//! The live table of a run that is going on, as an object of its own.

use super::judge::TallyKey;
use hopeval_operators::tally::Change;
use hopeval_results::layout;
use serde::{Deserialize, Serialize};

/// The live table as of a commit, in its own object, whose names are these: `tests/golden/commits.txt`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveTable {
    /// Valid commits that it includes.
    pub commits: u64,
    /// Outcomes in them.
    pub outcomes: u64,
    /// How many edits of gold, the first of the log, all of the tallies have: those that the generation began with.
    /// Corrections for later ones arrive in the tallies one by one, behind the outcomes that they correct.
    #[serde(default)]
    pub golds: u64,
    /// The tallies.
    pub tallies: Vec<(TallyKey, Change)>,
}

/// Name of the live table's object.
pub fn live_object(run: &str) -> String {
    format!("{}/live.json", layout::run(run))
}
