//! Means of a measure over questions, with standard errors and intervals.
//!
//! Sums are plain `f64` additions in the given order (dataset order in final tables), so equal inputs give equal bits.
//! A question with an undefined measure (`None`) is left out. A failed one is included with its score of 0.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// The 97.5 % quantile of the standard normal distribution: two-sided 95 %.
pub const Z_95: f64 = 1.959_963_984_540_054;

/// A measure over a set of questions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasureSummary {
    /// The number of questions with a defined measure.
    pub n: u64,
    /// The mean over them; `None` without questions.
    pub mean: Option<f64>,
    /// The standard error of the mean; `None` below two questions.
    pub stderr: Option<f64>,
    /// A 95 % interval, low and high: Wilson's if every value is 0 or 1, otherwise mean ± 1.96 stderr, not clipped.
    /// `None` if it is unknown (below two questions that are not all 0 or 1).
    pub interval: Option<(f64, f64)>,
    /// The share of the n questions whose outcome has status ok; `None` if n is 0.
    pub coverage: Option<f64>,
}

impl MeasureSummary {
    /// Summarises values in their order. `ok` says for each whether its outcome has status ok.
    pub fn of(values: &[Option<f64>], ok: impl IntoIterator<Item = bool>) -> Self {
        let (mut n, mut answered, mut sum, mut binary) = (0u64, 0u64, 0.0, true);
        for (&value, ok) in values.iter().zip(ok) {
            let Some(value) = value else { continue };
            n += 1;
            answered += u64::from(ok);
            sum += value;
            binary &= value == 0.0 || value == 1.0;
        }
        if n == 0 {
            return Self::default();
        }
        let mean = sum / n as f64;
        let stderr = standard_error(values.iter().flatten().copied(), mean, n);
        let interval = if binary { Some(wilson_interval(sum, n)) } else { stderr.map(|se| normal_interval(mean, se)) };
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

/// The 95 % normal interval of a mean.
pub fn normal_interval(mean: f64, stderr: f64) -> (f64, f64) {
    (mean - Z_95 * stderr, mean + Z_95 * stderr)
}

/// Wilson's 95 % score interval of a share (Wilson 1927), without continuity correction. (0, 1) for n = 0.
pub fn wilson_interval(successes: f64, n: u64) -> (f64, f64) {
    if n == 0 {
        return (0.0, 1.0);
    }
    let n = n as f64;
    let share = successes / n;
    let z2 = Z_95 * Z_95;
    let centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z_95 / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
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
        let summary = MeasureSummary::of(&values, [true, true, false, true, true]);
        assert_eq!((summary.n, summary.mean, summary.coverage), (4, Some(0.5), Some(0.75)));
        // Squared deviations .25 + .25 over 3, over 4.
        let stderr = summary.stderr.unwrap();
        assert!(close(stderr, (0.5f64 / 3.0 / 4.0).sqrt()));
        let (low, high) = summary.interval.unwrap();
        assert!(close(high - 0.5, Z_95 * stderr) && close(0.5 - low, Z_95 * stderr));
        assert_eq!(MeasureSummary::of(&[None], [true]), MeasureSummary::default());
    }

    #[test]
    fn one_value_has_no_error() {
        let one = MeasureSummary::of(&[Some(0.25)], [true]);
        assert_eq!((one.mean, one.stderr, one.interval), (Some(0.25), None, None));
        assert!(MeasureSummary::of(&[Some(1.0)], [true]).interval.is_some());
    }

    #[test]
    fn wilson_on_a_textbook_case() {
        // 8 of 10: 0.4902 to 0.9433 (R: prop.test(8, 10, correct = FALSE)).
        let (low, high) = wilson_interval(8.0, 10);
        assert!((low - 0.490_162).abs() < 1e-5 && (high - 0.943_318).abs() < 1e-5, "{low} {high}");
        assert_eq!(wilson_interval(0.0, 5).0, 0.0);
        assert_eq!(wilson_interval(5.0, 5).1, 1.0);
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
        fn singleton_clusters_are_the_plain_error(values in proptest::collection::vec(0.0..1.0f64, 2..50)) {
            let values: Vec<Option<f64>> = values.into_iter().map(Some).collect();
            let n = values.len() as f64;
            let plain = MeasureSummary::of(&values, values.iter().map(|_| true)).stderr.unwrap();
            let clusters: Vec<usize> = (0..values.len()).collect();
            let clustered = clustered_standard_error(&values, &clusters).unwrap();
            prop_assert!((clustered - plain * ((n - 1.0) / n).sqrt()).abs() < 1e-12);
        }
    }
}
