//! Scores every passage with a term of the query: the reference of the pruned search, and the search for queries with
//! weights that are not positive.

use super::{Bm25Index, plan::QueryPlan};
use crate::{
    field::PostingReader,
    query::{BestHits, Hit},
};

/// Passages scored together.
const WINDOW: u32 = 1 << 13;

/// The window's scores.
#[derive(Default)]
pub(super) struct ExhaustiveScratch {
    total: Vec<f64>,
    field: Vec<f64>,
    matched: Vec<bool>,
}

fn reset_values<T: Clone>(values: &mut Vec<T>, size: usize, value: T) {
    values.clear();
    values.resize(size, value);
}

pub(super) fn search(index: &Bm25Index, plan: &QueryPlan, k: usize, scratch: &mut ExhaustiveScratch) -> Vec<Hit> {
    let bytes = index.container.bytes();
    let mut best = BestHits::new(k, Hit::ranking);
    // A reader for each token, repeated ones too: scores are summed in token order.
    let reader = |&t: &u32| {
        let term = &plan.terms[t as usize];
        (term.idf, PostingReader::new(index.fields[term.field].posting_list(bytes, &term.record), index.level))
    };
    let mut readers: Vec<Vec<_>> = plan.sequence.iter().map(|tokens| tokens.iter().map(reader).collect()).collect();
    for start in (0..index.len()).step_by(WINDOW as usize) {
        let end = index.len().min(start.saturating_add(WINDOW));
        let size = (end - start) as usize;
        reset_values(&mut scratch.total, size, 0.0);
        reset_values(&mut scratch.matched, size, false);
        for (f, readers) in readers.iter_mut().enumerate() {
            let lengths = index.fields[f].lengths(bytes);
            let scorer = &plan.scorers[f];
            reset_values(&mut scratch.field, size, 0.0);
            for (idf, reader) in readers {
                reader.each_posting(start, end, |doc, frequency| {
                    // A damaged list may hold any number.
                    let at = doc.wrapping_sub(start) as usize;
                    if at < size {
                        scratch.matched[at] = true;
                        scratch.field[at] += scorer.impact(*idf, frequency, scorer.norm(lengths[doc as usize]));
                    }
                });
            }
            scratch.total.iter_mut().zip(&scratch.field).for_each(|(total, field)| *total += field);
        }
        for (at, _) in scratch.matched.iter().enumerate().filter(|&(_, &matched)| matched) {
            best.push(Hit { id: start + at as u32, score: scratch.total[at] });
        }
    }
    best.finish()
}
