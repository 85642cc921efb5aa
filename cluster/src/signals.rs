//! Handles SIGINT and SIGTERM: the first asks to drain, the second ends the process at once; both as resumable.
//!
//! The second is handled inside the signal handler, so it works even if all threads hang. SIGPIPE is not used for
//! closed pipes: at its default, a socket closed by a peer could end the process (vectored writes do not suppress it).
//! So [`crate::panics`] ends `hopeval show | head` quietly instead.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals as Incoming;

use crate::exit;

/// Whether this process explains the first signal's effect to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainNotice {
    /// One line on standard error.
    Print,
    /// Nothing: a supervisor has printed the line.
    Silent,
}

type DrainWaker = Box<dyn Fn() + Send>;

/// Whether the process was asked to stop; cheap to clone.
#[derive(Clone, Default)]
pub struct Signals(Arc<SignalState>);

#[derive(Default)]
struct SignalState {
    draining: AtomicBool,
    wakers: Mutex<Vec<DrainWaker>>,
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").field("draining", &self.is_draining()).finish_non_exhaustive()
    }
}

/// Handles SIGINT and SIGTERM from now on. Call it once, early in `main`.
///
/// # Errors
/// If the system refuses a handler or the thread.
pub fn install(notice: DrainNotice) -> io::Result<Signals> {
    let signals = Signals::default();
    // Separate from `draining`: a drain begun by another process must not turn the first signal into a second.
    let signalled = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in this order: the first signal finds the flag unset, and sets it.
        flag::register_conditional_shutdown(signal, exit::RESUMABLE.into(), Arc::clone(&signalled))?;
        flag::register(signal, Arc::clone(&signalled))?;
    }
    let mut incoming = Incoming::new([SIGINT, SIGTERM])?;
    let told = signals.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if incoming.forever().next().is_some() {
            if notice == DrainNotice::Print {
                // Nothing can be done if standard error is closed.
                let _ = writeln!(io::stderr(), "draining; press Ctrl-C again to stop now");
            }
            told.drain();
        }
    })?;
    Ok(signals)
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error of the write. Unhandled, SIGXFSZ would kill the
/// process without a message.
///
/// # Errors
/// If the system refuses the handler.
pub fn outlive_file_limits() -> io::Result<()> {
    // The handler only keeps the process alive. To ignore the signal would be inherited by programs started from here.
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

impl Signals {
    /// Whether the process was asked to stop, by a signal or by [`Signals::drain`].
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Asks to stop as the first signal does, because another process was asked to.
    pub fn drain(&self) {
        let wakers = {
            let mut wakers = self.wakers();
            self.0.draining.store(true, Ordering::Release);
            std::mem::take(&mut *wakers)
        };
        for waker in wakers {
            waker();
        }
    }

    /// Calls `waker` once when the process is asked to stop, maybe on another thread; at once if it was already.
    pub fn on_drain(&self, waker: impl Fn() + Send + 'static) {
        let mut wakers = self.wakers();
        // Under the lock, so that `drain` either takes the waker or has set the flag before.
        if self.is_draining() {
            drop(wakers);
            waker();
        } else {
            wakers.push(Box::new(waker));
        }
    }

    fn wakers(&self) -> std::sync::MutexGuard<'_, Vec<DrainWaker>> {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
