//! The early end of one process's part in a run: it admits no further questions, finishes the admitted ones, and makes
//! everything computed for them durable.
//!
//! ```text
//!   close --> quiet: every admitted question is finished --> flush --> flushed: every write is durable
//!                                                              ^
//!                                    all processes are quiet --+
//! ```
//!
//! A quiet process stays quiet, but questions of other processes may still use its services. Once all processes are
//! quiet, all computing has ended, and one flush is enough.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Admits the questions of a process until it is closed.
#[derive(Debug, Default)]
pub struct Gate {
    closed: AtomicBool,
    admitted: AtomicU64,
}

impl Gate {
    /// Ends admission.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
    }

    /// Whether admission has ended.
    pub fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Admits a question if the gate is open.
    ///
    /// The question is counted before the gate is checked, so a count taken after closing the gate is complete.
    pub fn try_admit(&self) -> bool {
        self.admitted.fetch_add(1, SeqCst);
        let open = !self.is_closed();
        if !open {
            self.admitted.fetch_sub(1, SeqCst);
        }
        open
    }

    /// Whether the gate is closed and all admitted questions are among the `finished`. Once true, it stays so.
    pub fn is_quiet(&self, finished: &AtomicU64) -> bool {
        self.is_closed() && self.admitted.load(SeqCst) == finished.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn nobody_passes_a_closed_gate() {
        let (gate, finished) = (Gate::default(), AtomicU64::new(0));
        assert!(gate.try_admit() && gate.try_admit());
        finished.store(2, SeqCst);
        assert!(!gate.is_quiet(&finished), "it is open");
        gate.close();
        assert!(!gate.try_admit());
        assert!(gate.is_quiet(&finished));
        finished.store(1, SeqCst);
        assert!(!gate.is_quiet(&finished));
    }

    #[test]
    fn a_quiet_gate_has_missed_nobody_who_was_just_passing() {
        for _ in 0..200 {
            let (gate, finished) = (Arc::new(Gate::default()), Arc::new(AtomicU64::new(0)));
            let passing: Vec<_> = (0..3)
                .map(|_| {
                    let (gate, finished) = (Arc::clone(&gate), Arc::clone(&finished));
                    std::thread::spawn(move || {
                        let mut passed = 0u64;
                        while gate.try_admit() {
                            passed += 1;
                            finished.fetch_add(1, SeqCst);
                        }
                        passed
                    })
                })
                .collect();
            gate.close();
            while !gate.is_quiet(&finished) {
                std::thread::yield_now();
            }
            let counted = finished.load(SeqCst);
            let passed: u64 = passing.into_iter().map(|thread| thread.join().expect("it does not panic")).sum();
            assert_eq!(passed, counted, "somebody came in after it was quiet");
        }
    }
}
