//! What the operators of one process count, readable from any thread.

use std::sync::atomic::{AtomicU64, Ordering::Release};

/// Counters of one process, shared by its workers.
#[derive(Debug, Default)]
pub struct Counters {
    /// Questions admitted.
    pub admitted: AtomicU64,
    /// Questions whose configurations are all done.
    pub finished: AtomicU64,
    /// Outcomes.
    pub outcomes: AtomicU64,
    /// Requests that machines made.
    pub asked: AtomicU64,
    /// Requests sent to a service: asked, less those that met an equal one on the way.
    pub sent: AtomicU64,
    /// Replies that services gave.
    pub served: AtomicU64,
    /// Steps that any worker of the process took: still means stalled.
    pub beats: AtomicU64,
}

impl Counters {
    /// Adds to a counter. Who acquires the sum sees what was done before: a run that drains counts on it.
    pub(crate) fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Release);
    }
}
