//! Parses numbers in options.

use std::num::NonZeroUsize;

pub(crate) fn at_least_one(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "allowed is a whole number, at least 1")
}

/// A number of questions.
pub(crate) fn question_count(text: &str) -> Result<u64, &'static str> {
    at_least_one(text).map(|number| number.get() as u64)
}
