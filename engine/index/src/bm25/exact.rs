//! Exact scores of a few passages: the frequencies of every term in each, then the formula in double precision.
//!
//! A short list is read through, and each posting is tested against a small hash table of the passages. In a long one
//! each passage is looked up. Then terms are added column by column, in the order of the query's tokens.

use super::{Bm25Index, plan::QueryPlan};
use crate::{
    field::{PostingList, PostingReader},
    postings::{BLOCK, BlockList},
    query::Hit,
    simd,
};

/// Slots of the table of passages.
const SLOTS: usize = 1 << 12;

/// A list with at most this many postings per passage is read through.
const READ_SHARE: usize = 24;

/// The columns, reused from query to query.
#[derive(Default)]
pub(super) struct ExactRanker {
    /// By a passage's lowest bits: its position + 1, or 0 for no passage.
    heads: Vec<u16>,
    /// For each passage: the position + 1 of another one with the same lowest bits.
    next: Vec<u16>,
    /// `[terms, passages]`
    frequencies: Vec<u32>,
    norms: Vec<f64>,
    sums: Vec<f64>,
    totals: Vec<f64>,
    keys: Vec<u128>,
}

impl ExactRanker {
    /// The best `k` of `docs`, which ascend. All weights of the plan must be positive.
    pub(super) fn rank(&mut self, index: &Bm25Index, plan: &QueryPlan, docs: &[u32], k: usize) -> Vec<Hit> {
        let count = docs.len();
        if count == 0 || k == 0 {
            return Vec::new();
        }
        self.fill_frequencies(index, plan, docs);
        self.totals.clear();
        self.totals.resize(count, 0.0);
        let bytes = index.container.bytes();
        for (field, sequence) in plan.sequence.iter().enumerate() {
            let (lengths, scorer) = (index.fields[field].lengths(bytes), &plan.scorers[field]);
            self.norms.clear();
            self.norms.extend(docs.iter().map(|&doc| scorer.norm(lengths[doc as usize])));
            self.sums.clear();
            self.sums.resize(count, 0.0);
            for &t in sequence {
                let idf = plan.terms[t as usize].idf;
                let column = &self.frequencies[t as usize * count..][..count];
                for ((sum, &norm), &frequency) in self.sums.iter_mut().zip(&self.norms).zip(column) {
                    if frequency > 0 {
                        *sum += scorer.impact(idf, frequency, norm);
                    }
                }
            }
            self.totals.iter_mut().zip(&self.sums).for_each(|(total, sum)| *total += sum);
        }
        self.select_best(docs, k)
    }

    /// Scores are positive, so their bits order them. One number orders by falling score, then by passage.
    fn select_best(&mut self, docs: &[u32], k: usize) -> Vec<Hit> {
        let keys = &mut self.keys;
        keys.clear();
        keys.extend(
            docs.iter().zip(&self.totals).map(|(&doc, score)| u128::from(!score.to_bits()) << 32 | u128::from(doc)),
        );
        if keys.len() > k {
            keys.select_nth_unstable(k - 1);
            keys.truncate(k);
        }
        keys.sort_unstable();
        keys.iter().map(|&key| Hit { id: key as u32, score: f64::from_bits(!((key >> 32) as u64)) }).collect()
    }

    fn fill_frequencies(&mut self, index: &Bm25Index, plan: &QueryPlan, docs: &[u32]) {
        let (count, bytes) = (docs.len(), index.container.bytes());
        self.frequencies.clear();
        self.frequencies.resize(plan.terms.len() * count, 0);
        let marked = count < usize::from(u16::MAX);
        if marked {
            self.mark_passages(docs);
        }
        let (frequencies, heads, next) = (&mut self.frequencies, &self.heads, &self.next);
        for (term, column) in plan.terms.iter().zip(frequencies.chunks_exact_mut(count)) {
            let list = index.fields[term.field].posting_list(bytes, &term.record);
            match list {
                PostingList::Blocks(blocks)
                    if marked && term.record.document_frequency as usize <= READ_SHARE * count =>
                {
                    read_list(blocks, docs, heads, next, index.level, column);
                }
                _ => {
                    if let PostingList::Dense(dense) = list {
                        docs.iter().for_each(|&doc| simd::prefetch(dense.table, doc as usize / 2));
                    }
                    let mut reader = PostingReader::new(list, index.level);
                    column.iter_mut().zip(docs).for_each(|(frequency, &doc)| *frequency = reader.frequency(doc));
                }
            }
        }
        if marked {
            docs.iter().for_each(|&doc| self.heads[doc as usize % SLOTS] = 0);
        }
    }

    fn mark_passages(&mut self, docs: &[u32]) {
        self.heads.resize(SLOTS, 0);
        self.next.clear();
        for (i, &doc) in docs.iter().enumerate() {
            let head = &mut self.heads[doc as usize % SLOTS];
            self.next.push(*head);
            *head = i as u16 + 1;
        }
    }
}

/// Reads the part of a list that may have `docs` and enters the frequencies into their column.
fn read_list(
    list: BlockList<'_>,
    docs: &[u32],
    heads: &[u16],
    next: &[u16],
    level: simd::InstructionLevel,
    column: &mut [u32],
) {
    let mut block = [0; BLOCK];
    for b in 0..list.block_count() {
        if list.last_passage(b) < docs[0] {
            continue;
        }
        let count = list.decode_docs(b, &mut block, level);
        for (i, &doc) in block[..count].iter().enumerate() {
            let mut at = heads[doc as usize % SLOTS];
            while at != 0 {
                let position = usize::from(at) - 1;
                if docs[position] == doc {
                    column[position] = list.frequency(b, i);
                }
                at = next[position];
            }
        }
        if list.last_passage(b) >= docs[docs.len() - 1] {
            break;
        }
    }
}
