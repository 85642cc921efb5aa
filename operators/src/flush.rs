//! Asks persisting operators for whatever they hold, when a run ends early.
//!
//! A run that drains completes no more chunks, so nothing would make [`persist`](crate::persist) write what it has
//! gathered. Whoever ends the run asks once, when nothing more is computed; every operator is woken, has its writer
//! write, and says so when all of its writes are durable.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use timely::scheduling::SyncActivator;

/// The way to the persisting operators of one process; clones share it.
#[derive(Clone, Default)]
pub struct Flush(Arc<State>);

#[derive(Default)]
struct State {
    asked: AtomicBool,
    operators: Mutex<Vec<Operator>>,
}

struct Operator {
    activator: SyncActivator,
    /// Since it was asked: everything that came in is durable.
    settled: bool,
}

impl Flush {
    /// Asks every operator, also those that are built later, to have everything written.
    pub fn ask(&self) {
        // Under the lock, so that an operator is either woken here or finds that it was asked when it is built.
        let operators = self.operators();
        self.0.asked.store(true, SeqCst);
        for operator in operators.iter() {
            // An error says that the worker is gone, and then nobody waits.
            let _ = operator.activator.activate();
        }
    }

    /// Whether everything that came in before it was asked is durable, at every operator. What comes in later makes it
    /// false again, until that is durable too.
    pub fn is_done(&self) -> bool {
        self.is_asked() && self.operators().iter().all(|operator| operator.settled)
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.asked.load(SeqCst)
    }

    /// Adds an operator and returns its number.
    pub(crate) fn register(&self, activator: SyncActivator) -> usize {
        let mut operators = self.operators();
        operators.push(Operator { activator, settled: false });
        operators.len() - 1
    }

    /// Says whether everything that came to an operator is durable.
    pub(crate) fn settle(&self, operator: usize, settled: bool) {
        self.operators()[operator].settled = settled;
    }

    fn operators(&self) -> MutexGuard<'_, Vec<Operator>> {
        self.0.operators.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
