//! Where a command works.

use crate::cache::Cache;
use hopeval_results::Store;

/// Where a command works.
#[derive(Clone)]
pub struct Places {
    /// Runs and journal.
    pub store: Store,
    /// Corpora and indexes of this machine.
    pub cache: Cache,
    /// Threads that builds may use.
    pub threads: usize,
}
