//! The error that ends a run: the first one of any thread.

use crate::error::JobError;
use std::sync::{Arc, Mutex, PoisonError};

/// The error that ends the run: the first one of any thread.
#[derive(Clone, Default)]
pub struct RunFault(Arc<Mutex<Option<JobError>>>);

impl RunFault {
    /// Keeps the first error, for the caller of [`RunFault::take`] to show. Later errors are often its consequences.
    pub fn report(&self, error: JobError) {
        tracing::debug!(%error, "the run cannot go on");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Takes the error, if there is one.
    pub fn take(&self) -> Option<JobError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
