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
}
