//! Waits out outages: repeats an operation, with growing pauses, until the patience of its store has run out.
//!
//! Only errors that may pass are waited out ([`StoreError::may_pass`]). An operation without an answer ends after a
//! time limit of its own: also one of a folder, whose file system may hang. Its thread is left behind then.
//! [`StoragePatience::end`] ends all waiting, for a process that was asked to stop.

use super::StoreError;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Length of the outages that are waited out, unless told otherwise.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(120);

/// The time limit of one operation. A request to a bucket has a shorter one, in its client.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// The time limit of an operation after the process was asked to stop.
const LAST_LIMIT: Duration = Duration::from_secs(4);

/// The pause before the second try. Each further pause is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: the end of an outage is noticed this late.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The operation of a store, for messages.
#[derive(Clone, Copy)]
pub(super) struct OperationName<'a> {
    /// The operation.
    pub(super) operation: &'static str,
    /// The object's full name.
    pub(super) path: &'a str,
}

/// How long a store waits for its storage.
pub(super) struct StoragePatience {
    limit: Duration,
    /// The time limit of one operation.
    answer_limit: Duration,
    ended: watch::Sender<bool>,
    /// True while an outage lasts, which has been told.
    told: AtomicBool,
}

impl StoragePatience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, answer_limit: ANSWER_LIMIT, ended: watch::Sender::new(false), told: AtomicBool::new(false) }
    }

    /// The same with another time limit of one operation.
    #[cfg(test)]
    pub(super) fn with_answer_limit(self, answer_limit: Duration) -> Self {
        Self { answer_limit, ..self }
    }

    /// Ends all waiting, now and later.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Runs `attempt` until it succeeds, fails with an error that does not pass, or the patience has run out.
    pub(super) async fn persist<T, F>(
        &self,
        name: OperationName<'_>,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.bound(name, attempt()).await {
                Ok(value) => {
                    if self.told.swap(false, Ordering::Relaxed) {
                        tracing::warn!("the storage answers again");
                    }
                    return Ok(value);
                }
                Err(error) => error,
            };
            let left = self.limit.saturating_sub(start.elapsed());
            if !error.may_pass() || left.is_zero() {
                return Err(error);
            }
            if !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!("{error}; trying again for up to {} seconds", left.as_secs().max(1));
            }
            tokio::select! {
                () = tokio::time::sleep(pause.min(left)) => {}
                () = self.ending() => return Err(error),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Bounds one operation in time.
    pub(super) async fn bound<T>(
        &self,
        name: OperationName<'_>,
        attempt: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let hung = |limit: Duration| {
            Err(StoreError::Hung { operation: name.operation, path: name.path.to_owned(), seconds: limit.as_secs() })
        };
        let last = async {
            self.ending().await;
            tokio::time::sleep(LAST_LIMIT).await;
        };
        tokio::select! {
            biased;
            result = attempt => result,
            () = tokio::time::sleep(self.answer_limit) => hung(self.answer_limit),
            () = last => hung(LAST_LIMIT),
        }
    }

    /// Waits until the waiting is ended.
    async fn ending(&self) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const NAME: OperationName<'static> = OperationName { operation: "write", path: "s3://bucket/a" };

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn failure(passes: bool) -> StoreError {
        let (operation, path, source) = ("write", "s3://bucket/a".to_owned(), "why".into());
        match passes {
            true => StoreError::Failed { operation, path, source },
            false => StoreError::Denied { operation, path, source },
        }
    }

    /// The number of tries, and whether the last one succeeded, of an operation that fails `failures` times.
    fn tries(patience: &StoragePatience, failures: u32, passes: bool) -> (u32, bool) {
        let count = Cell::new(0);
        let result = block_on(patience.persist(NAME, || {
            count.set(count.get() + 1);
            let fails = count.get() <= failures;
            async move { if fails { Err(failure(passes)) } else { Ok(()) } }
        }));
        (count.get(), result.is_ok())
    }

    #[test]
    fn an_outage_is_waited_out_and_missing_rights_are_not() {
        let patience = StoragePatience::new(Duration::from_secs(60));
        assert_eq!(tries(&patience, 2, true), (3, true));
        assert_eq!(tries(&patience, 2, false), (1, false));
        assert_eq!(tries(&StoragePatience::new(Duration::ZERO), 2, true), (1, false));
    }

    #[test]
    fn a_process_that_stops_waits_no_longer() {
        let patience = StoragePatience::new(Duration::from_secs(3600));
        patience.end();
        assert_eq!(tries(&patience, u32::MAX, true), (1, false));
    }

    #[test]
    fn a_wait_under_way_is_ended() {
        let patience = StoragePatience::new(Duration::from_secs(3600));
        let ended = block_on(patience.persist(NAME, || {
            // The pause after this failure would last.
            patience.end();
            async { Err::<(), _>(failure(true)) }
        }));
        assert!(ended.is_err());
    }
}
