//! A generated world as a dataset: `[dataset.world]`.

use crate::bad_value::{BadValue, ensure};
use hopeval_world::{WorldSettings, WorldSplit};
use serde::{Deserialize, Serialize};

/// The settings of a generated world: `[dataset.world]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldEntry {
    /// Number of questions.
    pub questions: u64,
    /// Number of passages.
    pub passages: u64,
    /// The seed.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// `train` or `eval`.
    #[serde(default = "eval")]
    pub split: String,
}

impl WorldEntry {
    /// Refuses impossible sizes and splits.
    ///
    /// # Errors
    /// The first nonsensical value.
    pub(crate) fn check_values(&self) -> Result<(), BadValue> {
        ensure((1..=WorldSettings::MOST_QUESTIONS).contains(&self.questions), || {
            BadValue::new("questions", self.questions.to_string(), "1 to 10000000")
        })?;
        let sizes = WorldSettings::LEAST_PASSAGES..=WorldSettings::MOST_PASSAGES;
        ensure(sizes.contains(&self.passages), || {
            BadValue::new("passages", self.passages.to_string(), "400 to 3000000")
        })?;
        ensure(self.split.parse::<WorldSplit>().is_ok(), || {
            BadValue::new("split", format!("{:?}", self.split), "\"train\" or \"eval\"")
        })
    }
}

fn first_seed() -> u64 {
    1
}

fn eval() -> String {
    WorldSplit::Eval.name().to_owned()
}
