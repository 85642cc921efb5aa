//! The certainty of a difference between two configurations with the same questions.
//!
//! Hard questions are hard for both, so differences are taken question by question. Resampling draws *questions*, never
//! rows of question and replicate: the replicates of a question are averaged before. The interval is the percentile
//! bootstrap's (Efron and Tibshirani 1993, chapter 13; Koehn 2004 for systems over one test set). The p value comes
//! from exchanging the two within questions (Noreen 1989). Where all differences that are not 0 have one size, as those
//! of values of 0 and 1, the exchanges are counted: this is McNemar's exact test. Others are drawn at random. Student's
//! paired t test stands beside, for readers who expect it.
//!
//! Draws use a counter-based random sequence, so the same differences give the same bits on every machine.

use crate::beta::incomplete_beta;
use std::collections::BTreeMap;

/// Number of resamples for an interval, and of exchanges for a p value.
pub const DRAWS: usize = 10_000;

/// The share of the bootstrap's means below a 95 % interval, and above it.
const TAIL: f64 = 0.025;

/// A difference over the same questions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedDifference {
    /// Questions with a value of both.
    pub n: u64,
    /// The mean difference.
    pub mean: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
    /// Two-sided: the share of exchanges whose mean is at least as far from 0.
    pub p: ExchangePValue,
    /// Two-sided p value of Student's paired t test (1908); `None` if all differences are equal.
    pub t_test: Option<f64>,
}

/// A p value from exchanging two configurations within questions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExchangePValue {
    /// Of all exchanges, as McNemar's exact test (1947) for values of 0 and 1.
    Exact(f64),
    /// Of [`DRAWS`] random ones, with the observed one (Phipson and Smyth 2010). Never below 1 / ([`DRAWS`] + 1).
    Drawn(f64),
}

impl ExchangePValue {
    /// The p value.
    pub fn value(self) -> f64 {
        match self {
            Self::Exact(p) | Self::Drawn(p) => p,
        }
    }

    /// The name of the kind: `exact` or `drawn`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Exact(_) => "exact",
            Self::Drawn(_) => "drawn",
        }
    }

    /// Of the differences of all questions.
    fn of(differences: &[f64]) -> Self {
        exact_p_value(differences).map_or_else(|| Self::Drawn(drawn_p_value(differences)), Self::Exact)
    }
}

impl PairedDifference {
    /// Of the differences of all questions, in the questions' order. `None` below two questions.
    pub fn of(differences: &[f64]) -> Option<Self> {
        if differences.len() < 2 {
            return None;
        }
        let n = differences.len() as f64;
        let mean = differences.iter().sum::<f64>() / n;
        let (low, high) = bootstrap_interval(differences);
        let (p, t_test) = (ExchangePValue::of(differences), t_test_p_value(differences));
        Some(Self { n: differences.len() as u64, mean, low, high, p, t_test })
    }
}

/// The ratio of two means over the same questions, such as the costs of a question under two configurations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedRatio {
    /// The other's mean over that of `base`.
    pub ratio: f64,
    /// Its 95 % interval; `None` below two questions, and if a resample of `base` has the mean 0.
    pub interval: Option<(f64, f64)>,
}

impl PairedRatio {
    /// Of the values of all questions, none below 0, in the questions' order. `None` if `base` has the mean 0, or no
    /// values.
    pub fn of(base: &[f64], other: &[f64]) -> Option<Self> {
        debug_assert_eq!(base.len(), other.len(), "values of the same questions");
        let sums =
            |at: &mut dyn Iterator<Item = usize>| at.fold((0.0, 0.0), |(a, b), at| (a + base[at], b + other[at]));
        let ratio = |(base, other): (f64, f64)| (base > 0.0).then(|| other / base);
        let seen = ratio(sums(&mut (0..base.len())))?;
        let interval = if base.len() < 2 {
            None
        } else {
            let mut draws = QuestionDraws::new(base.len());
            let ratios = (0..DRAWS).map(|_| ratio(sums(&mut draws.by_ref().take(base.len()))));
            ratios.collect::<Option<Vec<f64>>>().map(percentile_interval)
        };
        Some(Self { ratio: seen, interval })
    }
}

/// The 95 % percentile interval of the mean.
fn bootstrap_interval(values: &[f64]) -> (f64, f64) {
    let mut draws = QuestionDraws::new(values.len());
    let mean = |draws: &mut QuestionDraws| {
        draws.by_ref().take(values.len()).map(|at| values[at]).sum::<f64>() / values.len() as f64
    };
    percentile_interval((0..DRAWS).map(|_| mean(&mut draws)).collect())
}

/// The 95 % interval of [`DRAWS`] resampled figures.
fn percentile_interval(mut figures: Vec<f64>) -> (f64, f64) {
    figures.sort_unstable_by(f64::total_cmp);
    let beyond = (TAIL * DRAWS as f64) as usize;
    (figures[beyond - 1], figures[DRAWS - beyond])
}

/// Draws questions at random, for ever, always the same ones.
struct QuestionDraws {
    questions: u64,
    counter: u64,
}

impl QuestionDraws {
    fn new(questions: usize) -> Self {
        Self { questions: questions as u64, counter: 0 }
    }
}

impl Iterator for QuestionDraws {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.counter += 1;
        // The upper half of 64 bits, scaled: the probabilities of two questions differ by at most n in 2³².
        Some((((splitmix_number(self.counter) >> 32) * self.questions) >> 32) as usize)
    }
}

/// The p value under all exchanges of the two within each question; `None` unless all differences that are not 0 have
/// one size. The wins are then binomial with one half.
fn exact_p_value(differences: &[f64]) -> Option<f64> {
    let mut told = differences.iter().copied().filter(|&difference| difference != 0.0).peekable();
    let size = told.peek().map_or(1.0, |difference| difference.abs());
    let (mut won, mut lost) = (0u64, 0u64);
    for difference in told {
        // Zero and one are exact in every mean of equal values; a mean of replicates may differ in its last bit.
        if (difference.abs() - size).abs() > 1e-12 * size {
            return None;
        }
        *if difference > 0.0 { &mut won } else { &mut lost } += 1;
    }
    // At most so many of fair coins fall on one side: the binomial distribution by the incomplete beta function.
    let (fewer, more) = (won.min(lost) as f64, won.max(lost) as f64);
    let tail = if more == 0.0 { 1.0 } else { incomplete_beta(0.5, more, fewer + 1.0) };
    Some((2.0 * tail).min(1.0))
}

/// Two-sided p value of Student's paired t test.
fn t_test_p_value(differences: &[f64]) -> Option<f64> {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|difference| (difference - mean).powi(2)).sum::<f64>() / (n - 1.0);
    if differences.iter().all(|&difference| difference == differences[0]) {
        return None;
    }
    let t = mean / (variance / n).sqrt();
    // Both tails of Student's distribution with n - 1 degrees of freedom.
    let freedom = n - 1.0;
    Some(incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5))
}

/// The p value of the mean under random exchanges of the two within each question.
fn drawn_p_value(differences: &[f64]) -> f64 {
    // If both are equal, an exchange changes nothing.
    let told: Vec<f64> = differences.iter().copied().filter(|&difference| difference != 0.0).collect();
    let seen = told.iter().sum::<f64>().abs();
    // Sums of the same numbers in another order of signs may differ in their last bits.
    let seen = seen - 1e-12 * told.iter().map(|difference| difference.abs()).sum::<f64>();
    let mut counter = u64::MAX / 2;
    let mut as_far = 0usize;
    for _ in 0..DRAWS {
        let mut sum = 0.0;
        for part in told.chunks(64) {
            counter += 1;
            let signs = splitmix_number(counter);
            let signed =
                |(bit, &difference): (usize, &f64)| if (signs >> bit) & 1 == 0 { difference } else { -difference };
            sum += part.iter().enumerate().map(signed).sum::<f64>();
        }
        as_far += usize::from(sum.abs() >= seen);
    }
    (1 + as_far) as f64 / (1 + DRAWS) as f64
}

/// The `counter`-th number of SplitMix64 (Steele, Lea and Flood 2014).
fn splitmix_number(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Holm's p values (1979), in the given order. The chance of rejecting any of several true null hypotheses stays below
/// the level, for any dependence between them.
pub fn holm_p_values(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut least = 0.0f64;
    for (rank, &at) in order.iter().enumerate() {
        least = least.max(((p.len() - rank) as f64 * p[at]).min(1.0));
        adjusted[at] = least;
    }
    adjusted
}

/// Sets Holm's p values, family by family; what has no p value is left as it is.
pub fn adjust_families<'t, T: 't, K: Ord>(
    all: impl Iterator<Item = &'t mut T>,
    family: impl Fn(&T) -> K,
    p_value: impl Fn(&T) -> Option<f64>,
    adjust: impl Fn(&mut T, f64),
) {
    let mut families: BTreeMap<K, (Vec<f64>, Vec<&mut T>)> = BTreeMap::new();
    for found in all {
        if let Some(p) = p_value(found) {
            let (values, members) = families.entry(family(found)).or_default();
            values.push(p);
            members.push(found);
        }
    }
    for (values, members) in families.into_values() {
        members.into_iter().zip(holm_p_values(&values)).for_each(|(found, p)| adjust(found, p));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{MeasureSummary, ValueRange, Z_95};

    /// A hundred differences: 30 questions won, 12 lost.
    fn won_and_lost() -> Vec<f64> {
        (0..100).map(|n| if n % 10 < 3 { 1.0 } else { f64::from(u8::from(n % 25 == 4)) * -3.0 }).collect()
    }

    #[test]
    fn the_ratio_of_proportional_costs_is_certain() {
        let base: Vec<f64> = (1..50).map(f64::from).collect();
        let twice: Vec<f64> = base.iter().map(|cost| cost * 2.0).collect();
        assert_eq!(PairedRatio::of(&base, &twice), Some(PairedRatio { ratio: 2.0, interval: Some((2.0, 2.0)) }));
        assert_eq!(PairedRatio::of(&[0.0; 4], &base[..4]), None);
        assert_eq!(PairedRatio::of(&[], &[]), None);
        assert_eq!(PairedRatio::of(&[4.0], &[1.0]), Some(PairedRatio { ratio: 0.25, interval: None }));
        // A resample of zeroes alone has no ratio.
        assert_eq!(PairedRatio::of(&[1.0, 0.0], &[1.0, 1.0]), Some(PairedRatio { ratio: 2.0, interval: None }));
    }

    #[test]
    fn the_interval_of_a_ratio_is_near_the_delta_method_s() {
        let base: Vec<f64> = (0..400).map(|n| 10.0 + f64::from(n * 37 % 101)).collect();
        let other: Vec<f64> = (0..400).map(|n| 5.0 + f64::from(n * 53 % 89)).collect();
        let PairedRatio { ratio, interval } = PairedRatio::of(&base, &other).unwrap();
        let (low, high) = interval.unwrap();
        let mean = base.iter().sum::<f64>() / 400.0;
        // The variance of the residuals over the squared mean (Cochran 1977, section 2.11).
        let residuals: f64 = base.iter().zip(&other).map(|(base, other)| (other - ratio * base).powi(2)).sum();
        let half = Z_95 * (residuals / 399.0 / 400.0).sqrt() / mean;
        for (found, expected) in [(low, ratio - half), (high, ratio + half)] {
            assert!((found - expected).abs() < 0.1 * half, "{found} {expected} {half}");
        }
    }

    #[test]
    fn the_interval_is_near_the_normal_one() {
        let values: Vec<f64> = (0..400).map(|n| f64::from(n * 37 % 101) / 101.0 - 0.4).collect();
        let found = PairedDifference::of(&values).unwrap();
        let all: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
        let plain = MeasureSummary::of(&all, values.iter().map(|_| true), ValueRange::Share);
        let (mean, half) = (plain.mean.unwrap(), Z_95 * plain.stderr.unwrap());
        let (low, high) = (mean - half, mean + half);
        assert_eq!((found.n, Some(found.mean)), (400, plain.mean));
        // The ends of 10,000 draws wander by about 3 % of a standard error.
        let near = 0.12 * plain.stderr.unwrap();
        assert!((found.low - low).abs() < near && (found.high - high).abs() < near, "{found:?} {low} {high}");
        assert_eq!(PairedDifference::of(&values), Some(found));
    }

    #[test]
    fn p_values_are_those_of_all_exchanges() {
        // All of 8 won: 2 of 2⁸ exchanges are as far.
        let all = PairedDifference::of(&[1.0; 8]).unwrap();
        assert!((all.p.value() - 2.0 / 256.0).abs() < 1e-15, "{all:?}");
        assert_eq!((all.low, all.high, all.t_test), (1.0, 1.0, None));
        // 9 won and 1 lost, and 40 alike: 22 of 2¹⁰, as McNemar's exact test has it.
        let mut nine = vec![0.0; 40];
        nine.extend([1.0; 9]);
        nine.push(-1.0);
        let found = PairedDifference::of(&nine).unwrap();
        assert!((found.p.value() - 22.0 / 1024.0).abs() < 1e-15, "{found:?}");
        assert!(matches!(found.p, ExchangePValue::Exact(_)));
        assert!(found.low > 0.0 && found.high < 0.35 && found.n == 50);
        // As many lost as won: no exchange is nearer.
        let even = PairedDifference::of(&[0.5, -0.5, 0.0, 0.25, -0.25]).unwrap();
        assert_eq!((even.p, even.t_test), (ExchangePValue::Drawn(1.0), Some(1.0)));
        // All differences are zero.
        let none = PairedDifference::of(&[0.0; 3]).unwrap();
        assert_eq!((none.mean, none.low, none.high, none.p), (0.0, 0.0, 0.0, ExchangePValue::Exact(1.0)));
        assert_eq!(PairedDifference::of(&[1.0]), None);
    }

    /// The draws of a p value have the error of a share of [`DRAWS`].
    #[test]
    fn drawn_p_values_are_near_the_exact_ones() {
        for (won, lost) in [(3, 1), (12, 4), (40, 25), (200, 170), (9, 9)] {
            let mut differences = vec![1.0; won];
            differences.extend(vec![-1.0; lost]);
            let (exact, drawn) = (exact_p_value(&differences).unwrap(), drawn_p_value(&differences));
            let error = (exact * (1.0 - exact) / DRAWS as f64).sqrt();
            assert!((exact - drawn).abs() <= 4.0 * error + 1.0 / DRAWS as f64, "{won} {lost}: {exact} {drawn}");
        }
    }

    #[test]
    fn the_t_test_is_scipy_s() {
        // scipy 1.17: ttest_rel of these values and zeroes.
        let found = t_test_p_value(&[0.5, -0.25, 1.0, 0.0, 0.75, 0.125]).unwrap();
        assert!((found - 0.128_671_205_035_335_88).abs() < 1e-12, "{found}");
        // Far beyond what a difference from 1 could tell.
        let certain: Vec<f64> = (0..200).map(|n| 1.0 + f64::from(n % 3) / 10.0).collect();
        let found = t_test_p_value(&certain).unwrap();
        assert!((found / 4.868_330_205_701_756e-227 - 1.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn swapped_sides_give_the_same_with_another_sign() {
        let one = PairedDifference::of(&won_and_lost()).unwrap();
        let other = PairedDifference::of(&won_and_lost().iter().map(|d| -d).collect::<Vec<_>>()).unwrap();
        assert_eq!((one.mean, one.p), (-other.mean, other.p));
        assert!((one.low + other.high).abs() < 1e-12 && (one.high + other.low).abs() < 1e-12, "{one:?} {other:?}");
    }

    #[test]
    fn holm_on_a_textbook_case() {
        // R: p.adjust(c(.01, .04, .03, .005), "holm").
        let found = holm_p_values(&[0.01, 0.04, 0.03, 0.005]);
        for (found, wanted) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
        }
        assert_eq!(holm_p_values(&[0.7, 0.6]), [1.0, 1.0]);
        assert!(holm_p_values(&[]).is_empty());
    }
}
