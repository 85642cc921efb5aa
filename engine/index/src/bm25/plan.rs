//! A query's terms, looked up and weighted.

use rustc_hash::FxHashMap;

use super::{Bm25Index, description::okapi_idf};
use crate::{parameters::Bm25Formula, simd::TermImpact, vocabulary::TermRecord};

/// Working memory of planning, reused from query to query.
#[derive(Default)]
pub(super) struct PlanScratch {
    lower: String,
    seen: FxHashMap<(u32, u32), u32>,
}

/// A distinct term of a query in one field.
#[derive(Debug, Clone)]
pub(super) struct PlannedTerm {
    pub field: usize,
    pub record: TermRecord,
    /// The idf of the formula; a document frequency of 0 gives 0.
    pub idf: f64,
    /// The term's number of occurrences in the query.
    pub count: u32,
}

/// A query, ready to be answered.
#[derive(Debug)]
pub(super) struct QueryPlan {
    /// The distinct terms found in the index, by field, then by first occurrence in the query.
    pub terms: Vec<PlannedTerm>,
    /// For each field the query's tokens in order, as indices into `terms`.
    pub sequence: Vec<Vec<u32>>,
    pub scorers: Vec<FieldScorer>,
}

/// The formula with the numbers of one field.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldScorer {
    formula: Bm25Formula,
    k1: f64,
    b: f64,
    epsilon: f64,
    passages: f64,
    average_length: f64,
    /// rank_bm25's mean idf, the base of its floor for negative ones.
    mean_idf: f64,
}

impl FieldScorer {
    pub(super) fn of_corpus(index: &Bm25Index, field: usize) -> Self {
        let numbers = &index.description.fields[field];
        let passages = f64::from(index.description.passages);
        let mean_idf = numbers.okapi_idf_sum / index.fields[field].vocabulary.len() as f64;
        Self::new(index, passages, numbers.tokens as f64 / passages, mean_idf)
    }

    pub(super) fn new(index: &Bm25Index, passages: f64, average_length: f64, mean_idf: f64) -> Self {
        let p = &index.parameters;
        Self { formula: p.formula, k1: p.k1, b: p.b, epsilon: p.epsilon, passages, average_length, mean_idf }
    }

    pub(super) fn idf(&self, df: u32) -> f64 {
        let (n, df) = (self.passages, f64::from(df));
        match self.formula {
            _ if df == 0.0 => 0.0,
            Bm25Formula::Lucene => (1.0 + (n - df + 0.5) / (df + 0.5)).ln(),
            Bm25Formula::Atire => (n / df).ln(),
            Bm25Formula::Okapi => {
                let idf = okapi_idf(n, df);
                if idf < 0.0 { self.epsilon * self.mean_idf } else { idf }
            }
        }
    }

    /// The norm of a passage of this length, in rank_bm25's order of operations.
    #[inline]
    pub(super) fn norm(&self, length: u32) -> f64 {
        self.k1 * (1.0 - self.b + self.b * f64::from(length) / self.average_length)
    }

    /// The impact of a term with `count` occurrences in the query, in single precision.
    pub(super) fn single_impact(&self, idf: f64, count: u32) -> TermImpact {
        let factor = if self.formula == Bm25Formula::Lucene { 1.0 } else { self.k1 + 1.0 };
        TermImpact {
            weight: (idf * factor * f64::from(count)) as f32,
            // The tiny addend prevents 0 / 0 for a passage without the term and with a norm of 0.
            base: (self.k1 * (1.0 - self.b) + 1e-30) as f32,
            slope: (self.k1 * self.b / self.average_length) as f32,
        }
    }

    /// A term's contribution to a passage's score.
    #[inline]
    pub(super) fn impact(&self, idf: f64, frequency: u32, norm: f64) -> f64 {
        let tf = f64::from(frequency);
        match self.formula {
            Bm25Formula::Lucene => idf * (tf / (tf + norm)),
            Bm25Formula::Okapi | Bm25Formula::Atire => idf * (tf * (self.k1 + 1.0) / (tf + norm)),
        }
    }
}

impl QueryPlan {
    pub(super) fn new(index: &Bm25Index, text: &str, scratch: &mut PlanScratch) -> Self {
        let bytes = index.container.bytes();
        let fields = index.fields.len();
        let mut plan = Self { terms: Vec::new(), sequence: vec![Vec::new(); fields], scorers: Vec::new() };
        scratch.seen.clear();
        for (f, field) in index.fields.iter().enumerate() {
            let scorer = FieldScorer::of_corpus(index, f);
            index.parameters.analyzer.each_term(text, &mut scratch.lower, |term| {
                let Some(id) = field.vocabulary.find(bytes, term) else { return };
                let next = plan.terms.len() as u32;
                let at = *scratch.seen.entry((f as u32, id)).or_insert(next);
                if at == next {
                    let record = field.vocabulary.record(bytes, id);
                    plan.terms.push(PlannedTerm {
                        field: f,
                        record,
                        idf: scorer.idf(record.document_frequency),
                        count: 0,
                    });
                }
                plan.terms[at as usize].count += 1;
                plan.sequence[f].push(at);
            });
            plan.scorers.push(scorer);
        }
        plan
    }

    /// The exact score of a passage: for each field in order, for each token in order, the term's impact.
    pub(super) fn score(&self, frequencies: &[u32], norm: impl Fn(usize) -> f64) -> f64 {
        let mut total = 0.0;
        for (field, sequence) in self.sequence.iter().enumerate() {
            let (scorer, norm, mut sum) = (&self.scorers[field], norm(field), 0.0);
            for &t in sequence {
                let frequency = frequencies[t as usize];
                if frequency > 0 {
                    sum += scorer.impact(self.terms[t as usize].idf, frequency, norm);
                }
            }
            total += sum;
        }
        total
    }
}
