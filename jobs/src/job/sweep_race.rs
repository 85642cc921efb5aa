//! `[method.NAME.race]`: a sweep that stops weak points early.
//!
//! Its rungs are parts of the evaluated questions. The points that it leaves are evaluated over all of them.

use super::race::{RaceSettings, usual_factor, usual_least, usual_margin};
use serde::{Deserialize, Serialize};

/// The race of a sweep's points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRace {
    /// The measure that ranks the points.
    pub measure: String,
    /// Another seed draws other questions for the rungs.
    #[serde(default)]
    pub seed: u64,
    /// As in [`RaceSettings`], a share of the evaluated questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// As in [`RaceSettings`].
    #[serde(default = "usual_factor")]
    pub factor: u64,
    /// As in [`RaceSettings`].
    #[serde(default = "usual_least")]
    pub least: u64,
    /// As in [`RaceSettings`].
    #[serde(default = "usual_margin")]
    pub margin: f64,
}

impl SweepRace {
    /// The rule by which points are stopped.
    pub fn rule(&self) -> RaceSettings {
        RaceSettings { first: self.first, factor: self.factor, least: self.least, margin: self.margin }
    }
}
