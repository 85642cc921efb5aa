//! The first error that ends a run, from whichever thread met it.

use crate::error::JobError;
use std::sync::{Arc, Mutex, PoisonError};

/// A first error that ends the run, from whichever thread met it.
#[derive(Clone, Default)]
pub struct Fault(Arc<Mutex<Option<JobError>>>);

impl Fault {
    /// Keeps the first error, which whoever takes it tells the user; others often follow from it.
    pub fn report(&self, error: JobError) {
        tracing::debug!(%error, "the run cannot go on");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Takes the error, if there is one.
    pub fn take(&self) -> Option<JobError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
