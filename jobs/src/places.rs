//! The store and the cache of a command.

use crate::cache::Cache;
use hopeval_results::Store;

/// The store, the cache and the threads of a command.
#[derive(Clone)]
pub struct Places {
    /// Runs and journal.
    pub store: Store,
    /// Corpora and indexes of this machine.
    pub cache: Cache,
    /// Number of threads for builds.
    pub threads: usize,
}
