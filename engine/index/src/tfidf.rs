//! The hashed TF-IDF of DrQA.

pub(crate) mod grams;
