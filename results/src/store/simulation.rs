//! Simulated storage faults, for tests: a handle whose operations are delayed, fail, or have an effect without an
//! answer.
//!
//! A process that is killed is a handle on which, from some operation on, all fail.

use super::patience::StoragePatience;
use super::{Store, StoreError, StoreInner, open};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// An operation on a simulated storage.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedOperation<'a> {
    /// The operation, as in errors: `read`, `write`, `list`, `remove`, `look at`.
    pub operation: &'static str,
    /// The object or the folder.
    pub name: &'a str,
    /// Operations before this one.
    pub number: u64,
}

/// The end of a simulated operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedFate {
    /// It succeeds.
    Success,
    /// It fails, and nothing has happened.
    Failure,
    /// It happens, and its answer is lost.
    LostAnswer,
}

/// Decides the ends of operations.
pub(super) struct StorageSimulation {
    delay: Duration,
    fate: Box<dyn Fn(SimulatedOperation<'_>) -> SimulatedFate + Send + Sync>,
    begun: AtomicU64,
}

impl StorageSimulation {
    /// Begins an operation, after the simulated delay.
    pub(super) async fn begin(&self, operation: &'static str, name: &str) -> SimulatedFate {
        let number = self.begun.fetch_add(1, Ordering::SeqCst);
        let fate = (self.fate)(SimulatedOperation { operation, name, number });
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        fate
    }
}

impl Store {
    /// Another handle on the same objects. Each of its operations first takes `delay`, then ends as `fate` says.
    ///
    /// # Errors
    /// If no runtime can be started.
    pub fn simulate(
        &self,
        delay: Duration,
        fate: impl Fn(SimulatedOperation<'_>) -> SimulatedFate + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        let simulation = StorageSimulation { delay, fate: Box::new(fate), begun: AtomicU64::new(0) };
        let inner = StoreInner {
            objects: Arc::clone(&self.inner.objects),
            parts: self.inner.parts.clone(),
            patience: StoragePatience::new(Duration::ZERO),
            conditions: AtomicBool::new(self.inner.conditions.load(Ordering::Acquire)),
            simulation: Some(simulation),
            runtime: Some(open::start_runtime()?),
            uri: self.inner.uri.clone(),
            local: self.inner.local.clone(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// The error of a simulated failure. It may pass.
pub(super) fn simulated_failure(operation: &'static str, path: String) -> StoreError {
    StoreError::Failed { operation, path, source: "a simulated fault".into() }
}
