//! Holds timely's socket threads and joins them without a panic.
//!
//! Timely's guard joins its threads on drop and panics if one of them did, as they all do after a peer was lost. If the
//! guard is dropped during another panic, this ends the process by SIGABRT.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Timely's socket threads. Dropping it waits for them.
pub struct SocketThreads(Option<Box<dyn Any + Send>>);

impl fmt::Debug for SocketThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SocketThreads")
    }
}

/// A socket thread of timely had panicked: a peer went away while the dataflow was live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a connection of the mesh failed")]
pub struct SocketThreadsFailed;

impl SocketThreads {
    pub(super) fn new(guard: Box<dyn Any + Send>) -> Self {
        Self(Some(guard))
    }

    /// Waits until the sockets are closed on both sides. Join the workers first; it blocks while a peer works.
    ///
    /// # Errors
    /// If a peer was lost.
    pub fn close(mut self) -> Result<(), SocketThreadsFailed> {
        self.join()
    }

    fn join(&mut self) -> Result<(), SocketThreadsFailed> {
        let guard = self.0.take();
        catch_unwind(AssertUnwindSafe(|| drop(guard))).map_err(|_| SocketThreadsFailed)
    }
}

impl Drop for SocketThreads {
    fn drop(&mut self) {
        if self.join().is_err() {
            tracing::debug!("a socket thread had failed");
        }
    }
}
