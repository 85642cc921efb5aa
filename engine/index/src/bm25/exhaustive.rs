//! Scores every passage that has a term of the query: the reference of the pruned search, and the search where weights
//! are not all positive.

use super::{Bm25Index, plan::Plan};
use crate::{
    field::List,
    postings::cursor::Cursor,
    query::{Best, Hit},
};

/// Passages that are scored together.
const WINDOW: u32 = 1 << 13;

/// The window's scores.
#[derive(Default)]
pub(super) struct Scratch {
    total: Vec<f64>,
    field: Vec<f64>,
    matched: Vec<bool>,
}

pub(super) fn search(index: &Bm25Index, plan: &Plan, k: usize, scratch: &mut Scratch) -> Vec<Hit> {
    let bytes = index.container.bytes();
    let passages = index.len();
    let mut best = Best::new(k, Hit::ranking);
    // One cursor for each token, repeated ones too: scores are summed in token order.
    let mut cursors: Vec<Vec<(u32, Option<Cursor<'_>>)>> = plan
        .sequence
        .iter()
        .map(|s| {
            s.iter()
                .map(|&t| {
                    let term = &plan.terms[t as usize];
                    match index.fields[term.field].list(bytes, &term.record) {
                        List::Dense(_) => (t, None),
                        List::Blocks(blocks) => (t, Some(Cursor::new(blocks, index.level))),
                    }
                })
                .collect()
        })
        .collect();
    let mut start = 0;
    while start < passages {
        let end = passages.min(start + WINDOW);
        let size = (end - start) as usize;
        scratch.total.clear();
        scratch.total.resize(size, 0.0);
        scratch.matched.clear();
        scratch.matched.resize(size, false);
        for (f, cursors) in cursors.iter_mut().enumerate() {
            let lengths = index.fields[f].lengths(bytes);
            let scorer = &plan.scorers[f];
            scratch.field.clear();
            scratch.field.resize(size, 0.0);
            for (t, cursor) in cursors {
                let term = &plan.terms[*t as usize];
                let mut add = |doc: u32, frequency: u32| {
                    let Some(at) = doc.checked_sub(start).map(|at| at as usize).filter(|&at| at < size) else { return };
                    scratch.matched[at] = true;
                    scratch.field[at] += scorer.impact(term.idf, frequency, scorer.norm(lengths[doc as usize]));
                };
                match cursor {
                    Some(cursor) => {
                        while cursor.take_before(end, |docs, frequencies| {
                            docs.iter().zip(frequencies).for_each(|(&doc, &frequency)| add(doc, frequency));
                        }) {}
                    }
                    None => {
                        let List::Dense(dense) = index.fields[f].list(bytes, &term.record) else { continue };
                        for doc in start..end {
                            let frequency = dense.frequency(doc);
                            if frequency > 0 {
                                add(doc, frequency);
                            }
                        }
                    }
                }
            }
            scratch.total.iter_mut().zip(&scratch.field).for_each(|(total, field)| *total += field);
        }
        for (at, &matched) in scratch.matched.iter().enumerate() {
            if matched {
                best.push(Hit { id: start + at as u32, score: scratch.total[at] });
            }
        }
        start = end;
    }
    best.finish()
}
