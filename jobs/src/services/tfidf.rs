//! `kind = "tfidf"`: DrQA's hashed TF-IDF over the corpus. Its settings are the parameters of the index.

use super::sparse::word_service;
use hopeval_index::{TfidfIndex, TfidfParameters};

word_service!(TfidfIndex, TfidfParameters, "tfidf");
