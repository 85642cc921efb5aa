//! Hashed n-grams.

pub(crate) fn each(_text: &str, _ngrams: u8, _bits: u8, _emit: impl FnMut(&[u8])) {}
