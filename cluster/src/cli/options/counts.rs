//! Parses numbers in options.

use std::num::NonZeroUsize;

pub(crate) fn at_least_one(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "allowed is a whole number, at least 1")
}

/// The most threads of a process. More would only be refused one by one by the system.
const MOST_THREADS: usize = 4096;

/// A number of threads.
pub(crate) fn thread_count(text: &str) -> Result<NonZeroUsize, String> {
    let allowed = || format!("allowed is a whole number from 1 to {MOST_THREADS}");
    text.parse().ok().filter(|count: &NonZeroUsize| count.get() <= MOST_THREADS).ok_or_else(allowed)
}

/// A number of questions.
pub(crate) fn question_count(text: &str) -> Result<u64, &'static str> {
    at_least_one(text).map(|number| number.get() as u64)
}
