//! Fixed-point sums for live tables. Integers add up to the same result in any order, floats do not.
//!
//! Outcomes arrive in an order that depends on workers and timing, and a live table is corrected by negative
//! differences. So it adds [`FixedPoint`] numbers. The final tables are `f64` sums in dataset order instead
//! ([`crate::aggregate`]). Both agree to about 2⁻³³ for each question.

/// A score times 2³², rounded to the nearest integer.
///
/// Scores reach from -2³² to 2³²: counts of passages are scores, too. A [`LiveSummary`] stays in range for fewer than
/// 2³¹ scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FixedPoint(pub i128);

/// One in [`FixedPoint`].
const ONE: f64 = 4_294_967_296.0;

impl FixedPoint {
    /// The largest magnitude of a score.
    pub const LIMIT: f64 = ONE;

    /// The score in fixed point; `None` if it is not a number or beyond [`Self::LIMIT`].
    pub fn from_score(score: f64) -> Option<Self> {
        (score.abs() <= Self::LIMIT).then(|| Self((score * ONE).round() as i128))
    }

    /// The number as a float.
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / ONE
    }
}

/// The sums of a measure in a live table, over the questions with a defined value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LiveSummary {
    /// The number of questions.
    pub count: i64,
    /// The number of questions with status ok.
    pub ok: i64,
    /// The sum of the scores, in [`FixedPoint`].
    pub sum: i128,
    /// The sum of the squared scores, each squared first and then made [`FixedPoint`].
    pub sum_sq: i128,
}

impl LiveSummary {
    /// One score; `None` if [`FixedPoint::from_score`] returns `None`.
    pub fn from_score(score: f64, ok: bool) -> Option<Self> {
        let sum = FixedPoint::from_score(score)?.0;
        let sum_sq = (score * score * ONE).round() as i128;
        Some(Self { count: 1, ok: i64::from(ok), sum, sum_sq })
    }

    /// The mean; `None` without questions.
    pub fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| FixedPoint(self.sum).to_f64() / self.count as f64)
    }

    /// The standard error of the mean (n - 1); `None` below two questions.
    pub fn stderr(self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let (n, sum) = (self.count as f64, FixedPoint(self.sum).to_f64());
        let squares = FixedPoint(self.sum_sq).to_f64() - sum * sum / n;
        Some((squares.max(0.0) / (n - 1.0) / n).sqrt())
    }

    /// The share of questions with status ok; `None` without questions.
    pub fn coverage(self) -> Option<f64> {
        (self.count > 0).then(|| self.ok as f64 / self.count as f64)
    }
}

impl std::ops::AddAssign for LiveSummary {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.ok += other.ok;
        self.sum += other.sum;
        self.sum_sq += other.sum_sq;
    }
}

impl From<LiveSummary> for (i64, i64, i128, i128) {
    fn from(live: LiveSummary) -> Self {
        (live.count, live.ok, live.sum, live.sum_sq)
    }
}

impl From<(i64, i64, i128, i128)> for LiveSummary {
    fn from((count, ok, sum, sum_sq): (i64, i64, i128, i128)) -> Self {
        Self { count, ok, sum, sum_sq }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{MeasureSummary, ValueRange};
    use proptest::prelude::*;

    #[test]
    fn scores_beyond_the_range_are_refused() {
        assert_eq!(FixedPoint::from_score(0.5), Some(FixedPoint(1 << 31)));
        assert_eq!(FixedPoint::from_score(f64::NAN), None);
        assert_eq!(LiveSummary::from_score(2.0 * ONE, true), None);
        assert!(LiveSummary::from_score(-ONE, true).is_some());
        assert_eq!((LiveSummary::default().mean(), LiveSummary::default().stderr()), (None, None));
    }

    proptest! {
        #[test]
        fn order_does_not_matter_and_floats_agree(
            scores in proptest::collection::vec((prop_oneof![0.0..2.0f64, 0.0..5000.0f64], any::<bool>()), 2..200),
        ) {
            let (mut forward, mut backward) = (LiveSummary::default(), LiveSummary::default());
            for &(score, ok) in &scores {
                forward += LiveSummary::from_score(score, ok).unwrap();
            }
            for &(score, ok) in scores.iter().rev() {
                backward += LiveSummary::from_score(score, ok).unwrap();
            }
            prop_assert_eq!(forward, backward);
            prop_assert_eq!(LiveSummary::from(<(i64, i64, i128, i128)>::from(forward)), forward);
            let values: Vec<Option<f64>> = scores.iter().map(|&(score, _)| Some(score)).collect();
            let ok = scores.iter().map(|s| s.1);
            let summary = MeasureSummary::of(&values, ok, ValueRange::Count);
            let close = |one: f64, other: f64, error: f64| (one - other).abs() <= error * other.abs().max(1.0);
            prop_assert!(close(forward.mean().unwrap(), summary.mean.unwrap(), 1e-9));
            // Squares are rounded; a root near zero would magnify the error.
            let (live, exact) = (forward.stderr().unwrap(), summary.stderr.unwrap());
            let size = exact * exact + summary.mean.unwrap().powi(2);
            prop_assert!((live * live - exact * exact).abs() <= 1e-8 * size.max(1.0));
            prop_assert_eq!(forward.coverage(), summary.coverage);
        }
    }
}
