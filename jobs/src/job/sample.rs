//! A random part of a dataset: `[dataset.draw]`, and the sample of `[tune]`.

use serde::{Deserialize, Serialize};

/// A random part of a dataset: `[dataset.draw]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleSettings {
    /// Number of questions to draw.
    pub questions: u64,
    /// Another seed draws others.
    #[serde(default)]
    pub seed: u64,
    /// Takes all questions but the drawn ones.
    #[serde(default)]
    pub rest: bool,
    /// Passes over so many questions, which a draw of their number by the same seed takes.
    #[serde(default, skip_serializing_if = "is_none")]
    pub after: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(questions: &u64) -> bool {
    *questions == 0
}

impl SampleSettings {
    /// A draw from all questions.
    pub fn new(questions: u64, seed: u64) -> Self {
        Self { questions, seed, rest: false, after: 0 }
    }
}
