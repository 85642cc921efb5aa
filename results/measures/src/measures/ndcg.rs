//! `ndcg_at`: the k of `ndcg@k`.

use super::MeasureKey;
use crate::answer::Profile;
use crate::ranked::RankedMeasure;
use crate::registry::Column;

/// The version that takes every grade for 1.
const BINARY_VERSION: &str = "1";

/// `ndcg@k`: the gain is the grade, the discount log2(rank + 1) (trec_eval's `ndcg_cut`; other programs have
/// 2^grade - 1). The ideal list has all golds at the top, best grade first, including those missing from the corpus.
///
/// Version 1 took every grade for 1. Both versions have the same values where no grade is above 1.
pub const fn ndcg(k: u32) -> RankedMeasure {
    RankedMeasure::at("ndcg", "2", k, |found, k| {
        let ideal = discounted_gain((1..=k).zip(found.best_grades()));
        let gained = discounted_gain(found.graded_ranks().take_while(|&(rank, _)| rank <= k));
        if ideal > 0.0 { gained / ideal } else { 0.0 }
    })
}

/// The sum over pairs of a rank and a grade, in their order: trec_eval sums from the top, too.
fn discounted_gain(graded: impl Iterator<Item = (u32, u32)>) -> f64 {
    graded.map(|(rank, grade)| f64::from(grade) / (f64::from(rank) + 1.0).log2()).sum()
}

pub(crate) struct Ndcg;

impl MeasureKey for Ndcg {
    type Value = Vec<u32>;

    fn unset() -> Vec<u32> {
        vec![10]
    }

    fn build_columns(depths: &Vec<u32>, _: Profile) -> Vec<Column> {
        depths.iter().map(|&k| Column::of_ranking(ndcg(k)).of_grades(BINARY_VERSION)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranked::{GoldGroups, GoldRanks};

    fn graded(graded: &[(u32, u32)]) -> GoldGroups {
        let (groups, grades) = graded.iter().map(|&(id, grade)| (vec![id], grade)).unzip();
        GoldGroups { groups, grades }
    }

    /// Values of pytrec_eval 0.5.11, which is trec_eval's own code. It got the judgements of 0 and below, too: they
    /// gain nothing.
    #[test]
    fn graded_gains_are_those_of_trec_eval() {
        /// A ranking, its gold with grades, and the values at 1, 3, 5, 10 and 100.
        type GradedCase = (&'static [u32], &'static [(u32, u32)], [f64; 5]);
        let cases: [GradedCase; 4] = [
            (
                &[5, 1, 4, 9, 2, 8, 3],
                &[(1, 3), (2, 2), (3, 1), (6, 2), (7, 1)],
                [0.0, 0.3597186998521971, 0.4386123229041742, 0.49344239551950814, 0.49344239551950814],
            ),
            (
                &[2, 1],
                &[(1, 2), (2, 1)],
                [0.5, 0.8597186998521972, 0.8597186998521972, 0.8597186998521972, 0.8597186998521972],
            ),
            (
                &[10, 11, 12, 1, 13, 2],
                &[(1, 4), (2, 1), (3, 4), (4, 2), (5, 1), (6, 1)],
                [0.0, 0.0, 0.20652858587786968, 0.23902547169780497, 0.23902547169780497],
            ),
            (
                &[1, 2, 3, 4],
                &[(1, 1), (2, 2), (3, 3), (4, 4)],
                [0.25, 0.5457673758551895, 0.7489030296784172, 0.7489030296784172, 0.7489030296784172],
            ),
        ];
        for (ranked, gold, expected) in cases {
            let found = GoldRanks::new(ranked, &graded(gold));
            for (k, expected) in [1, 3, 5, 10, 100].into_iter().zip(expected) {
                let value = ndcg(k).value(&found).unwrap();
                assert!((value - expected).abs() <= 1e-15, "{ranked:?} at {k}: {value}, not {expected}");
            }
        }
    }

    #[test]
    fn grades_of_one_are_no_grades() {
        let ranked = [9, 2, 8, 1, 7, 3];
        for k in [1, 2, 3, 4, 5, 6, 10] {
            let plain = ndcg(k).value(&GoldRanks::new(&ranked, &GoldGroups::of_ids(&[1, 2, 3, 4])));
            let ones = ndcg(k).value(&GoldRanks::new(&ranked, &graded(&[(1, 1), (2, 1), (3, 1), (4, 1)])));
            assert_eq!(plain, ones, "k = {k}");
        }
    }

    #[test]
    fn a_graded_gold_outside_the_corpus_is_in_the_ideal_list() {
        let gold = GoldGroups { groups: vec![vec![1], vec![]], grades: vec![1, 3] };
        let ideal = 3.0 + 1.0 / 3f64.log2();
        assert_eq!(ndcg(10).value(&GoldRanks::new(&[1], &gold)), Some(1.0 / ideal));
        assert_eq!(ndcg(1).value(&GoldRanks::new(&[1], &gold)), Some(1.0 / 3.0));
    }
}
