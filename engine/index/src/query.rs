//! Queries and hits.

use std::{borrow::Cow, cmp::Ordering};

use serde::{Deserialize, Serialize};

/// The base of a formula's numbers (passages, document frequencies, mean length).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistics {
    /// All passages of the index.
    #[default]
    Corpus,
    /// The passages of the query's restriction, as if the index held only them.
    Restriction,
}

/// A restriction of a query to some passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryRestriction {
    /// The passages, ascending and without repetition; [`QueryRestriction::new`] brings any list into this form.
    pub ids: Vec<u32>,
    /// The base of the formula's numbers.
    pub statistics: Statistics,
}

impl QueryRestriction {
    /// A restriction to `ids`, in any order.
    pub fn new(mut ids: Vec<u32>, statistics: Statistics) -> Self {
        ids.sort_unstable();
        ids.dedup();
        Self { ids, statistics }
    }

    /// The passages below `passages`, ascending without repetition, whatever the public field holds.
    pub(crate) fn ids_below(&self, passages: u32) -> Cow<'_, [u32]> {
        if self.ids.is_sorted_by(|a, b| a < b) {
            return Cow::Borrowed(&self.ids[..self.ids.partition_point(|&id| id < passages)]);
        }
        let mut ids = Self::new(self.ids.clone(), self.statistics).ids;
        ids.truncate(ids.partition_point(|&id| id < passages));
        Cow::Owned(ids)
    }
}

/// One question to an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query<'a> {
    /// The question's text, analyzed as the passages were.
    pub text: &'a str,
    /// Maximum number of hits.
    pub k: usize,
    /// The passages to search; `None` means all. Numbers outside the index are ignored.
    pub within: Option<QueryRestriction>,
}

/// A passage found by a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The passage.
    pub id: u32,
    /// Its score, computed in double precision in the formula's order; in a dense index, a single-precision number.
    pub score: f64,
}

impl Hit {
    /// The order of every ranking: higher scores first, among equals the earlier passage.
    pub fn ranking(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.id.cmp(&other.id))
    }

    /// The best `k` of several rankings of different passages, such as those of an index's shards.
    pub fn merge<'a>(rankings: impl IntoIterator<Item = &'a [Hit]>, k: usize) -> Vec<Hit> {
        let mut best = BestHits::new(k, Self::ranking);
        rankings.into_iter().flatten().for_each(|&hit| best.push(hit));
        best.finish()
    }
}

/// Keeps the best `k` of many hits.
pub(crate) struct BestHits {
    k: usize,
    hits: Vec<Hit>,
    ranking: fn(&Hit, &Hit) -> Ordering,
    least: f64,
}

impl BestHits {
    pub(crate) fn new(k: usize, ranking: fn(&Hit, &Hit) -> Ordering) -> Self {
        Self { k, hits: Vec::new(), ranking, least: f64::NEG_INFINITY }
    }

    /// A lower bound: at least `k` of the hits so far have this score or more. A later passage with no higher score
    /// is not among the best.
    pub(crate) fn least_score(&self) -> f64 {
        self.least
    }

    pub(crate) fn push(&mut self, hit: Hit) {
        if self.k == 0 {
            return;
        }
        self.hits.push(hit);
        if self.hits.len() >= self.k.saturating_mul(2).max(64) {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.hits.len() > self.k {
            self.hits.select_nth_unstable_by(self.k - 1, self.ranking);
            self.hits.truncate(self.k);
            self.least = self.hits[self.k - 1].score;
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Hit> {
        if self.k > 0 {
            self.shrink();
        }
        self.hits.sort_unstable_by(self.ranking);
        self.hits
    }
}
