//! Writes to the terminal: results to standard output, messages to standard error. No other module does.

use hopeval_cluster::exit;
use std::io::Write;

/// Writes a line to standard output. If this fails, it ends the process: quietly if the reader went away.
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

/// Prints a message for the user on standard error.
pub(crate) fn note(text: &str) {
    // Nothing can be done if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The longest printed line of an error, in characters. A longer one repeats a line of a file.
const LONGEST_LINE: usize = 1000;

/// Cuts the long lines of a message, and says how long they were.
fn cut_lines(text: &str) -> String {
    let cut = |line: &str| match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{} … ({} characters)", &line[..end], line.chars().count()),
        None => line.to_owned(),
    };
    text.split('\n').map(cut).collect::<Vec<_>>().join("\n")
}

/// Prints an error with its causes.
pub(crate) fn error(error: &(dyn std::error::Error + 'static)) {
    note(&format!("error: {}", cut_lines(&error.to_string())));
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        // A transparent error repeats its cause.
        if !said.ends_with(&text) {
            note(&format!("  caused by: {}", cut_lines(&text)));
        }
        said = text;
        next = cause.source();
    }
}
