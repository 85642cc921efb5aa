//! Means of a measure over questions, with standard errors and intervals.
//!
//! Sums are plain `f64` additions in the given order (dataset order in final tables), so equal inputs give equal bits.
//! A question with an undefined measure (`None`) is left out. A failed one is included with its score of 0.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// The 97.5 % quantile of the standard normal distribution: two-sided 95 %.
pub const Z_95: f64 = 1.959_963_984_540_054;

/// The values that a measure can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRange {
    /// 0 to 1.
    Share,
    /// 0 or more, without an upper bound.
    Count,
}

/// A measure over a set of questions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasureSummary {
    /// The number of questions with a defined measure.
    pub n: u64,
    /// The mean over them; `None` without questions.
    pub mean: Option<f64>,
    /// The standard error of the mean; `None` below two questions.
    pub stderr: Option<f64>,
    /// A 95 % interval, low and high: [`mean_interval`].
    pub interval: Option<(f64, f64)>,
    /// The share of the n questions whose outcome has status ok; `None` if n is 0.
    pub coverage: Option<f64>,
}

impl MeasureSummary {
    /// Summarises values of a `range` in their order. `ok` says for each whether its outcome has status ok.
    pub fn of(values: &[Option<f64>], ok: impl IntoIterator<Item = bool>, range: ValueRange) -> Self {
        let (mut n, mut answered, mut sum) = (0u64, 0u64, 0.0);
        for (&value, ok) in values.iter().zip(ok) {
            let Some(value) = value else { continue };
            n += 1;
            answered += u64::from(ok);
            sum += value;
        }
        if n == 0 {
            return Self::default();
        }
        let mean = sum / n as f64;
        let stderr = standard_error(values.iter().flatten().copied(), mean, n);
        let interval = mean_interval(range, mean, stderr, n);
        Self { n, mean: Some(mean), stderr, interval, coverage: Some(answered as f64 / n as f64) }
    }
}

/// The mean of the defined values, and their number.
pub fn mean(values: &[Option<f64>]) -> (Option<f64>, u64) {
    let (mut n, mut sum) = (0u64, 0.0);
    for value in values.iter().flatten() {
        n += 1;
        sum += value;
    }
    ((n > 0).then(|| sum / n as f64), n)
}

/// The standard error of a mean by the central limit theorem: the sample deviation (n - 1) over √n. `None` below two
/// values (as in lm-evaluation-harness's `mean_stderr`).
fn standard_error(values: impl Iterator<Item = f64>, mean: f64, n: u64) -> Option<f64> {
    if n < 2 {
        return None;
    }
    let squares: f64 = values.map(|value| (value - mean) * (value - mean)).sum();
    Some((squares / (n - 1) as f64).sqrt() / (n as f64).sqrt())
}

/// The standard error of a mean over questions in clusters. Questions of a cluster share passages or sub-questions. It
/// is the square root of the summed squares of each cluster's summed deviations, over n (Miller 2024, "Adding error
/// bars to evals"). With one question per cluster it is √((n - 1) / n) of the plain one. `None` below two clusters.
pub fn clustered_standard_error<K: Hash + Eq>(values: &[Option<f64>], clusters: &[K]) -> Option<f64> {
    let (Some(mean), n) = mean(values) else { return None };
    // Clusters add up in order of first appearance: a map's own order would change the last bits.
    let mut index: FxHashMap<&K, usize> = FxHashMap::default();
    let mut deviations: Vec<f64> = Vec::new();
    for (value, cluster) in values.iter().zip(clusters) {
        let Some(value) = value else { continue };
        let at = *index.entry(cluster).or_insert(deviations.len());
        if at == deviations.len() {
            deviations.push(0.0);
        }
        deviations[at] += value - mean;
    }
    if deviations.len() < 2 {
        return None;
    }
    Some(deviations.iter().map(|d| d * d).sum::<f64>().sqrt() / n as f64)
}

/// A 95 % interval of the mean of `n` values, from the mean and its standard error. It cannot leave the range.
///
/// *Shares*: Wilson's score interval for the effective number of values, as for survey data (Dean and Pagano 2015).
/// That is the number of values of 0 and 1 with this mean whose mean has the same variance. One of the `n` values
/// counts with the largest variance that this mean allows, so that equal values do not give an interval without width.
/// If all values are 0 or 1, the effective number is `n`: the interval is Wilson's own.
///
/// *Counts*: the normal interval of the logarithm (delta method).
///
/// `None` without values, for counts also below two values and if all are 0.
pub fn mean_interval(range: ValueRange, mean: f64, stderr: Option<f64>, n: u64) -> Option<(f64, f64)> {
    match range {
        ValueRange::Share if n > 0 && (0.0..=1.0).contains(&mean) => {
            let (count, largest) = (n as f64, mean * (1.0 - mean));
            // Of the values, with n.
            let variance = stderr.map_or(0.0, |stderr| stderr * stderr * (count - 1.0));
            let widened = ((count - 1.0) * variance + largest) / count;
            let effective = if widened > 0.0 { count * largest / widened } else { count };
            Some(wilson_interval(mean, effective))
        }
        ValueRange::Count if mean > 0.0 => {
            let factor = (Z_95 * stderr? / mean).exp();
            Some((mean / factor, mean * factor))
        }
        _ => None,
    }
}

/// Wilson's 95 % score interval of a share of `n` values (Wilson 1927), without continuity correction.
///
/// The ends are the roots of a quadratic polynomial. The lower end is computed from their product, so it is never below
/// 0. The upper end is 1 less the lower end of the other share.
fn wilson_interval(share: f64, n: f64) -> (f64, f64) {
    (wilson_low(share, n), 1.0 - wilson_low(1.0 - share, n))
}

fn wilson_low(share: f64, n: f64) -> f64 {
    let z2 = Z_95 * Z_95;
    let centre = share + z2 / (2.0 * n);
    let half = Z_95 * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    // Both ends are divided by 1 + z² / n: (centre - half) (centre + half) = share² (1 + z² / n).
    share * share / (centre + half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn undefined_values_are_left_out_and_failures_are_in() {
        let values = [Some(1.0), None, Some(0.0), Some(0.5), Some(0.5)];
        let summary = MeasureSummary::of(&values, [true, true, false, true, true], ValueRange::Share);
        assert_eq!((summary.n, summary.mean, summary.coverage), (4, Some(0.5), Some(0.75)));
        // Squared deviations .25 + .25 over 3, over 4.
        let stderr = summary.stderr.unwrap();
        assert!(close(stderr, (0.5f64 / 3.0 / 4.0).sqrt()));
        assert_eq!(summary.interval, mean_interval(ValueRange::Share, 0.5, Some(stderr), 4));
        assert_eq!(MeasureSummary::of(&[None], [true], ValueRange::Share), MeasureSummary::default());
    }

    #[test]
    fn one_value_has_no_error() {
        let one = MeasureSummary::of(&[Some(0.25)], [true], ValueRange::Share);
        assert_eq!((one.mean, one.stderr), (Some(0.25), None));
        assert_eq!(one.interval, Some(wilson_interval(0.25, 1.0)), "as much as one value of 0 or 1 tells");
        assert_eq!(MeasureSummary::of(&[Some(2.0)], [true], ValueRange::Count).interval, None);
    }

    #[test]
    fn wilson_on_a_textbook_case() {
        // 8 of 10: 0.4902 to 0.9433 (R: prop.test(8, 10, correct = FALSE)).
        let (low, high) = wilson_interval(0.8, 10.0);
        assert!((low - 0.490_162).abs() < 1e-5 && (high - 0.943_318).abs() < 1e-5, "{low} {high}");
    }

    /// Both ends of the interval of these values.
    fn interval(values: &[f64]) -> (f64, f64) {
        let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
        MeasureSummary::of(&values, values.iter().map(|_| true), ValueRange::Share).interval.unwrap()
    }

    #[test]
    fn values_of_0_and_1_have_wilsons_interval() {
        let (low, high) = interval(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
        assert!((low - 0.490_162).abs() < 1e-5 && (high - 0.943_318).abs() < 1e-5, "{low} {high}");
        // The cases of the review: none of 23, and 11 of 13, whose normal interval ends at 1.05.
        let (low, high) = interval(&[0.0; 23]);
        assert!(low == 0.0 && (high - 0.143).abs() < 5e-4, "{low} {high}");
        let mut most = vec![1.0; 11];
        most.extend([0.0; 2]);
        let (low, high) = interval(&most);
        assert!((low - 0.578).abs() < 5e-4 && (high - 0.957).abs() < 5e-4, "{low} {high}");
        let (low, high) = interval(&[1.0; 5]);
        assert!((low - 0.5655).abs() < 1e-4 && high == 1.0, "{low} {high}");
    }

    #[test]
    fn intervals_of_other_shares_are_near_the_normal_one() {
        let values: Vec<f64> = (0..2000).map(|n| f64::from(n % 5) / 4.0).collect();
        let (low, high) = interval(&values);
        let half = Z_95 * (0.125f64 / 1999.0).sqrt();
        assert!((low - (0.5 - half)).abs() < 1e-4 && (high - (0.5 + half)).abs() < 1e-4, "{low} {high}");
        // Equal values do not prove a mean.
        let (low, high) = interval(&[0.5; 10]);
        assert!((0.35..0.45).contains(&low) && (0.55..0.65).contains(&high), "{low} {high}");
        let (low, high) = mean_interval(ValueRange::Count, 2.0, Some(3.0), 4).unwrap();
        assert!(low > 0.0 && close(low * high, 4.0), "{low} {high}");
        assert_eq!(mean_interval(ValueRange::Share, 1.5, Some(0.1), 4), None, "of a table of before");
    }

    #[test]
    fn clusters_that_agree_widen_the_error() {
        let values = [Some(1.0), Some(1.0), Some(0.0), Some(0.0)];
        let apart = clustered_standard_error(&values, &[0, 1, 2, 3]).unwrap();
        let paired = clustered_standard_error(&values, &["a", "a", "b", "b"]).unwrap();
        assert!(close(apart, 0.25) && close(paired, (0.5f64).sqrt() / 2.0));
        assert_eq!(clustered_standard_error(&values, &[7; 4]), None);
    }

    proptest! {
        #[test]
        fn intervals_hold_their_mean_and_stay_within_bounds(
            values in proptest::collection::vec(prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64], 1..60),
        ) {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (low, high) = interval(&values);
            prop_assert!(0.0 <= low && high <= 1.0, "{low} {high}");
            prop_assert!(low <= mean + 1e-12 && mean <= high + 1e-12, "{low} {mean} {high}");
            prop_assert!(low < high);
        }

        #[test]
        fn singleton_clusters_are_the_plain_error(values in proptest::collection::vec(0.0..1.0f64, 2..50)) {
            let values: Vec<Option<f64>> = values.into_iter().map(Some).collect();
            let n = values.len() as f64;
            let ok = values.iter().map(|_| true);
            let plain = MeasureSummary::of(&values, ok, ValueRange::Share).stderr.unwrap();
            let clusters: Vec<usize> = (0..values.len()).collect();
            let clustered = clustered_standard_error(&values, &clusters).unwrap();
            prop_assert!((clustered - plain * ((n - 1.0) / n).sqrt()).abs() < 1e-12);
        }
    }
}
