//! The end of a process that panics: one clear line for a bug, nothing for what a lost peer caused, and the process
//! ends.
//!
//! After a peer is lost, timely panics in every socket thread and then in every worker, with messages that help nobody.
//! A worker that panics must not unwind either: dropping a capability says "this time is complete", which would be a
//! lie, and threads of one process are not told of each other's panics and would wait for ever. So the hook, which runs
//! before anything unwinds, classifies the message and exits.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::process;
use std::time::Duration;

use crate::exit;

/// How long the first panic after a lost peer waits before it ends the process.
const HINDSIGHT: Duration = Duration::from_millis(300);

/// The meaning of a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A peer went away, or another thread of this process panicked before: exit as resumable.
    Cascade,
    /// The reader of standard output went away: nothing to report.
    ClosedPipe,
    /// A bug in this program.
    Bug,
}

/// Messages that timely's threads, and those who share data with them, panic with after another failed.
const CASCADE: [&str; 9] = [
    // timely_communication 0.32, zero_copy/tcp.rs, which promises to keep this prefix
    "timely communication error:",
    // zero_copy/bytes_exchange.rs
    "MergeQueue poisoned",
    "Lock poisoned",
    // zero_copy/initialize.rs, joining its threads
    "Send thread panic",
    "Recv thread panic",
    // zero_copy/initialize.rs and tcp.rs, when a thread of the same process is gone
    "Failed to receive MergeQueue",
    "failed to send MergeQueue",
    "Clean shutdown followed by data",
    // std, unwrapping a lock that a panicking thread held
    "PoisonError",
];

/// The meaning of a panic with this message.
pub fn cause(message: &str) -> Cause {
    if message.starts_with("failed printing to stdout") && message.contains("Broken pipe") {
        Cause::ClosedPipe
    } else if CASCADE.iter().any(|known| message.contains(known)) {
        Cause::Cascade
    } else {
        Cause::Bug
    }
}

/// Installs the hook for the whole process; call it once, first in `main`.
///
/// From then on every panic in any thread ends the process, also one that somebody would catch: with
/// [`exit::RESUMABLE`] after a lost peer, [`exit::CLOSED_PIPE`] when the reader of standard output went away, and
/// [`exit::BUG`] otherwise, after one line on standard error that names the place.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        let message = message(info);
        let code = match cause(&message) {
            Cause::Cascade => {
                tracing::debug!(%message, "a panic after a lost peer");
                // The pulse notices too, and knows who was lost: it may end the process first, with a better message.
                std::thread::sleep(HINDSIGHT);
                exit::RESUMABLE
            }
            Cause::ClosedPipe => exit::CLOSED_PIPE,
            Cause::Bug => {
                report(info, &message);
                exit::BUG
            }
        };
        // No destructor runs, in this thread or another.
        process::exit(code.into());
    }));
}

fn report(info: &PanicHookInfo<'_>, message: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let mut stderr = std::io::stderr().lock();
    // If standard error is closed there is nobody to tell.
    let _ = writeln!(stderr, "error: this is a bug in hopeval: {message} (at {place}, thread {name})");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        let _ = writeln!(stderr, "{backtrace}");
    }
}

fn message(info: &PanicHookInfo<'_>) -> String {
    info.payload_as_str().unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests;
