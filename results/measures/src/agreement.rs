//! Agreement of two raters who each say yes or no: Cohen's kappa with an interval.
//!
//! The interval is the set of kappas that the likelihood-ratio test does not refuse at 5 %: for each of them the
//! likelihood of the table is maximised over both raters' shares of yes. So it always holds the estimate, it cannot
//! leave -1 to 1, and it has a width where the raters agree on everything. (The normal interval has none there, and
//! for rare answers it is far too short.)

/// The 95 % quantile of the chi-squared distribution with one degree of freedom.
const CHI_SQUARED_95: f64 = 3.841_458_820_694_124;

/// Halvings of the search for an end of the interval.
const HALVINGS: u32 = 30;

/// Points on each axis of a grid.
const GRID: u32 = 8;

/// Refinements of the grid around its best point; each halves its width.
const REFINEMENTS: u32 = 24;

/// The agreement of two raters over pairs of their words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RaterAgreement {
    /// Pairs in which both say yes.
    pub both_yes: u64,
    /// Pairs in which only the first says yes.
    pub first_only: u64,
    /// Pairs in which only the second says yes.
    pub second_only: u64,
    /// Pairs in which both say no.
    pub both_no: u64,
}

impl RaterAgreement {
    /// Counts pairs of words: the first rater's, the second rater's.
    pub fn of(pairs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let mut counts = Self::default();
        pairs.into_iter().for_each(|(first, second)| counts.add(first, second));
        counts
    }

    /// Adds a pair.
    pub fn add(&mut self, first: bool, second: bool) {
        *match (first, second) {
            (true, true) => &mut self.both_yes,
            (true, false) => &mut self.first_only,
            (false, true) => &mut self.second_only,
            (false, false) => &mut self.both_no,
        } += 1;
    }

    /// The number of pairs.
    pub fn n(&self) -> u64 {
        self.both_yes + self.first_only + self.second_only + self.both_no
    }

    /// The share of pairs with equal words; `None` without pairs.
    pub fn share(&self) -> Option<f64> {
        let n = self.n();
        (n > 0).then(|| (self.both_yes + self.both_no) as f64 / n as f64)
    }

    /// Cohen's kappa (1960): the agreement beyond chance, as a share of what is possible beyond chance. `None` without
    /// pairs, and where both raters say one and the same word always: then agreement by chance is certain.
    pub fn kappa(&self) -> Option<f64> {
        let (n, share) = (self.n() as f64, self.share()?);
        let by_chance =
            chance((self.both_yes + self.first_only) as f64 / n, (self.both_yes + self.second_only) as f64 / n);
        (by_chance < 1.0).then(|| (share - by_chance) / (1.0 - by_chance))
    }

    /// The 95 % interval of kappa; `None` where kappa is undefined.
    pub fn kappa_interval(&self) -> Option<(f64, f64)> {
        let kappa = self.kappa()?;
        let most = self.log_likelihood(&TableShares::of_counts(self));
        let is_refused = |kappa: f64| 2.0 * (most - self.largest_log_likelihood(kappa)) > CHI_SQUARED_95;
        let end = |bound: f64| {
            if !is_refused(bound) {
                return bound;
            }
            let (mut inside, mut outside) = (kappa, bound);
            for _ in 0..HALVINGS {
                let middle = (inside + outside) / 2.0;
                *if is_refused(middle) { &mut outside } else { &mut inside } = middle;
            }
            inside
        };
        Some((end(-1.0), end(1.0)))
    }

    /// The log-likelihood of the counts under shares of the table's four cells.
    fn log_likelihood(&self, shares: &TableShares) -> f64 {
        let counts = [self.both_yes, self.first_only, self.second_only, self.both_no];
        let cell = |(count, share): (u64, f64)| match (count, share > 0.0) {
            (0, _) => 0.0,
            (_, true) => count as f64 * share.ln(),
            (_, false) => f64::NEG_INFINITY,
        };
        counts.into_iter().zip(shares.cells).map(cell).sum()
    }

    /// The largest log-likelihood of the counts over all tables with this kappa: by a grid over both raters' shares of
    /// yes, refined around its best point.
    fn largest_log_likelihood(&self, kappa: f64) -> f64 {
        let value = |first: f64, second: f64| {
            TableShares::with_kappa(kappa, first, second).map_or(f64::NEG_INFINITY, |table| self.log_likelihood(&table))
        };
        let (mut centre, mut half) = ((0.5, 0.5), 0.5);
        let mut best = value(centre.0, centre.1);
        for _ in 0..REFINEMENTS {
            let around = centre;
            let place = |middle: f64, step: u32| middle + half * (2.0 * f64::from(step) / f64::from(GRID) - 1.0);
            for (i, j) in (0..=GRID).flat_map(|i| (0..=GRID).map(move |j| (i, j))) {
                let (first, second) = (place(around.0, i), place(around.1, j));
                let found = value(first, second);
                if found > best {
                    (best, centre) = (found, (first, second));
                }
            }
            half /= 2.0;
        }
        best
    }
}

/// The agreement by chance of raters with these shares of yes.
fn chance(first: f64, second: f64) -> f64 {
    first * second + (1.0 - first) * (1.0 - second)
}

/// Shares of the four cells of a table, in the order of [`RaterAgreement`]'s fields.
struct TableShares {
    cells: [f64; 4],
}

impl TableShares {
    fn of_counts(counts: &RaterAgreement) -> Self {
        let n = counts.n() as f64;
        let cells = [counts.both_yes, counts.first_only, counts.second_only, counts.both_no];
        Self { cells: cells.map(|count| count as f64 / n) }
    }

    /// The table of two raters with these shares of yes and this kappa; `None` if there is none.
    fn with_kappa(kappa: f64, first: f64, second: f64) -> Option<Self> {
        let by_chance = chance(first, second);
        let agreed = by_chance + kappa * (1.0 - by_chance);
        let both_yes = (agreed + first + second - 1.0) / 2.0;
        let cells = [both_yes, first - both_yes, second - both_yes, 1.0 - first - second + both_yes];
        // A cell is 0 at the edge of what is possible, up to rounding.
        let within = cells.map(|share| if share.abs() < 1e-12 { 0.0 } else { share });
        within.iter().all(|&share| share >= 0.0).then_some(Self { cells: within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(counts: [u64; 4]) -> RaterAgreement {
        let [both_yes, first_only, second_only, both_no] = counts;
        RaterAgreement { both_yes, first_only, second_only, both_no }
    }

    #[test]
    fn pairs_are_counted_by_their_words() {
        let counted = RaterAgreement::of([(true, true), (true, false), (false, false), (true, false)]);
        assert_eq!((counted, counted.n(), counted.share()), (table([1, 2, 0, 1]), 4, Some(0.5)));
    }

    #[test]
    fn without_variation_there_is_no_kappa() {
        for counts in [[0, 0, 0, 0], [7, 0, 0, 0], [0, 0, 0, 3]] {
            assert_eq!((table(counts).kappa(), table(counts).kappa_interval()), (None, None), "{counts:?}");
        }
        assert_eq!(table([0, 0, 0, 0]).share(), None);
    }

    /// Computed in Python by `ops/reference/judges/agreement.py`, which searches another way.
    #[test]
    fn intervals_are_those_of_the_likelihood_ratio() {
        for (counts, kappa, low, high) in [
            ([20, 5, 10, 15], 0.4, 0.1373, 0.6271),
            ([45, 15, 25, 15], 0.130_434_78, -0.0608, 0.3218),
            ([3, 1, 0, 2], 0.666_666_67, -0.0025, 0.9787),
            // Agreement on everything, and on one rare yes.
            ([10, 0, 0, 10], 1.0, 0.8169, 1.0),
            ([1, 0, 0, 99], 1.0, 0.2512, 1.0),
        ] {
            let raters = table(counts);
            assert!((raters.kappa().unwrap() - kappa).abs() < 1e-8, "{counts:?}: {:?}", raters.kappa());
            let found = raters.kappa_interval().unwrap();
            assert!((found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4, "{counts:?}: {found:?}");
        }
        // Raters who always differ: agreement by chance is 24 of 49.
        assert!((table([0, 3, 4, 0]).kappa().unwrap() + 0.96).abs() < 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn intervals_hold_kappa_and_stay_within_bounds(counts in proptest::array::uniform4(0..40u64)) {
            let raters = table(counts);
            let Some(kappa) = raters.kappa() else { return Ok(()) };
            let (low, high) = raters.kappa_interval().unwrap();
            prop_assert!((-1.0..=1.0).contains(&low) && (-1.0..=1.0).contains(&high), "{low} {high}");
            prop_assert!(low <= kappa && kappa <= high && low < high, "{low} {kappa} {high}");
        }
    }
}
