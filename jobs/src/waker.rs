//! Wakes an operator of the dataflow from another thread.

use std::sync::{Arc, Mutex, PoisonError};
use timely::scheduling::SyncActivator;

/// Wakes an operator from another thread, once that operator is there.
#[derive(Clone, Default)]
pub struct Waker(Arc<Mutex<Option<SyncActivator>>>);

impl Waker {
    /// Has `activator` woken from now on.
    pub(crate) fn set(&self, activator: SyncActivator) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(activator);
    }

    /// Wakes it.
    pub fn wake(&self) {
        if let Some(activator) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // An error says that the worker is gone, and then nobody waits.
            let _ = activator.activate();
        }
    }
}
