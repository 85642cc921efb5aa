//! Ranked lists of passages: each passage once, in a total order.

use crate::outcome::{PassagePath, RankedPassage};
use crate::request::PassageId;
use crate::response::RetrievalHit;
use std::collections::{BTreeMap, BTreeSet};

/// The best `k` hits, each passage once: higher scores first, then smaller ids. A retriever answers in this order, but
/// rankings do not depend on it.
pub(crate) fn from_hits(mut hits: Vec<RetrievalHit>, k: u32) -> Vec<RankedPassage> {
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
    let mut seen = BTreeSet::new();
    hits.iter()
        .filter(|hit| seen.insert(hit.passage))
        .map(|hit| RankedPassage { passage: hit.passage, score: hit.score })
        .take(k as usize)
        .collect()
}

/// Passages in an order without scores: each once, scored by its reciprocal rank.
pub(crate) fn by_position(passages: impl IntoIterator<Item = PassageId>) -> Vec<RankedPassage> {
    let mut seen = BTreeSet::new();
    let once = passages.into_iter().filter(|&passage| seen.insert(passage));
    (1u32..).zip(once).map(|(rank, passage)| RankedPassage { passage, score: 1.0 / f64::from(rank) }).collect()
}

/// The passages of each round of a method in its order, scored by the round's reciprocal rank. Empty rounds are left
/// out.
pub(crate) fn paths_by_position(rounds: Vec<Vec<PassageId>>) -> Vec<PassagePath> {
    let scored = (1u32..).zip(rounds).filter(|(_, passages)| !passages.is_empty());
    scored.map(|(rank, passages)| PassagePath { passages, score: 1.0 / f64::from(rank) }).collect()
}

/// Appends the missing ones of `passages`, in their order, with a score not above any other. A retriever may leave out
/// passages without a term of the query, but a ranking of given passages has all of them.
pub(crate) fn append_missing(ranked: &mut Vec<RankedPassage>, passages: &[PassageId]) {
    let mut seen: BTreeSet<PassageId> = ranked.iter().map(|entry| entry.passage).collect();
    let score = ranked.last().map_or(0.0, |last| last.score.min(0.0));
    let missing = passages.iter().filter(|&&passage| seen.insert(passage));
    ranked.extend(missing.map(|&passage| RankedPassage { passage, score }));
}

/// The order in which a search met passages, for rankings where that decides between equal scores, as a stable sort of
/// a Python dict does.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeetingOrder {
    places: BTreeMap<PassageId, usize>,
}

impl MeetingOrder {
    /// Notes a passage, unless it was met before.
    pub(crate) fn note(&mut self, passage: PassageId) -> PassageId {
        let next = self.places.len();
        self.places.entry(passage).or_insert(next);
        passage
    }

    /// The best `k` passages: higher scores first, then those that were met earlier. Passages that were never met come
    /// last, by their ids.
    pub(crate) fn ranked(&self, scores: impl IntoIterator<Item = (PassageId, f64)>, k: u32) -> Vec<RankedPassage> {
        let mut ranked: Vec<RankedPassage> =
            scores.into_iter().map(|(passage, score)| RankedPassage { passage, score }).collect();
        let place = |passage: PassageId| (self.places.get(&passage).copied().unwrap_or(usize::MAX), passage);
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| place(a.passage).cmp(&place(b.passage))));
        ranked.truncate(k as usize);
        ranked
    }
}

/// Passages in ascending order, each once: equal sets make requests with equal keys.
pub(crate) fn as_set(passages: impl IntoIterator<Item = PassageId>) -> Vec<PassageId> {
    passages.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(passage: u32, score: f64) -> RetrievalHit {
        RetrievalHit { passage: PassageId(passage), score }
    }

    #[test]
    fn a_repeated_hit_counts_once_and_does_not_use_up_k() {
        let ranked = from_hits(vec![hit(3, 2.0), hit(3, 2.0), hit(1, 1.0), hit(2, 0.5)], 2);
        assert_eq!(ranked.iter().map(|entry| entry.passage.0).collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn hits_are_in_a_total_order() {
        let ranked = from_hits(vec![hit(5, 1.0), hit(3, 1.0), hit(9, 2.0)], 10);
        assert_eq!(ranked.iter().map(|entry| entry.passage.0).collect::<Vec<_>>(), [9, 3, 5]);
    }

    #[test]
    fn equal_scores_go_by_meeting() {
        let mut met = MeetingOrder::default();
        for passage in [7, 2, 7, 9] {
            met.note(PassageId(passage));
        }
        let scores = [(1, 0.5), (2, 0.5), (7, 0.5), (9, 1.0), (0, 0.5)];
        let ranked = met.ranked(scores.map(|(passage, score)| (PassageId(passage), score)), 4);
        assert_eq!(ranked.iter().map(|entry| entry.passage.0).collect::<Vec<_>>(), [9, 7, 2, 0]);
    }

    #[test]
    fn completion_keeps_scores_descending() {
        let mut ranked = from_hits(vec![hit(3, 2.0), hit(1, -1.0)], 10);
        append_missing(&mut ranked, &[PassageId(7), PassageId(1), PassageId(7), PassageId(0)]);
        let list: Vec<(u32, f64)> = ranked.iter().map(|entry| (entry.passage.0, entry.score)).collect();
        assert_eq!(list, [(3, 2.0), (1, -1.0), (7, -1.0), (0, -1.0)]);
    }
}
