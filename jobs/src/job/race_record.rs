//! The decisions of a race, as they are stored: with a selection, and with the job of a run.
//!
//! The names of fields are stored, and hashed into a selection's digest. Rename a field only with `serde(rename)`.

use serde::{Deserialize, Serialize};

/// The rungs of a race.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaceRecord {
    /// The rungs, in order. The last stage, over all questions, is not among them.
    pub rungs: Vec<RungRecord>,
}

/// A rung of a race and its decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RungRecord {
    /// Questions of its sample.
    pub questions: u64,
    /// Candidates that it evaluated.
    pub candidates: u64,
    /// Candidates that went on by their rank.
    pub ranked: u64,
    /// Candidates behind the cut that went on, since they are too close to it or cannot be compared with it.
    pub spared: u64,
    /// Candidates that were stopped.
    pub stopped: u64,
    /// The mean of the last candidate that went on by its rank; null if undefined.
    pub cut: Option<f64>,
}

/// The end of a candidate in a race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoppedCandidate {
    /// Questions of the rung after which it was stopped.
    pub questions: u64,
    /// The measure over them; null if undefined.
    pub mean: Option<f64>,
    /// Its standard error over questions.
    pub stderr: Option<f64>,
    /// Number of questions with a defined measure.
    pub n: u64,
    /// The mean of the last candidate that went on by its rank.
    pub cut: f64,
    /// The mean paired difference to that one, below 0 for a worse candidate. One that is close was stopped because no
    /// place was left.
    pub difference: f64,
    /// Its standard error over questions.
    pub difference_stderr: f64,
}

/// A stopped point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoppedPoint {
    /// Its configuration, by name.
    pub configuration: String,
    /// Its end.
    pub stopped: StoppedCandidate,
}

/// The decisions of a sweep's race: `raced` in the job of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RacedSweep {
    /// The rungs.
    pub race: RaceRecord,
    /// The stopped points: the last rung's first, and of a rung the best first.
    pub stopped: Vec<StoppedPoint>,
}
