//! Makes the persisting operators write everything they hold, when a run ends early.
//!
//! A draining run completes no more cohorts, so nothing else makes [`persist`](crate::persist) write its items. The
//! thread ending the run asks once, after the last computation. Every operator is woken, makes its writer write, and
//! reports when all of its writes are durable.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use timely::scheduling::SyncActivator;

/// A handle on the persisting operators of one process. Clones share it.
#[derive(Clone, Default)]
pub struct Flush(Arc<FlushState>);

#[derive(Default)]
struct FlushState {
    asked: AtomicBool,
    operators: Mutex<Vec<PersistingOperator>>,
}

struct PersistingOperator {
    activator: SyncActivator,
    /// True if, since the flush was asked, all received items are durable.
    settled: bool,
}

impl Flush {
    /// Asks every operator, including later ones, to write everything.
    pub fn ask(&self) {
        // Under the lock: an operator is either woken here, or finds `asked` set when it is built.
        let operators = self.lock_operators();
        self.0.asked.store(true, SeqCst);
        for operator in operators.iter() {
            // On an error the worker is gone, and then nobody waits.
            let _ = operator.activator.activate();
        }
    }

    /// True if, at every operator, everything received before the request is durable. Later items make it false again,
    /// until they are durable too.
    pub fn is_done(&self) -> bool {
        self.is_asked() && self.lock_operators().iter().all(|operator| operator.settled)
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.asked.load(SeqCst)
    }

    /// Adds an operator and returns its number.
    pub(crate) fn register_operator(&self, activator: SyncActivator) -> usize {
        let mut operators = self.lock_operators();
        operators.push(PersistingOperator { activator, settled: false });
        operators.len() - 1
    }

    /// Records whether all items of an operator are durable.
    pub(crate) fn set_settled(&self, operator: usize, settled: bool) {
        self.lock_operators()[operator].settled = settled;
    }

    fn lock_operators(&self) -> MutexGuard<'_, Vec<PersistingOperator>> {
        self.0.operators.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
