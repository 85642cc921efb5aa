//! Counters of the operators of one process, readable from any thread.

use std::sync::atomic::{AtomicU64, Ordering::Release};

/// Counters of one process, shared by its workers.
#[derive(Debug, Default)]
pub struct OperatorCounters {
    /// Questions admitted.
    pub admitted: AtomicU64,
    /// Questions with all configurations done.
    pub finished: AtomicU64,
    /// Outcomes.
    pub outcomes: AtomicU64,
    /// Requests of machines.
    pub asked: AtomicU64,
    /// Requests sent to a service: asked, without those merged with an equal request in flight or known.
    pub sent: AtomicU64,
    /// Replies of services.
    pub served: AtomicU64,
    /// Steps of all workers of the process.
    pub beats: AtomicU64,
}

impl OperatorCounters {
    /// Adds to a counter. A thread that acquires the sum sees all earlier effects: a draining run relies on it.
    pub(crate) fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Release);
    }
}
