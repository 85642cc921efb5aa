//! Counts the requests of runs: those that a run computed, and those with an answer in a store.

use crate::harness::{document, hopeval};
use hopeval_results::{Journal, Store, layout};
use std::collections::BTreeSet;
use std::path::Path;

/// Requests that a run computed, over all services.
pub(crate) fn computed(dir: &Path, store: &str, run: &str) -> u64 {
    let shown = document(&mut hopeval(dir, &["show", run, "--store", store, "--cache", "cache", "--json"]));
    shown["cost"].as_array().unwrap().iter().filter_map(|row| row["computed"].as_u64()).sum()
}

/// Different requests with an answer in a store.
pub(crate) fn journalled(dir: &Path, store: &str) -> u64 {
    let store = Store::open(dir.join(store).to_str().unwrap()).unwrap();
    let journal = Journal::open(&store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new()).unwrap();
    journal.len() as u64
}
