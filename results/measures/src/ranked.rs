//! Finds the golds in one ranked list of passages, and measures many lists at once from columns.
//!
//! Every [`RankedMeasure`] is a function of the first ranks of gold *groups* ([`GoldRanks`]), and of their grades, so a
//! list is scanned once for all of them. A group is one gold passage: the ids that satisfy it (its duplicates in the
//! corpus). A second id of a found group gains nothing. A group without ids is a gold passage missing from the corpus:
//! it counts and cannot be found. Groups share no ids.
//!
//! * A question without gold groups has no value (`None`), not 0: it stays out of the mean.
//! * A gold has a *grade* of at least 1, its relevance. What is judged 0 or below is not gold (trec_eval's default).
//!   Only `ndcg@k` asks how high a grade is.
//! * A list shorter than k is measured as it is: the missing places hold nothing relevant (trec_eval's rule).
//!   `precision@k` divides by k all the same.
//! * Lists come ranked and free of repeats. The ranking has already broken ties.

mod columns;

use std::cmp::Reverse;
use std::fmt;

pub use columns::{GoldColumns, Offset, RankedColumns, evaluate};

/// The gold passages of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GoldGroups {
    /// One group for each gold passage: the ids that satisfy it.
    pub groups: Vec<Vec<u32>>,
    /// The grade of each group, at least 1; empty if all are 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grades: Vec<u32>,
}

impl GoldGroups {
    /// Gold without duplicates: each id is a passage of its own.
    pub fn of_ids(ids: &[u32]) -> Self {
        Self { groups: ids.iter().map(|&id| vec![id]).collect(), grades: Vec::new() }
    }

    /// Whether the question has no gold passage. Then retrieval measures have no value.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// A measure of a ranked list, down to some depth. Its [`fmt::Display`] is its name in tables. The measures are in
/// [`crate::measures`].
#[derive(Clone, Copy, Debug)]
pub struct RankedMeasure {
    name: &'static str,
    version: &'static str,
    cut: Option<u32>,
    value: fn(&GoldRanks, u32) -> f64,
}

impl RankedMeasure {
    /// `name@k`. The function is called with k, and only if there are golds.
    pub const fn at(name: &'static str, version: &'static str, k: u32, value: fn(&GoldRanks, u32) -> f64) -> Self {
        Self { name, version, cut: Some(k), value }
    }

    /// A measure over all ranks. Its function is called with the greatest depth.
    pub const fn uncut(name: &'static str, version: &'static str, value: fn(&GoldRanks, u32) -> f64) -> Self {
        Self { name, version, cut: None, value }
    }

    /// The version of the definition.
    pub const fn version(&self) -> &'static str {
        self.version
    }

    /// The value; `None` without golds.
    pub fn value(&self, found: &GoldRanks) -> Option<f64> {
        (found.golds > 0).then(|| (self.value)(found, self.cut.unwrap_or(u32::MAX)))
    }

    /// The last rank that can change the value; `None` if every rank counts.
    pub const fn cut(&self) -> Option<u32> {
        self.cut
    }
}

impl fmt::Display for RankedMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cut {
            Some(k) => write!(f, "{}@{k}", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// The ranks of the golds in a ranked list. Reusable.
#[derive(Clone, Debug, Default)]
pub struct GoldRanks {
    /// The first rank (from 1) of each found group, ascending.
    ranks: Vec<u32>,
    /// Their grades, in the same order; empty if no gold has a grade above 1.
    grades: Vec<u32>,
    /// The grades of all golds, best first; empty if no gold has a grade above 1.
    best: Vec<u32>,
    /// The number of golds.
    golds: usize,
}

impl GoldRanks {
    /// Scans a ranked list.
    pub fn new(ranked: &[u32], gold: &GoldGroups) -> Self {
        let mut found = Self::default();
        found.set_ranking(ranked, gold.groups.iter().map(Vec::as_slice), &gold.grades);
        found
    }

    /// Scans another list into the same buffers. `grades` are those of the groups; empty if all are 1.
    pub fn set_ranking<'a>(&mut self, ranked: &[u32], groups: impl Iterator<Item = &'a [u32]>, grades: &[u32]) {
        self.ranks.clear();
        self.grades.clear();
        self.best.clear();
        self.golds = 0;
        let is_graded = grades.iter().any(|&grade| grade > 1);
        for group in groups {
            self.golds += 1;
            // Golds are few and lists are short: one vectorised scan for each id beats any set.
            let mut first = ranked.len();
            for &id in group {
                first = find_position(&ranked[..first], id).unwrap_or(first);
            }
            if first < ranked.len() {
                self.ranks.push(first as u32 + 1);
                if is_graded {
                    self.grades.push(grades.get(self.golds - 1).copied().unwrap_or(1));
                }
            }
        }
        if is_graded {
            self.sort_graded(grades);
        } else {
            self.ranks.sort_unstable();
        }
    }

    /// Brings the found ranks with their grades, and the grades of all golds, into their orders.
    fn sort_graded(&mut self, grades: &[u32]) {
        let mut found: Vec<(u32, u32)> = self.graded_ranks().collect();
        found.sort_unstable();
        (self.ranks, self.grades) = found.into_iter().unzip();
        self.best.extend((0..self.golds).map(|at| grades.get(at).copied().unwrap_or(1)));
        self.best.sort_unstable_by_key(|&grade| Reverse(grade));
    }

    /// The ranks (from 1) of the found golds, ascending.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The ranks (from 1) of the found golds, ascending, with their grades.
    pub fn graded_ranks(&self) -> impl Iterator<Item = (u32, u32)> {
        self.ranks.iter().enumerate().map(|(at, &rank)| (rank, self.grades.get(at).copied().unwrap_or(1)))
    }

    /// The grades of all golds, best first.
    pub fn best_grades(&self) -> impl Iterator<Item = u32> {
        (0..self.golds).map(|at| self.best.get(at).copied().unwrap_or(1))
    }

    /// The number of golds.
    pub fn gold_count(&self) -> usize {
        self.golds
    }

    /// The number of golds in the top `k`.
    pub fn golds_within(&self, k: u32) -> usize {
        self.ranks.iter().take_while(|&&rank| rank <= k).count()
    }
}

/// The first place of `id` in `list`. Eight places at a time, so that the compiler compares them in one register.
pub(crate) fn find_position(list: &[u32], id: u32) -> Option<usize> {
    let (chunks, rest) = list.as_chunks::<8>();
    for (i, chunk) in chunks.iter().enumerate() {
        let mut any = false;
        for &candidate in chunk {
            any |= candidate == id;
        }
        if any {
            return chunk.iter().position(|&candidate| candidate == id).map(|at| i * 8 + at);
        }
    }
    rest.iter().position(|&candidate| candidate == id).map(|at| list.len() - rest.len() + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::map::map;
    use crate::measures::mrr::mrr;
    use crate::measures::mrr_at::mrr_at;
    use crate::measures::ndcg::ndcg;
    use crate::measures::precision::precision;
    use crate::measures::recall::{hit, recall_all, recall_frac};
    use proptest::prelude::*;

    const A: u32 = 1;
    const B: u32 = 2;

    #[test]
    fn the_three_meanings_of_recall() {
        // measures.md's example: gold {A, B}, ranking A x y B z, k = 2.
        let found = GoldRanks::new(&[A, 7, 8, B, 9], &GoldGroups::of_ids(&[A, B]));
        let value = |measure: RankedMeasure| measure.value(&found).unwrap();
        assert_eq!((value(recall_frac(2)), value(recall_all(2)), value(hit(2))), (0.5, 0.0, 1.0));
        assert_eq!((value(recall_frac(4)), value(recall_all(4)), value(precision(4))), (1.0, 1.0, 0.5));
        assert_eq!(value(map()), (1.0 + 0.5) / 2.0);
        assert_eq!(value(mrr()), 1.0);
        let gained = 1.0 + 1.0 / 5f64.log2();
        assert_eq!(value(ndcg(10)), gained / (1.0 + 1.0 / 3f64.log2()));
        assert_eq!(value(ndcg(1)), 1.0);
    }

    #[test]
    fn short_lists_cuts_and_late_golds() {
        let found = GoldRanks::new(&[7, A], &GoldGroups::of_ids(&[A]));
        assert_eq!((precision(10).value(&found), recall_frac(10).value(&found)), (Some(0.1), Some(1.0)));
        assert_eq!((mrr_at(1).value(&found), mrr_at(2).value(&found)), (Some(0.0), Some(0.5)));
        assert_eq!(map().value(&GoldRanks::new(&[], &GoldGroups::of_ids(&[A]))), Some(0.0));
    }

    #[test]
    fn no_gold_is_undefined_and_a_gold_outside_the_corpus_counts() {
        let none = GoldRanks::new(&[A], &GoldGroups::default());
        for measure in [recall_frac(1), ndcg(1), map(), mrr()] {
            assert_eq!(measure.value(&none), None, "{measure}");
        }
        let outside = GoldRanks::new(&[A], &GoldGroups { groups: vec![vec![A], vec![]], grades: Vec::new() });
        assert_eq!((recall_frac(5).value(&outside), recall_all(5).value(&outside)), (Some(0.5), Some(0.0)));
    }

    #[test]
    fn duplicates_of_a_gold_satisfy_it_once() {
        let gold = GoldGroups { groups: vec![vec![A, 11], vec![B]], grades: Vec::new() };
        assert_eq!(GoldRanks::new(&[5, 11, A, B], &gold).ranks(), [2, 4]);
    }

    #[test]
    fn grades_follow_the_ranks_and_are_sorted_for_the_ideal_list() {
        let gold = GoldGroups { groups: vec![vec![A], vec![B], vec![5], vec![6]], grades: vec![1, 3, 2, 3] };
        let found = GoldRanks::new(&[B, 7, A, 5], &gold);
        assert_eq!(found.graded_ranks().collect::<Vec<_>>(), [(1, 3), (3, 1), (4, 2)]);
        assert_eq!(found.best_grades().collect::<Vec<_>>(), [3, 3, 2, 1]);
        let value = |measure: RankedMeasure| measure.value(&found);
        // Any grade is relevant (trec_eval's default level, 1).
        assert_eq!(
            (value(recall_frac(10)), value(recall_all(10)), value(precision(4))),
            (Some(0.75), Some(0.0), Some(0.75))
        );
        assert_eq!((value(mrr()), value(map())), (Some(1.0), Some((1.0 + 2.0 / 3.0 + 3.0 / 4.0) / 4.0)));
        // The buffers of a graded question are clean for the next one.
        let mut buffers = found.clone();
        buffers.set_ranking(&[7, A], [[A].as_slice(), [B].as_slice()].into_iter(), &[]);
        assert_eq!((buffers.graded_ranks().collect::<Vec<_>>(), buffers.best_grades().sum::<u32>()), (vec![(2, 1)], 2));
    }

    #[test]
    fn names() {
        let names = [recall_frac(5), mrr(), mrr_at(10)];
        assert_eq!(names.map(|m| m.to_string()), ["recall_frac@5", "mrr", "mrr@10"]);
    }

    proptest! {
        #[test]
        fn values_are_fractions_that_grow_with_k(
            ranked in proptest::sample::subsequence((0..60u32).collect::<Vec<_>>(), 0..40).prop_shuffle(),
            gold in proptest::sample::subsequence((0..60u32).collect::<Vec<_>>(), 1..6),
        ) {
            let found = GoldRanks::new(&ranked, &GoldGroups::of_ids(&gold));
            let value = |measure: RankedMeasure| measure.value(&found).unwrap();
            for k in 1..50 {
                let frac = value(recall_frac(k));
                prop_assert!(value(recall_all(k)) <= frac && frac <= value(hit(k)));
                prop_assert!(frac <= value(recall_frac(k + 1)));
                prop_assert!((0.0..=1.0 + 1e-12).contains(&value(ndcg(k))));
                let found_golds = frac * gold.len() as f64;
                prop_assert!((value(precision(k)) * f64::from(k) - found_golds).abs() < 1e-9);
            }
            prop_assert!((0.0..=1.0).contains(&value(map())));
            prop_assert_eq!(value(map()) == 1.0, found.ranks() == (1..=gold.len() as u32).collect::<Vec<_>>());
        }

        #[test]
        fn the_wide_search_finds_the_first(list in proptest::collection::vec(0..9u32, 0..40), id in 0..9u32) {
            prop_assert_eq!(find_position(&list, id), list.iter().position(|&c| c == id));
        }
    }
}
