//! Finds the best `k` passages without scoring all: MaxScore over windows of passages, with an exact result.
//!
//! Scores are first computed in single precision. Their relative error is at most `PrunedSearch::error`. A passage
//! whose single-precision score is more than twice the error below the k-th best cannot be among the best. All others
//! are scored again in double precision, in the formula's order, and ranked by this score.
//!
//! Terms are ordered by their maximum contribution. Once the k-th best score exceeds the joint maximum of the last
//! terms, these are *optional*: a passage with only optional terms cannot be among the best. Then for each window
//!
//! ```text
//! needed terms   --postings--> scores of the window --sweep--> candidates above (k-th best - optional bounds)
//! optional terms --look-ups, best first, dropping candidates as the bound shrinks--> survivors
//! ```
//!
//! In the first window all terms are needed; the k-th highest of its groups' highest scores is the first bound. If so
//! many candidates remain that looking up a term for each costs more than adding its postings, the postings are
//! added.

use super::{Bm25Index, exact::ExactRanker, plan::QueryPlan};
use crate::{
    field::PostingReader,
    query::Hit,
    simd::{self, Candidates, TermImpact},
};

/// Passages of a window; its scores take a quarter of a usual second-level cache. Windows for the first level (2^13)
/// cost 2 to 9 % more at 10,000 to 1,000,000 passages, through the fixed work per window.
const WINDOW: u32 = 1 << 15;

/// Costs in tenths of a nanosecond: a look-up in a table and in blocks, adding one passage of a table and one posting
/// of a block. They decide how a window is searched, never the result.
const LOOK_UP_TABLE: usize = 30;
const LOOK_UP_BLOCKS: usize = 250;
const ADD_TABLE: usize = 4;
const ADD_BLOCKS: usize = 15;

/// Working memory, reused from query to query.
#[derive(Default)]
pub(super) struct PrunedScratch {
    /// The window's scores, all zero between windows.
    scores: Vec<f32>,
    candidates: Candidates,
    survivors: Candidates,
    /// Candidates not sorted yet.
    unordered: Vec<(u32, f32)>,
    /// Passages scored in a window with few postings.
    touched: Vec<u32>,
    /// Scores to select from.
    maxima: Vec<f32>,
    exact: ExactRanker,
}

/// A term in the order of the search.
struct BoundedTerm<'a> {
    impact: TermImpact,
    /// Its maximum contribution to a passage.
    bound: f32,
    /// Maximum joint contribution of this and all later terms.
    rest: f32,
    document_frequency: u32,
    lengths: &'a [u32],
    reader: PostingReader<'a>,
}

/// `None` if single precision cannot bound the scores: if weights are not positive, or beyond its range.
pub(super) fn search(index: &Bm25Index, plan: &QueryPlan, k: usize, scratch: &mut PrunedScratch) -> Option<Vec<Hit>> {
    let mut terms = bounded_terms(index, plan)?;
    let error = (4 * terms.len() + 48) as f32 * f32::EPSILON;
    scratch.survivors.clear();
    scratch.scores.resize(WINDOW as usize, 0.0);
    let mut search = PrunedSearch { index, plan, k, error, cut: f32::MIN_POSITIVE };
    let mut start = 0;
    while start < index.len() {
        // Terms from `needed` on are optional.
        let needed = terms.iter().position(|term| term.rest < search.cut).unwrap_or(terms.len());
        if needed == 0 {
            break;
        }
        let Some(next) = terms[..needed].iter().filter_map(|term| term.next_passage(start)).min() else { break };
        if next >= index.len() {
            break;
        }
        start = next & !7;
        let end = index.len().min(start.saturating_add(WINDOW));
        search.search_window(&mut terms, needed, start, end, scratch);
        start = end;
    }
    search.narrow_survivors(scratch);
    Some(search.rank_survivors(scratch))
}

fn bounded_terms<'a>(index: &'a Bm25Index, plan: &QueryPlan) -> Option<Vec<BoundedTerm<'a>>> {
    let bytes = index.container.bytes();
    let mut terms = Vec::with_capacity(plan.terms.len());
    let mut sum = 0.0;
    for term in &plan.terms {
        let (scorer, field) = (&plan.scorers[term.field], &index.fields[term.field]);
        let impact = scorer.single_impact(term.idf, term.count);
        let longest = f64::from(index.description.fields[term.field].longest);
        let least = f64::from(impact.weight) / (1.0 + f64::from(impact.base) + f64::from(impact.slope) * longest);
        // NaN is refused too.
        if least.is_nan() || least <= 1e-30 {
            return None;
        }
        sum += impact.weight;
        terms.push(BoundedTerm {
            impact,
            bound: impact_bound(impact, term.record.highest, term.record.shortest),
            rest: 0.0,
            document_frequency: term.record.document_frequency,
            lengths: field.lengths(bytes),
            reader: PostingReader::new(field.posting_list(bytes, &term.record), index.level),
        });
    }
    if sum.is_nan() || sum >= 1e30 {
        return None;
    }
    terms.sort_by(|a, b| b.bound.total_cmp(&a.bound));
    let mut rest = 0.0;
    for term in terms.iter_mut().rev() {
        rest = (rest + term.bound) * (1.0 + 2.0 * f32::EPSILON);
        term.rest = rest;
    }
    Some(terms)
}

/// Maximum contribution of a term to a passage at least `shortest` long, with at most `highest` occurrences (`None`:
/// unknown).
#[inline]
fn impact_bound(impact: TermImpact, highest: Option<u32>, shortest: u32) -> f32 {
    highest.map_or(impact.weight, |highest| impact.posting_score(highest, shortest)) * (1.0 + 16.0 * f32::EPSILON)
}

impl BoundedTerm<'_> {
    /// A passage at or after `start`; no passage between `start` and it has the term.
    fn next_passage(&self, start: u32) -> Option<u32> {
        match &self.reader {
            PostingReader::Dense(_) => Some(start),
            PostingReader::Blocks(cursor) => cursor.current_doc(),
        }
    }
}

struct PrunedSearch<'a> {
    index: &'a Bm25Index,
    plan: &'a QueryPlan,
    k: usize,
    /// Relative error of a single-precision score.
    error: f32,
    /// Passages with a lower single-precision score cannot be among the best.
    cut: f32,
}

impl PrunedSearch<'_> {
    /// Adds the survivors of passages `start..end`.
    fn search_window(
        &mut self,
        terms: &mut [BoundedTerm<'_>],
        needed: usize,
        start: u32,
        end: u32,
        scratch: &mut PrunedScratch,
    ) {
        let size = (end - start) as usize;
        let few = {
            let postings: u64 = terms[..needed].iter().map(|term| u64::from(term.document_frequency)).sum();
            postings * 24 < u64::from(self.index.len())
        };
        scratch.touched.clear();
        for term in &mut terms[..needed] {
            self.add_term(term, start, end, few, scratch);
        }
        let scores = &mut scratch.scores[..size];
        if self.cut == f32::MIN_POSITIVE && self.k > 0 && size / simd::GROUP >= self.k {
            scratch.maxima.clear();
            simd::maxima(self.index.level, scores, &mut scratch.maxima);
            if scratch.maxima.len() >= self.k {
                self.raise_cut(kth_highest(&mut scratch.maxima, self.k));
            }
        }
        let mut added = needed;
        while added < terms.len() {
            let cut = self.cut - terms[added].rest;
            let candidates = if few {
                let scores = &scratch.scores[..size];
                let score = |doc: &&u32| scores.get(doc.wrapping_sub(start) as usize).is_some_and(|&s| s >= cut);
                scratch.touched.iter().filter(score).count()
            } else {
                simd::count(self.index.level, &scratch.scores[..size], cut)
            };
            let term = &mut terms[added];
            let (look_up, add) = match term.reader {
                PostingReader::Dense(_) if few => break,
                PostingReader::Dense(_) => (LOOK_UP_TABLE, size * ADD_TABLE),
                PostingReader::Blocks(_) => {
                    let postings = u64::from(term.document_frequency) * size as u64 / u64::from(self.index.len());
                    (LOOK_UP_BLOCKS, postings as usize * ADD_BLOCKS)
                }
            };
            if candidates * look_up <= add {
                break;
            }
            self.add_term(term, start, end, few, scratch);
            added += 1;
        }
        let optional = &mut terms[added..];
        let rest = optional.first().map_or(0.0, |term| term.rest);
        self.collect_candidates((self.cut - rest).max(f32::MIN_POSITIVE), start, size, few, scratch);
        for term in &*optional {
            if let PostingReader::Dense(dense) = &term.reader {
                scratch.candidates.docs.iter().for_each(|&doc| simd::prefetch(dense.table, doc as usize / 2));
            }
        }
        for term in optional {
            scratch.candidates.keep_at_least(self.cut - term.rest);
            self.look_up(term, start, end, &mut scratch.candidates);
        }
        scratch.candidates.keep_at_least(self.cut);
        scratch.survivors.docs.extend_from_slice(&scratch.candidates.docs);
        scratch.survivors.scores.extend_from_slice(&scratch.candidates.scores);
        if scratch.survivors.docs.len() >= self.k + self.k / 2 + 32 {
            self.narrow_survivors(scratch);
        }
    }

    /// Adds a term's impacts to the scores of passages `start..end`.
    fn add_term(&self, term: &mut BoundedTerm<'_>, start: u32, end: u32, few: bool, scratch: &mut PrunedScratch) {
        let (level, impact) = (self.index.level, term.impact);
        let lengths = &term.lengths[start as usize..end as usize];
        let scores = &mut scratch.scores[..lengths.len()];
        match &mut term.reader {
            PostingReader::Blocks(cursor) => {
                // Earlier windows may have looked passages up in the list, or skipped it.
                cursor.skip_to(start);
                while cursor.take_before(end, |docs, frequencies| {
                    simd::add_postings(level, impact, docs, frequencies, start, lengths, scores);
                    if few {
                        scratch.touched.extend_from_slice(docs);
                    }
                }) {}
            }
            PostingReader::Dense(dense) => {
                let table = dense.table.get(start as usize / 2..).unwrap_or(&[]);
                simd::add_table(level, impact, table, lengths, scores);
                for (doc, frequency) in dense.exceptions(start, end) {
                    let at = (doc - start) as usize;
                    scores[at] += impact.posting_score(frequency, lengths[at]) - impact.posting_score(15, lengths[at]);
                }
            }
        }
    }

    /// Moves the window's passages with a score of at least `cut` to the candidates, ascending, and clears the
    /// scores.
    fn collect_candidates(&self, cut: f32, start: u32, size: usize, few: bool, scratch: &mut PrunedScratch) {
        let PrunedScratch { scores, candidates, unordered, touched, .. } = scratch;
        let scores = &mut scores[..size];
        candidates.clear();
        if !few {
            simd::sweep(self.index.level, scores, cut, start, candidates);
            return;
        }
        unordered.clear();
        for &doc in touched.iter() {
            // A damaged list may hold any number; its score was added to the window's last passage.
            let at = (doc.wrapping_sub(start) as usize).min(size - 1);
            let score = std::mem::take(&mut scores[at]);
            // Few pass, so the branch is predicted well.
            if score >= cut {
                unordered.push((start + at as u32, score));
            }
        }
        unordered.sort_unstable_by_key(|&(doc, _)| doc);
        unordered.iter().for_each(|&(doc, score)| candidates.push(doc, score));
    }

    /// Adds an optional term to the candidates that have it.
    fn look_up(&self, term: &mut BoundedTerm<'_>, start: u32, end: u32, candidates: &mut Candidates) {
        let impact = term.impact;
        match &mut term.reader {
            PostingReader::Dense(dense) => {
                let table = dense.table.get(start as usize / 2..).unwrap_or(&[]);
                let lengths = &term.lengths[start as usize..end as usize];
                simd::look_up(self.index.level, impact, table, lengths, start, candidates);
                for (doc, frequency) in dense.exceptions(start, end) {
                    if let Ok(at) = candidates.docs.binary_search(&doc) {
                        let length = term.lengths[doc as usize];
                        candidates.scores[at] +=
                            impact.posting_score(frequency, length) - impact.posting_score(15, length);
                    }
                }
            }
            PostingReader::Blocks(cursor) => {
                // A candidate's minimum contribution of this term, if all later terms contribute their maximum.
                let needed = (self.cut - (term.rest - term.bound).max(0.0)) * (1.0 - 8.0 * f32::EPSILON);
                for (&doc, score) in candidates.docs.iter().zip(&mut candidates.scores) {
                    let promising = |highest, shortest| *score + impact_bound(impact, highest, shortest) >= needed;
                    match cursor.frequency_if(doc, promising) {
                        Some(0) => {}
                        Some(frequency) => *score += impact.posting_score(frequency, term.lengths[doc as usize]),
                        // It cannot be among the best any more.
                        None => *score = f32::NEG_INFINITY,
                    }
                }
            }
        }
    }

    /// Raises the cut, given a single-precision score reached by `k` passages.
    fn raise_cut(&mut self, kth: f32) {
        self.cut = self.cut.max(kth * (1.0 - 2.0 * self.error));
    }

    /// Raises the cut and drops survivors below it.
    fn narrow_survivors(&mut self, scratch: &mut PrunedScratch) {
        let PrunedScratch { survivors, maxima, .. } = scratch;
        if survivors.docs.len() <= self.k {
            return;
        }
        maxima.clear();
        maxima.extend_from_slice(&survivors.scores);
        self.raise_cut(kth_highest(maxima, self.k));
        survivors.keep_at_least(self.cut);
        // Many equal scores: only exact scores can order them.
        if survivors.docs.len() > 4 * self.k + 1024 {
            let mut best: Vec<u32> = self.rank_survivors(scratch).iter().map(|hit| hit.id).collect();
            best.sort_unstable();
            let Candidates { docs, scores } = &mut scratch.survivors;
            for (doc, score) in docs.iter().zip(scores) {
                if best.binary_search(doc).is_err() {
                    *score = f32::NEG_INFINITY;
                }
            }
            scratch.survivors.keep_at_least(self.cut);
        }
    }

    /// The best of the survivors by their exact scores. Survivors ascend.
    fn rank_survivors(&self, scratch: &mut PrunedScratch) -> Vec<Hit> {
        scratch.exact.rank(self.index, self.plan, &scratch.survivors.docs, self.k)
    }
}

/// The `k`-th highest of at least `k` scores. They are not negative, so their bits order them.
fn kth_highest(scores: &mut [f32], k: usize) -> f32 {
    *scores.select_nth_unstable_by_key(k - 1, |score| !score.to_bits()).1
}
