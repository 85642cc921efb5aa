//! Starts the threads of a run.
//!
//! A thread that cannot start is an error of the run, before its dataflow is built. Without the thread requests would
//! fail and be committed as failures, or writes would never become durable and the run would never end.

use crate::error::JobError;
use std::thread::{Builder, JoinHandle};

/// Starts a thread of this process.
///
/// # Errors
/// [`JobError::Thread`]: the system has no room for another thread.
pub(crate) fn start_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, JobError> {
    let failed = |source| JobError::Thread { name: name.to_owned(), source };
    #[cfg(test)]
    refusal::check_start(name).map_err(failed)?;
    Builder::new().name(name.to_owned()).spawn(work).map_err(failed)
}

/// Refuses threads in tests, as a system does at its limit.
#[cfg(test)]
pub(crate) mod refusal {
    use std::cell::RefCell;
    use std::io::{Error, ErrorKind};

    thread_local! {
        static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
    }

    /// From now on this thread cannot start threads of the name; `None` ends it.
    pub(crate) fn refuse_thread(name: Option<&str>) {
        REFUSED.set(name.map(str::to_owned));
    }

    pub(super) fn check_start(name: &str) -> Result<(), Error> {
        let refused = REFUSED.with_borrow(|refused| refused.as_deref() == Some(name));
        if refused { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}
