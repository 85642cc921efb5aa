//! The one place that writes to the terminal: results to standard output, words to standard error.

use hopeval_cluster::exit;
use std::io::Write;

/// Writes a line to standard output. Ends the process where that cannot be: quietly if the reader went away.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(exit::CLOSED_PIPE.into());
        }
        note(&format!("error: cannot write to standard output: {error}"));
        std::process::exit(exit::USAGE.into());
    }
}

/// Says something to the user, beside the output.
pub(crate) fn note(text: &str) {
    // Nothing can be done if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// An error with its causes, and what to do where that is known.
pub(crate) fn error(error: &(dyn std::error::Error + 'static)) {
    note(&format!("error: {error}"));
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        // A transparent error says what its cause says.
        if !said.ends_with(&text) {
            note(&format!("  caused by: {text}"));
        }
        said = text;
        next = cause.source();
    }
}
