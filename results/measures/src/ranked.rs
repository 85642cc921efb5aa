//! Measures of one ranked list of passages against its gold, and of many at once from columns.
//!
//! Every measure is a function of the ranks at which gold *groups* are first found ([`Found`]), so a list is scanned
//! once for all of them. A group is one gold passage and the ids that satisfy it (its duplicates in the corpus); a
//! second id of a found group gains nothing. A group without ids is a gold passage that the corpus lacks: it counts
//! and cannot be found. Groups share no ids.
//!
//! * A question without gold groups has no value (`None`), not 0: it stays out of the mean.
//! * A list shorter than k is judged as it is: the missing places hold nothing relevant (trec_eval's rule).
//!   `precision@k` divides by k all the same.
//! * Lists come ranked and free of repeats; ties were broken by whoever ranked.

mod columns;

use std::fmt;

pub use columns::{GoldColumns, Offset, RankedColumns, evaluate};

/// The gold passages of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Gold {
    /// One group for each gold passage: the ids that satisfy it.
    pub groups: Vec<Vec<u32>>,
}

impl Gold {
    /// Gold without duplicates: each id is a passage of its own.
    pub fn of_ids(ids: &[u32]) -> Self {
        Self { groups: ids.iter().map(|&id| vec![id]).collect() }
    }

    /// Whether the question has no gold passage, so that retrieval measures have no value.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// A measure of a ranked list; its [`fmt::Display`] is its name in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RankedMeasure {
    /// `recall_frac@k`: the share of the golds in the top k (trec_eval's `recall`, ranx, HippoRAG).
    RecallFrac(u32),
    /// `recall_all@k`: 1 if all golds are in the top k (PromptRank's `recall@k`, MDR's path recall).
    RecallAll(u32),
    /// `hit@k`: 1 if any gold is in the top k (trec_eval's `success`).
    Hit(u32),
    /// `precision@k`: golds in the top k over k (trec_eval's `P`).
    Precision(u32),
    /// `ndcg@k`: binary gains, discount log2(rank + 1) (trec_eval's `ndcg_cut`).
    Ndcg(u32),
    /// `mrr` or `mrr@k`: the reciprocal rank of the first gold, 0 if there is none (trec_eval's `recip_rank`).
    Mrr(Option<u32>),
    /// `map`: average precision (trec_eval's `map`).
    Map,
}

impl RankedMeasure {
    /// The version of the definition.
    pub const fn version(self) -> &'static str {
        "1"
    }

    /// The value, none if there is no gold.
    pub fn value(self, found: &Found) -> Option<f64> {
        match self {
            Self::RecallFrac(k) => found.recall_frac(k),
            Self::RecallAll(k) => found.recall_all(k),
            Self::Hit(k) => found.hit(k),
            Self::Precision(k) => found.precision(k),
            Self::Ndcg(k) => found.ndcg(k),
            Self::Mrr(cut) => found.mrr(cut),
            Self::Map => found.map(),
        }
    }

    /// The rank beyond which nothing changes the value, none if every rank counts.
    pub const fn cut(self) -> Option<u32> {
        match self {
            Self::RecallFrac(k) | Self::RecallAll(k) | Self::Hit(k) | Self::Precision(k) | Self::Ndcg(k) => Some(k),
            Self::Mrr(cut) => cut,
            Self::Map => None,
        }
    }
}

impl fmt::Display for RankedMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecallFrac(k) => write!(f, "recall_frac@{k}"),
            Self::RecallAll(k) => write!(f, "recall_all@{k}"),
            Self::Hit(k) => write!(f, "hit@{k}"),
            Self::Precision(k) => write!(f, "precision@{k}"),
            Self::Ndcg(k) => write!(f, "ndcg@{k}"),
            Self::Mrr(Some(k)) => write!(f, "mrr@{k}"),
            Self::Mrr(None) => f.write_str("mrr"),
            Self::Map => f.write_str("map"),
        }
    }
}

/// Where a ranked list has its golds; reusable.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The rank (from 1) at which each found group is first met, ascending.
    ranks: Vec<u32>,
    /// How many golds there are.
    golds: usize,
}

impl Found {
    /// Scans a ranked list.
    pub fn new(ranked: &[u32], gold: &Gold) -> Self {
        let mut found = Self::default();
        found.set(ranked, gold.groups.iter().map(Vec::as_slice));
        found
    }

    /// Scans another list into the same buffers.
    pub fn set<'a>(&mut self, ranked: &[u32], groups: impl Iterator<Item = &'a [u32]>) {
        self.ranks.clear();
        self.golds = 0;
        for group in groups {
            self.golds += 1;
            // Golds are few and lists are short: one vectorised scan for each id beats any set.
            let mut first = ranked.len();
            for &id in group {
                first = position(&ranked[..first], id).unwrap_or(first);
            }
            if first < ranked.len() {
                self.ranks.push(first as u32 + 1);
            }
        }
        self.ranks.sort_unstable();
    }

    /// The ranks (from 1) of the found golds, ascending.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The number of golds.
    pub fn golds(&self) -> usize {
        self.golds
    }

    fn within(&self, k: u32) -> usize {
        self.ranks.iter().take_while(|&&rank| rank <= k).count()
    }

    fn defined(&self, value: impl FnOnce() -> f64) -> Option<f64> {
        (self.golds > 0).then(value)
    }

    /// `recall_frac@k`.
    pub fn recall_frac(&self, k: u32) -> Option<f64> {
        self.defined(|| self.within(k) as f64 / self.golds as f64)
    }

    /// `recall_all@k`.
    pub fn recall_all(&self, k: u32) -> Option<f64> {
        self.defined(|| f64::from(u8::from(self.within(k) == self.golds)))
    }

    /// `hit@k`.
    pub fn hit(&self, k: u32) -> Option<f64> {
        self.defined(|| f64::from(u8::from(self.within(k) > 0)))
    }

    /// `precision@k`; 0 for k = 0.
    pub fn precision(&self, k: u32) -> Option<f64> {
        self.defined(|| self.within(k) as f64 / f64::from(k.max(1)))
    }

    /// `mrr`, with the rank after which a gold comes too late.
    pub fn mrr(&self, cut: Option<u32>) -> Option<f64> {
        self.defined(|| match self.ranks.first() {
            Some(&rank) if cut.is_none_or(|k| rank <= k) => 1.0 / f64::from(rank),
            _ => 0.0,
        })
    }

    /// `ndcg@k`; the ideal list has all golds, also those that the corpus lacks, at the top.
    pub fn ndcg(&self, k: u32) -> Option<f64> {
        let discounted = |rank: u32| 1.0 / (f64::from(rank) + 1.0).log2();
        self.defined(|| {
            let ideal: f64 = (1..=k.min(self.golds as u32)).map(discounted).sum();
            let gained: f64 = self.ranks.iter().take_while(|&&rank| rank <= k).map(|&rank| discounted(rank)).sum();
            if ideal > 0.0 { gained / ideal } else { 0.0 }
        })
    }

    /// `map`: the mean over all golds of the precision at each, 0 for those not found.
    pub fn map(&self) -> Option<f64> {
        self.defined(|| {
            let sum: f64 = self.ranks.iter().enumerate().map(|(i, &rank)| (i + 1) as f64 / f64::from(rank)).sum();
            sum / self.golds as f64
        })
    }
}

/// The first place of `id` in `list`. Eight places at a time, so that the compiler compares them in one register.
fn position(list: &[u32], id: u32) -> Option<usize> {
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

/// IRCoT's fixed-budget recall: the share of golds among the first `budget` distinct passages, in the order in which
/// they were gathered over all steps (IRCoT, Trivedi et al. 2023; its budget is 15 paragraphs).
pub fn budget_recall(gathered: &[u32], gold: &Gold, budget: usize) -> Option<f64> {
    let mut distinct: Vec<u32> = Vec::with_capacity(budget.min(gathered.len()));
    for &id in gathered {
        if distinct.len() == budget {
            break;
        }
        if !distinct.contains(&id) {
            distinct.push(id);
        }
    }
    Found::new(&distinct, gold).recall_frac(u32::MAX)
}

/// EfficientRAG's chunk recall: the *distinct* chunks that hit a gold passage over the number of golds. It counts chunks
/// and not covered golds, so two chunks of one gold make it exceed 1. It has no k; report it with the mean number of
/// chunks. The paper's K counts repeats; a configuration's outcomes have them in their paths.
pub fn chunk_recall(chunks: &[u32], gold: &Gold) -> Option<f64> {
    if gold.is_empty() {
        return None;
    }
    let mut golds: Vec<u32> = gold.groups.iter().flatten().copied().collect();
    golds.sort_unstable();
    golds.dedup();
    let hits = golds.iter().filter(|&&id| position(chunks, id).is_some()).count();
    Some(hits as f64 / gold.groups.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: u32 = 1;
    const B: u32 = 2;

    #[test]
    fn the_three_meanings_of_recall() {
        // measures.md's example: gold {A, B}, ranking A x y B z, k = 2.
        let found = Found::new(&[A, 7, 8, B, 9], &Gold::of_ids(&[A, B]));
        assert_eq!((found.recall_frac(2), found.recall_all(2), found.hit(2)), (Some(0.5), Some(0.0), Some(1.0)));
        assert_eq!((found.recall_frac(4), found.recall_all(4), found.precision(4)), (Some(1.0), Some(1.0), Some(0.5)));
        assert_eq!(found.map(), Some((1.0 + 0.5) / 2.0));
        assert_eq!(found.mrr(None), Some(1.0));
        let gained = 1.0 + 1.0 / 5f64.log2();
        assert_eq!(found.ndcg(10), Some(gained / (1.0 + 1.0 / 3f64.log2())));
        assert_eq!(found.ndcg(1), Some(1.0));
    }

    #[test]
    fn short_lists_cuts_and_late_golds() {
        let found = Found::new(&[7, A], &Gold::of_ids(&[A]));
        assert_eq!((found.precision(10), found.recall_frac(10)), (Some(0.1), Some(1.0)));
        assert_eq!((found.mrr(Some(1)), found.mrr(Some(2))), (Some(0.0), Some(0.5)));
        assert_eq!(Found::new(&[], &Gold::of_ids(&[A])).map(), Some(0.0));
    }

    #[test]
    fn no_gold_is_undefined_and_a_gold_outside_the_corpus_counts() {
        let none = Found::new(&[A], &Gold::default());
        assert_eq!((none.recall_frac(1), none.ndcg(1), none.map(), none.mrr(None)), (None, None, None, None));
        let outside = Found::new(&[A], &Gold { groups: vec![vec![A], vec![]] });
        assert_eq!((outside.recall_frac(5), outside.recall_all(5)), (Some(0.5), Some(0.0)));
    }

    #[test]
    fn duplicates_of_a_gold_satisfy_it_once() {
        let gold = Gold { groups: vec![vec![A, 11], vec![B]] };
        let found = Found::new(&[5, 11, A, B], &gold);
        assert_eq!(found.ranks(), [2, 4]);
        assert_eq!(chunk_recall(&[11, A, A, B, 5], &gold), Some(1.5));
        assert_eq!(chunk_recall(&[B, B], &gold), Some(0.5));
        assert_eq!(budget_recall(&[5, 5, 5, A, 6, B], &gold, 3), Some(0.5));
    }

    #[test]
    fn names() {
        let names = [RankedMeasure::RecallFrac(5), RankedMeasure::Mrr(None), RankedMeasure::Mrr(Some(10))];
        assert_eq!(names.map(|m| m.to_string()), ["recall_frac@5", "mrr", "mrr@10"]);
    }

    proptest! {
        #[test]
        fn values_are_fractions_that_grow_with_k(
            ranked in proptest::sample::subsequence((0..60u32).collect::<Vec<_>>(), 0..40).prop_shuffle(),
            gold in proptest::sample::subsequence((0..60u32).collect::<Vec<_>>(), 1..6),
        ) {
            let found = Found::new(&ranked, &Gold::of_ids(&gold));
            for k in 1..50 {
                let (frac, all, hit) = (found.recall_frac(k), found.recall_all(k), found.hit(k));
                prop_assert!(all <= frac && frac <= hit);
                prop_assert!(frac <= found.recall_frac(k + 1));
                prop_assert!((0.0..=1.0 + 1e-12).contains(&found.ndcg(k).unwrap()));
                let found_golds = frac.unwrap() * gold.len() as f64;
                prop_assert!((found.precision(k).unwrap() * f64::from(k) - found_golds).abs() < 1e-9);
            }
            prop_assert!((0.0..=1.0).contains(&found.map().unwrap()));
            prop_assert_eq!(found.map() == Some(1.0), found.ranks() == (1..=gold.len() as u32).collect::<Vec<_>>());
        }

        #[test]
        fn the_wide_search_finds_the_first(list in proptest::collection::vec(0..9u32, 0..40), id in 0..9u32) {
            prop_assert_eq!(position(&list, id), list.iter().position(|&c| c == id));
        }
    }
}
