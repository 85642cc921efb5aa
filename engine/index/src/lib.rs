//! Sparse retrieval over memory-mapped index files: BM25 in the variants that published systems use, the hashed TF-IDF
//! of DrQA, and the TF-IDF by which PromptRank ranks links.

mod analyzer;
mod bm25;
mod build;
mod container;
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
pub use bm25::{Bm25Index, Scratch};
pub use error::IndexError;
pub use parameters::{Bm25Parameters, Fields, Formula, TfidfParameters, Ties};
pub use passages::Passages;
pub use query::{Hit, Query, Statistics, Within};
pub use tfidf::TfidfIndex;
