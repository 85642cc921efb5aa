//! Retrieval over memory-mapped index files: BM25 in the variants of published systems, the hashed TF-IDF of DrQA,
//! the TF-IDF of PromptRank's link ranking, and exact inner products of encoder vectors.
//!
//! Forbidden here: the dataflow, async, Arrow, the corpus and language models. Passages come through [`Passages`],
//! vectors through [`DenseWriter`]. Nothing prints.
//!
//! An index is one file. [`Bm25Index::key`] names it from the corpus digest and the settings that decide its bytes.
//! The bytes do not depend on the number of building threads. Every process maps the file whole and its workers share
//! the map. Every score is the formula's in double precision, in the order of the query's tokens (dense: in single
//! precision, in one fixed order). Every ranking is a total order, ties in corpus order. Pruning, batches and shards
//! change neither scores nor rankings.
//!
//! ```text
//! passages --build--> runs --> merge --> container (sections, checksums)      build, container
//!                                          |  vocabulary, postings            vocabulary, postings
//! query --analyzer--> plan (terms, weights)+--> pruned | exhaustive | within  bm25
//!                                          +--> n-grams                       tfidf
//! vectors --writer--> container --shards--> products of queries and rows      dense, simd/products
//! ```
//!
//! ```
//! use hopeval_index::{Bm25Index, Bm25Parameters, Query, SearchScratch};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let passages =
//!     vec![("Silda", "A battle off Norway in 1810."), ("Klushino", "A battle of 1610."), ("Fox", "A film.")];
//! let parameters = Bm25Parameters::default();
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join(Bm25Index::key("digest of the corpus", &parameters));
//! Bm25Index::build(&passages, "digest of the corpus", &parameters, &path, 2)?;
//!
//! let index = Bm25Index::open(&path, "digest of the corpus", &parameters)?;
//! let query = Query { text: "Which battle was fought in Norway?", k: 2, within: None };
//! let hits = index.search(&[query], &mut SearchScratch::default()).remove(0);
//! assert_eq!(hits.iter().map(|hit| hit.id).collect::<Vec<_>>(), [0, 1]);
//! # Ok(())
//! # }
//! ```

mod analyzer;
mod bm25;
mod build;
mod container;
mod dense;
mod error;
mod field;
pub mod link_tfidf;
mod parameters;
mod passages;
mod postings;
mod query;
mod simd;
mod tfidf;
mod vocabulary;

pub use analyzer::{Analyzer, UnknownAnalyzer};
pub use bm25::{Bm25Index, SearchScratch};
pub use container::indexed_corpus;
pub use dense::{DenseIndex, DenseParameters, DenseQuery, DenseWriter, IndexShard, VectorDtype};
pub use error::IndexError;
pub use parameters::{Bm25Formula, Bm25Parameters, PassageNormalisation, SearchedFields, TfidfParameters, TieOrder};
pub use passages::Passages;
pub use query::{Hit, Query, QueryRestriction, Statistics};
pub use tfidf::TfidfIndex;
