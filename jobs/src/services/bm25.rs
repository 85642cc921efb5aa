//! `kind = "bm25"`: BM25 over the corpus. Its settings are the parameters of the index.

use super::sparse::word_service;
use hopeval_index::{Bm25Index, Bm25Parameters};

word_service!(Bm25Index, Bm25Parameters, "bm25");
