//! Wakes an operator of the dataflow from another thread.

use std::sync::{Arc, Mutex, PoisonError};
use timely::scheduling::SyncActivator;

/// Wakes an operator from another thread, once that operator exists.
#[derive(Clone, Default)]
pub struct OperatorWaker(Arc<Mutex<Option<SyncActivator>>>);

impl OperatorWaker {
    /// Wakes `activator` from now on.
    pub(crate) fn set_activator(&self, activator: SyncActivator) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(activator);
    }

    /// Wakes the operator, if it is set.
    pub fn wake(&self) {
        if let Some(activator) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // After an error the worker is gone, so nothing waits.
            let _ = activator.activate();
        }
    }
}
