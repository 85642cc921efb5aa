//! Ends a process on a panic: with one clear line for a bug, and without a message if a lost peer caused the panic.
//!
//! After a peer is lost, timely panics in every socket thread and then in every worker, with unhelpful messages. A
//! panicking worker must not unwind either: dropping a capability says "this time is complete", and this would be
//! false. Threads of one process also do not learn of each other's panics, and would wait for ever. So the hook
//! classifies the message and exits; it runs before anything unwinds.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::process;
use std::time::Duration;

use crate::exit;

/// Pause between the first panic after a lost peer and the end of the process.
const HINDSIGHT: Duration = Duration::from_millis(300);

/// The meaning of a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanicCause {
    /// A peer went away, or another thread of this process panicked before: exit as resumable.
    Cascade,
    /// The reader of standard output went away: nothing to report.
    ClosedPipe,
    /// A bug in this program.
    Bug,
}

/// Panic messages of timely's threads, and of threads sharing data with them, after another thread failed.
const CASCADE: [&str; 9] = [
    // timely_communication 0.32, zero_copy/tcp.rs; a comment there promises to keep this prefix
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
    // std, unwrapping a lock held by a panicking thread
    "PoisonError",
];

/// The meaning of a panic with this message.
pub fn panic_cause(message: &str) -> PanicCause {
    if message.starts_with("failed printing to stdout") && message.contains("Broken pipe") {
        PanicCause::ClosedPipe
    } else if CASCADE.iter().any(|known| message.contains(known)) {
        PanicCause::Cascade
    } else {
        PanicCause::Bug
    }
}

/// Installs the hook for the whole process; call it once, first in `main`.
///
/// From then on every panic in any thread ends the process, even inside `catch_unwind` (but for that of the readers of
/// Parquet files, which make an error of it): with [`exit::RESUMABLE`] after
/// a lost peer, [`exit::CLOSED_PIPE`] when the reader of standard output went away, and [`exit::BUG`] otherwise, after
/// one line on standard error with the place of the panic.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        // A stranger's file made a decoder panic: the caller catches it, and names the file.
        if hopeval_datasets::catches_panics() {
            return;
        }
        let message = message(info);
        let code = match panic_cause(&message) {
            PanicCause::Cascade => {
                tracing::debug!(%message, "a panic after a lost peer");
                // The heartbeat notices the loss, too, and knows the lost process. It may end this process first, with
                // a better message.
                std::thread::sleep(HINDSIGHT);
                exit::RESUMABLE
            }
            PanicCause::ClosedPipe => exit::CLOSED_PIPE,
            PanicCause::Bug => {
                report_bug(info, &message);
                exit::BUG
            }
        };
        // No destructor runs, in this thread or another.
        process::exit(code.into());
    }));
}

fn report_bug(info: &PanicHookInfo<'_>, message: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let mut stderr = std::io::stderr().lock();
    // Nothing can be done if standard error is closed.
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
