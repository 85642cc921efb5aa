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
    /// Distractors of each question that state a relation of its facts, of another subject.
    // Not written where it is 0, so that jobs of before keep their digests.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rivals: u32,
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
        ensure(self.rivals <= WorldSettings::MOST_CANDIDATES, || {
            BadValue::new("rivals", self.rivals.to_string(), "0 to 50")
        })?;
        ensure(self.split.parse::<WorldSplit>().is_ok(), || {
            BadValue::new("split", format!("{:?}", self.split), "\"train\" or \"eval\"")
        })
    }

    /// The settings of the world; `split` as it was parsed.
    pub(crate) fn settings(&self, split: WorldSplit) -> WorldSettings {
        WorldSettings { rivals: self.rivals, ..WorldSettings::new(self.questions, self.passages, self.seed, split) }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn first_seed() -> u64 {
    1
}

fn eval() -> String {
    WorldSplit::Eval.name().to_owned()
}
