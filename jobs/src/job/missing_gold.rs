//! The treatment of questions whose gold is not in the corpus: `missing_gold` of `[dataset]`.

use serde::{Deserialize, Serialize};

/// The treatment of questions whose gold is not in the corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingGold {
    /// They are bad rows.
    #[default]
    Refuse,
    /// They are left out, and counted.
    LeaveOut,
    /// They are evaluated without gold passages, and counted: no measure of retrieval is defined for them. For a corpus
    /// that is not the dataset's own.
    Keep,
    /// As `LeaveOut`, with those whose gold titles PromptRank's older evaluation does not find.
    LeaveOutAsPromptrank,
}

impl MissingGold {
    /// Whether it is the default, which is not written.
    pub(crate) fn is_refuse(&self) -> bool {
        *self == Self::Refuse
    }
}
