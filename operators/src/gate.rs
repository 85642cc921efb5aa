//! Lets work begin until a run ends early.
//!
//! ```text
//!   close --> quiet: all work that had begun is done, and nothing begins --> flush
//! ```
//!
//! Work is one request, or a batch of them, from the beginning of its computation until [`serve`](crate::serve) has
//! sent its answer and its record. A closed gate stays closed, so a quiet one stays quiet. Requests and machines that
//! come later are kept, not answered: a dropped one would say that its cohort is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The gate of one process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<GateState>);

#[derive(Debug, Default)]
struct GateState {
    closed: AtomicBool,
    under_way: AtomicU64,
}

/// Work under way, until it is dropped. A clone is further work, begun with the first.
#[derive(Debug)]
pub struct WorkGuard(Arc<GateState>);

impl Gate {
    /// Lets nothing begin any more.
    pub fn close(&self) {
        self.0.closed.store(true, SeqCst);
    }

    /// Whether nothing may begin.
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(SeqCst)
    }

    /// Begins work if the gate is open.
    ///
    /// The work is counted before the gate is checked, so a count taken after closing the gate is complete.
    pub fn begin_work(&self) -> Option<WorkGuard> {
        self.0.under_way.fetch_add(1, SeqCst);
        let work = WorkGuard(Arc::clone(&self.0));
        (!self.is_closed()).then_some(work)
    }

    /// The work under way.
    pub fn under_way(&self) -> u64 {
        self.0.under_way.load(SeqCst)
    }

    /// Whether the gate is closed and all work is done. Once true, no work begins.
    pub fn is_quiet(&self) -> bool {
        self.is_closed() && self.under_way() == 0
    }
}

impl Clone for WorkGuard {
    fn clone(&self) -> Self {
        self.0.under_way.fetch_add(1, SeqCst);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_begins_behind_a_closed_gate() {
        let gate = Gate::default();
        let work = gate.begin_work().expect("it is open");
        assert_eq!((gate.is_quiet(), gate.under_way()), (false, 1));
        gate.close();
        assert!(gate.begin_work().is_none() && !gate.is_quiet());
        let more = work.clone();
        drop(work);
        assert!(!gate.is_quiet(), "its clone is under way");
        drop(more);
        assert!(gate.is_quiet());
    }

    #[test]
    fn a_quiet_gate_has_missed_no_work_that_was_just_beginning() {
        for _ in 0..200 {
            let (gate, begun) = (Gate::default(), Arc::new(AtomicU64::new(0)));
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let (gate, begun) = (gate.clone(), Arc::clone(&begun));
                    std::thread::spawn(move || {
                        while let Some(_work) = gate.begin_work() {
                            begun.fetch_add(1, SeqCst);
                        }
                    })
                })
                .collect();
            gate.close();
            while !gate.is_quiet() {
                std::thread::yield_now();
            }
            let counted = begun.load(SeqCst);
            workers.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
            assert_eq!(begun.load(SeqCst), counted, "work began after it was quiet");
        }
    }
}
