//! Searches some passages only: looks each of them up in the query's lists.

use super::{
    Bm25Index,
    description::okapi_idf,
    plan::{FieldScorer, QueryPlan},
};
use crate::{
    field::PostingReader,
    parameters::Bm25Formula,
    query::{BestHits, Hit, QueryRestriction, Statistics},
};

pub(super) fn search(index: &Bm25Index, plan: &mut QueryPlan, within: &QueryRestriction, k: usize) -> Vec<Hit> {
    let bytes = index.container.bytes();
    let ids = within.ids_below(index.len());
    if ids.is_empty() {
        return Vec::new();
    }
    // frequencies[i * terms + t]: of term t in passage i.
    let terms = plan.terms.len();
    let mut frequencies = vec![0; ids.len() * terms];
    for (t, term) in plan.terms.iter().enumerate() {
        let mut reader = PostingReader::new(index.fields[term.field].posting_list(bytes, &term.record), index.level);
        for (i, &id) in ids.iter().enumerate() {
            frequencies[i * terms + t] = reader.frequency(id);
        }
    }
    if within.statistics == Statistics::Restriction {
        restrict_statistics(index, plan, &ids, &frequencies);
    }
    let mut best = BestHits::new(k, Hit::ranking);
    for (&id, row) in ids.iter().zip(frequencies.chunks_exact(terms)) {
        if row.iter().any(|&frequency| frequency > 0) {
            let norm = |field: usize| plan.scorers[field].norm(index.fields[field].lengths(bytes)[id as usize]);
            best.push(Hit { id, score: plan.score(row, norm) });
        }
    }
    best.finish()
}

/// Replaces the corpus's numbers with those of `ids`.
fn restrict_statistics(index: &Bm25Index, plan: &mut QueryPlan, ids: &[u32], frequencies: &[u32]) {
    let bytes = index.container.bytes();
    let terms = plan.terms.len();
    let mut counts = vec![0u32; terms];
    for row in frequencies.chunks_exact(terms) {
        row.iter().zip(&mut counts).for_each(|(&frequency, count)| *count += u32::from(frequency > 0));
    }
    for field in 0..index.fields.len() {
        let lengths = index.fields[field].lengths(bytes);
        let tokens: u64 = ids.iter().map(|&id| u64::from(lengths[id as usize])).sum();
        let passages = ids.len() as f64;
        // Only a term in more than half of the passages needs the mean idf, and the mean idf needs all lists.
        let negative = |t: usize| counts[t] > 0 && okapi_idf(passages, f64::from(counts[t])) < 0.0;
        let needed = index.parameters.formula == Bm25Formula::Okapi
            && index.parameters.epsilon != 0.0
            && (0..terms).any(|t| plan.terms[t].field == field && negative(t));
        let mean_idf = if needed { mean_idf(index, field, ids) } else { 0.0 };
        plan.scorers[field] = FieldScorer::new(index, passages, tokens as f64 / passages, mean_idf);
    }
    for (term, &count) in plan.terms.iter_mut().zip(&counts) {
        term.idf = plan.scorers[term.field].idf(count);
    }
}

/// The mean idf over all terms of the passages, as rank_bm25 computes it for them, but summed in the order of the
/// terms' first occurrence in the whole corpus.
fn mean_idf(index: &Bm25Index, field: usize, ids: &[u32]) -> f64 {
    let bytes = index.container.bytes();
    let field = &index.fields[field];
    let (mut sum, mut count) = (0.0, 0u32);
    for id in 0..field.vocabulary.len() as u32 {
        let mut reader =
            PostingReader::new(field.posting_list(bytes, &field.vocabulary.record(bytes, id)), index.level);
        let df = ids.iter().filter(|&&doc| reader.frequency(doc) > 0).count() as u32;
        if df > 0 {
            sum += okapi_idf(ids.len() as f64, f64::from(df));
            count += 1;
        }
    }
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}
