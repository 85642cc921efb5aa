//! Measures of supporting facts and evidences, one question at a time, and their product with the answer's score.
//!
//! | function | script |
//! | --- | --- |
//! | [`supporting_facts`], [`joint`] | HotpotQA, `hotpot_evaluate_v1.py`, `update_sp` and the joint figures |
//! | [`supporting_facts_lowered`], [`evidences`] | 2WikiMultihopQA v1.1, `normalize_sp`, `update_evi` |
//! | [`support_indices`] | MuSiQue, `metrics/support.py` |
//!
//! A method with titles only must not report these under the same names.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::answer::AnswerScore;
use crate::normalize::{NormalizationRules, normalize_by};

/// Exact match, F1, precision and recall of a set of facts, or of a product of such scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SetScore {
    /// 1 if both sets are equal.
    pub em: f64,
    /// F1.
    pub f1: f64,
    /// Precision; 0 without predictions.
    pub precision: f64,
    /// Recall; 0 without gold facts.
    pub recall: f64,
}

impl SetScore {
    /// From true positives, false positives and false negatives, in the scripts' order of operations.
    fn of_counts(tp: usize, fp: usize, fn_: usize) -> Self {
        let ratio = |of: usize| if tp + of > 0 { tp as f64 / (tp + of) as f64 } else { 0.0 };
        let (precision, recall) = (ratio(fp), ratio(fn_));
        Self { em: f64::from(u8::from(fp + fn_ == 0)), f1: harmonic_mean(precision, recall), precision, recall }
    }

    /// EM, F1, precision and recall, as tables order them.
    pub(crate) fn fields(self) -> [f64; 4] {
        [self.em, self.f1, self.precision, self.recall]
    }
}

impl From<AnswerScore> for SetScore {
    fn from(score: AnswerScore) -> Self {
        Self { em: score.em, f1: score.f1, precision: score.precision, recall: score.recall }
    }
}

fn harmonic_mean(precision: f64, recall: f64) -> f64 {
    if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
}

/// A sentence of a passage: title and sentence index.
pub type SupportingFact = (String, u32);

/// HotpotQA's supporting facts: sets of (title, sentence).
pub fn supporting_facts<F: Ord>(predicted: &[F], gold: &[F]) -> SetScore {
    compare_sets(&predicted.iter().collect(), &gold.iter().collect())
}

fn compare_sets<T: Ord>(predicted: &BTreeSet<T>, gold: &BTreeSet<T>) -> SetScore {
    let tp = predicted.intersection(gold).count();
    SetScore::of_counts(tp, predicted.len() - tp, gold.len() - tp)
}

/// 2WikiMultihopQA's supporting facts: sets of (title, sentence) first, then titles in lower case. Facts that differ
/// only in case count twice, as in the script.
pub fn supporting_facts_lowered<T, I>(predicted: &[(T, I)], gold: &[(T, I)]) -> SetScore
where
    T: Ord + AsRef<str>,
    I: Ord + Copy,
{
    let lower = |facts: &[(T, I)]| -> Vec<(String, I)> {
        let facts: BTreeSet<&(T, I)> = facts.iter().collect();
        facts.into_iter().map(|(title, sentence)| (lower_title(title.as_ref()), *sentence)).collect()
    };
    let (predicted, gold) = (lower(predicted), lower(gold));
    let tp = predicted.iter().filter(|fact| gold.contains(fact)).count();
    let missed = gold.iter().filter(|fact| !predicted.contains(fact)).count();
    SetScore::of_counts(tp, predicted.len() - tp, missed)
}

fn lower_title(title: &str) -> String {
    let mut out = String::with_capacity(title.len());
    hopeval_pytext::lower_into(title, &mut out);
    out
}

/// MuSiQue's support: sets of paragraph indices. If both are empty, EM and F1 are 1, precision and recall 0.
pub fn support_indices(predicted: &[i64], gold: &[i64]) -> SetScore {
    let (predicted, gold): (BTreeSet<i64>, BTreeSet<i64>) =
        (predicted.iter().copied().collect(), gold.iter().copied().collect());
    let mut score = compare_sets(&predicted, &gold);
    if predicted.is_empty() && gold.is_empty() {
        score.f1 = 1.0;
    }
    score
}

/// A (subject, relation, object) triple.
pub type EvidenceTriple = [String; 3];

/// 2WikiMultihopQA's evidences: a predicted triple is right if it is one of the spellings of a gold one (subject and
/// object may be aliases). All are lower-cased, without punctuation, and keep articles. Each gold triple is a list of
/// spellings. Two predicted spellings of one gold count twice, as in the script.
pub fn evidences<P: AsRef<[String]>>(predicted: &[P], gold: &[Vec<EvidenceTriple>]) -> SetScore {
    fn normalized(triple: &[String]) -> Vec<String> {
        triple.iter().map(|part| normalize_by(NormalizationRules::Evidence, part)).collect()
    }
    let predicted: BTreeSet<Vec<String>> = predicted.iter().map(|triple| normalized(triple.as_ref())).collect();
    let spellings: BTreeSet<Vec<String>> = gold.iter().flatten().map(|triple| normalized(triple)).collect();
    let matches = predicted.intersection(&spellings).count();
    let share = |of: usize| if of > 0 { matches as f64 / of as f64 } else { 0.0 };
    let (precision, recall) = (share(predicted.len()), share(gold.len()));
    let em = matches == predicted.len() && matches == gold.len();
    SetScore { em: f64::from(u8::from(em)), f1: harmonic_mean(precision, recall), precision, recall }
}

/// The joint figures: products of exact matches, precisions and recalls, and the F1 of the latter two products.
/// HotpotQA: answer and supporting facts. 2WikiMultihopQA: answer, supporting facts and evidences, in this order.
pub fn joint(parts: &[SetScore]) -> SetScore {
    let product = |field: fn(&SetScore) -> f64| parts.iter().map(field).reduce(|a, b| a * b).unwrap_or(0.0);
    let (precision, recall) = (product(|s| s.precision), product(|s| s.recall));
    SetScore { em: product(|s| s.em), f1: harmonic_mean(precision, recall), precision, recall }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn facts_are_sets_and_titles_keep_their_case_in_hotpotqa() {
        let predicted = [("A", 0), ("A", 0), ("b", 1)];
        let score = supporting_facts(&predicted, &[("A", 0), ("B", 1)]);
        assert_eq!((score.em, score.precision, score.recall, score.f1), (0.0, 0.5, 0.5, 0.5));
        assert_eq!(supporting_facts_lowered(&predicted, &[("A", 0), ("B", 1)]).em, 1.0);
        assert_eq!(supporting_facts::<(&str, u32)>(&[], &[]), SetScore { em: 1.0, ..SetScore::default() });
    }

    #[test]
    fn facts_that_differ_in_case_count_twice_in_two_wiki() {
        let score = supporting_facts_lowered(&[("A", 0), ("a", 0), ("c", 2)], &[("A", 0), ("D", 0)]);
        assert_eq!((score.precision, score.recall), (2.0 / 3.0, 2.0 / 3.0));
    }

    #[test]
    fn musique_without_support_is_right() {
        assert_eq!(support_indices(&[], &[]), SetScore { em: 1.0, f1: 1.0, precision: 0.0, recall: 0.0 });
        assert_eq!(support_indices(&[6, 6, 14], &[6, 10]).f1, 0.5);
    }

    #[test]
    fn an_evidence_may_use_any_spelling() {
        let triple = |s: &str, o: &str| [s.to_owned(), "place of birth".to_owned(), o.to_owned()];
        let gold = [vec![triple("John Ford", "Cape Elizabeth"), triple("Ford", "Cape Elizabeth")]];
        let score = evidences(&[triple("ford!", "cape  elizabeth")], &gold);
        assert_eq!((score.em, score.f1), (1.0, 1.0));
        let score = evidences(&[triple("ford", "the Cape Elizabeth")], &gold);
        assert_eq!((score.em, score.f1), (0.0, 0.0));
        assert_eq!(evidences::<EvidenceTriple>(&[], &[]).em, 1.0);
    }

    #[test]
    fn joint_is_a_product() {
        let a = SetScore { em: 1.0, f1: 0.0, precision: 0.5, recall: 1.0 };
        let b = SetScore { em: 1.0, f1: 0.0, precision: 1.0, recall: 0.25 };
        assert_eq!(joint(&[a, b]), SetScore { em: 1.0, f1: 2.0 * 0.5 * 0.25 / 0.75, precision: 0.5, recall: 0.25 });
        assert_eq!(joint(&[a, SetScore::default()]).f1, 0.0);
    }

    proptest! {
        #[test]
        fn scores_are_fractions(
            p in proptest::collection::vec(("[aAb]", 0..3u32), 0..6),
            g in proptest::collection::vec(("[aAb]", 0..3u32), 0..6),
        ) {
            for score in [supporting_facts(&p, &g), supporting_facts_lowered(&p, &g)] {
                prop_assert!((0.0..=1.0).contains(&score.f1) && score.f1 <= score.precision.max(score.recall) + 1e-12);
                prop_assert!(score.em == 0.0 || score.f1 == 1.0 || g.is_empty());
            }
        }
    }
}
