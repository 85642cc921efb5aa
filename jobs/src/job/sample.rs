//! A random part of a dataset: `[dataset.draw]`, and the sample of `[tune]`.

use serde::{Deserialize, Serialize};

/// A random part of a dataset: `[dataset.draw]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    /// How many questions.
    pub questions: u64,
    /// Another seed draws others.
    #[serde(default)]
    pub seed: u64,
    /// All questions but those.
    #[serde(default)]
    pub rest: bool,
}
