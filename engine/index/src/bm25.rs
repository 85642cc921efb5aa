//! BM25 over an index file.
//!
//! A query is planned: its terms are looked up and their weights computed in double precision. Then one of three
//! searches answers it. All give the same hits with the same scores, to the last bit:
//!
//! * `pruned` for most: single-precision upper bounds exclude passages, exact scores rank the rest;
//! * `exhaustive` if a weight is not positive, because then bounds do not hold;
//! * `within` for queries restricted to some passages.

pub(crate) mod description;
mod exact;
mod exhaustive;
mod plan;
mod pruned;
mod within;

use std::path::Path;

use crate::{
    build,
    container::Container,
    dense,
    error::IndexError,
    field::IndexField,
    parameters::Bm25Parameters,
    passages::Passages,
    query::{Hit, Query},
    simd::InstructionLevel,
    tfidf,
};
use description::IndexDescription;

/// A BM25 index, memory-mapped. Cheap to share among threads by reference.
pub struct Bm25Index {
    container: Container,
    description: IndexDescription,
    fields: Vec<IndexField>,
    parameters: Bm25Parameters,
    level: InstructionLevel,
}

/// Working memory of a search, reused from batch to batch. Each thread needs its own.
#[derive(Default)]
pub struct SearchScratch {
    plan: plan::PlanScratch,
    exhaustive: exhaustive::ExhaustiveScratch,
    pruned: pruned::PrunedScratch,
    pub(crate) tfidf: tfidf::WindowScores,
    pub(crate) dense: dense::DenseScratch,
}

impl Bm25Index {
    /// The name of the index of a corpus under these parameters: 64 hexadecimal digits. Parameters without effect on
    /// the file (`formula`, `k1`, `b`, `epsilon`) do not change the name.
    pub fn key(corpus_digest: &str, parameters: &Bm25Parameters) -> String {
        parameters.layout().key(corpus_digest)
    }

    /// Builds the index of `passages` at `path` with `threads` threads. The file appears when it is complete; its
    /// bytes do not depend on `threads`.
    ///
    /// # Errors
    ///
    /// [`IndexError::Parameter`] for parameters out of range, [`IndexError::Io`] if the file cannot be written,
    /// [`IndexError::TooLarge`] for a corpus beyond the format's limits.
    pub fn build(
        passages: &dyn Passages,
        corpus_digest: &str,
        parameters: &Bm25Parameters,
        path: &Path,
        threads: usize,
    ) -> Result<(), IndexError> {
        parameters.check()?;
        build::build_index(passages, corpus_digest, parameters.layout(), path, threads)
    }

    /// Opens the index at `path`. It must have been built from the corpus of this digest with the same analyzer and
    /// fields; formula, `k1`, `b` and `epsilon` are free.
    ///
    /// # Errors
    ///
    /// [`IndexError`] if the file is missing, foreign, truncated, corrupt, or an index of something else. Header and
    /// tables are checked here; [`Bm25Index::verify`] checks all bytes.
    pub fn open(path: &Path, corpus_digest: &str, parameters: &Bm25Parameters) -> Result<Self, IndexError> {
        parameters.check()?;
        let container = Container::open(path)?;
        let description = IndexDescription::read(&container, corpus_digest, parameters.layout())?;
        let fields = (0..description.fields.len() as u32)
            .map(|field| IndexField::open(&container, field, description.passages))
            .collect::<Result<_, _>>()?;
        Ok(Self { container, description, fields, parameters: *parameters, level: InstructionLevel::detect() })
    }

    /// Checks every byte against its checksum.
    ///
    /// # Errors
    ///
    /// [`IndexError::Corrupt`] names the first section with a wrong checksum.
    pub fn verify(&self) -> Result<(), IndexError> {
        self.container.verify()
    }

    /// Number of passages in the index.
    pub fn len(&self) -> u32 {
        self.description.passages
    }

    /// Whether the index has no passages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parameters of this open index.
    pub fn parameters(&self) -> &Bm25Parameters {
        &self.parameters
    }

    /// Answers each query with at most `k` hits, best first, equal scores in corpus order.
    ///
    /// Under every formula, passages without a term of the query are never returned. Passages with one are, even with
    /// a score of zero or less (`okapi` with `epsilon` 0, or if most terms are frequent).
    pub fn search(&self, queries: &[Query<'_>], scratch: &mut SearchScratch) -> Vec<Vec<Hit>> {
        queries.iter().map(|query| self.answer_query(query, scratch)).collect()
    }

    fn answer_query(&self, query: &Query<'_>, scratch: &mut SearchScratch) -> Vec<Hit> {
        let mut plan = plan::QueryPlan::new(self, query.text, &mut scratch.plan);
        if query.k == 0 || plan.terms.is_empty() {
            return Vec::new();
        }
        match &query.within {
            Some(within) => within::search(self, &mut plan, within, query.k),
            None => pruned::search(self, &plan, query.k, &mut scratch.pruned)
                .unwrap_or_else(|| exhaustive::search(self, &plan, query.k, &mut scratch.exhaustive)),
        }
    }
}
