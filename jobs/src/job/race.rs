//! `[tune.select.race]`: a search that stops weak candidates early. A sweep's race has the same rule.
//!
//! Its rungs are growing samples, each with the questions of the one before. A rung evaluates the candidates that still
//! stand; the weakest of them are stopped after it. This is successive halving (Karnin, Koren and Somekh 2013; Jamieson
//! and Talwalkar 2016) with questions for its budget. The last stage is no rung: it evaluates the rest over the whole
//! sample.

use serde::{Deserialize, Serialize};

/// The fewest questions of a first rung that is not named.
pub(crate) const LEAST_FIRST: u64 = 16;

/// The sample's questions for each one in a first rung that is not named.
const FIRST_SHARE: u64 = 16;

/// The rule by which candidates are stopped: `[tune.select.race]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaceSettings {
    /// Questions of the first rung; left out, a sixteenth of the sample, and at least 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Each rung has so many times the questions of the one before, and one of so many candidates goes on after it.
    #[serde(default = "usual_factor")]
    pub factor: u64,
    /// The fewest candidates that go on.
    #[serde(default = "usual_least")]
    pub least: u64,
    /// A candidate behind the cut goes on, too, if it is behind by less than so many standard errors of the paired
    /// difference, and a place is left: [`RaceSettings::spare_places`].
    #[serde(default = "usual_margin")]
    pub margin: f64,
}

pub(super) fn usual_factor() -> u64 {
    3
}

pub(super) fn usual_least() -> u64 {
    4
}

pub(super) fn usual_margin() -> f64 {
    1.0
}

impl RaceSettings {
    /// Questions of the first rung.
    pub(crate) fn first_questions(&self, sample: u64) -> u64 {
        self.first.unwrap_or_else(|| (sample / FIRST_SHARE).max(LEAST_FIRST))
    }

    /// Questions of each rung, all fewer than `sample`.
    pub fn rung_questions(&self, sample: u64) -> Vec<u64> {
        let larger = |questions: &u64| questions.checked_mul(self.factor);
        std::iter::successors(Some(self.first_questions(sample)), larger).take_while(|&rung| rung < sample).collect()
    }

    /// The number of candidates that go on by their rank, of those that stand.
    pub fn kept_by_rank(&self, standing: usize) -> usize {
        let share = (standing as u64).div_ceil(self.factor);
        (share.max(self.least).min(standing as u64)) as usize
    }

    /// The most candidates close behind the cut that go on, where so many go on by their rank.
    pub fn spare_places(&self, ranked: usize) -> usize {
        (ranked as u64 / self.factor) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_grow_by_the_factor_and_end_before_the_sample() {
        let race: RaceSettings = toml::from_str("").unwrap();
        assert_eq!(race.rung_questions(1000), [62, 186, 558]);
        assert_eq!(race.rung_questions(128), [16, 48]);
        assert_eq!(race.rung_questions(16), [0; 0]);
        let race: RaceSettings = toml::from_str("first = 8\nfactor = 2\nleast = 3").unwrap();
        assert_eq!(race.rung_questions(64), [8, 16, 32]);
        let kept: Vec<usize> = [60, 7, 5, 3, 2].into_iter().map(|standing| race.kept_by_rank(standing)).collect();
        assert_eq!(kept, [30, 4, 3, 3, 2]);
        assert_eq!([30, 3, 1].map(|ranked| race.spare_places(ranked)), [15, 1, 0]);
        let huge = RaceSettings { first: Some(u64::MAX / 2), factor: u64::MAX, ..race };
        assert_eq!(huge.rung_questions(u64::MAX), [u64::MAX / 2]);
    }
}
