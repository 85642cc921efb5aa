//! Writes to the terminal: results to standard output, messages to standard error. No other module does.

use hopeval_cluster::exit;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use terminal_size::{Width, terminal_size_of};

/// Whether tables have all their columns, however wide the terminal is.
static IS_WIDE: AtomicBool = AtomicBool::new(false);

/// Gives tables all their columns from now on.
pub(crate) fn show_wide() {
    IS_WIDE.store(true, Ordering::Relaxed);
}

/// The characters of a line of a table: those of `COLUMNS`, or else of the terminal. `None` for any number: where
/// standard output is no terminal, and after [`show_wide`].
pub(crate) fn line_width() -> Option<usize> {
    if IS_WIDE.load(Ordering::Relaxed) {
        return None;
    }
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse::<usize>().ok());
    let of_terminal = || terminal_size_of(std::io::stdout()).map(|(Width(width), _)| usize::from(width));
    asked.or_else(of_terminal).filter(|&width| width > 0)
}

/// Breaks the long lines of a text between words, at [`line_width`]. Rows of tables stay as they are.
pub(crate) fn wrapped(text: &str) -> String {
    let Some(width) = line_width() else { return text.to_owned() };
    let fitted = |line: &str| if line.starts_with('|') { line.to_owned() } else { wrapped_line(line, width) };
    text.split('\n').map(fitted).collect::<Vec<_>>().join("\n")
}

/// A line's parts begin under its first word.
fn wrapped_line(line: &str, width: usize) -> String {
    let words = line.trim_start_matches(' ');
    let indent = line.len() - words.len();
    let (mut broken, mut used) = (" ".repeat(indent), indent);
    let mut is_first = true;
    for word in words.split(' ') {
        let length = word.chars().count();
        if used > indent && used + 1 + length > width {
            broken.push('\n');
            broken.push_str(&" ".repeat(indent));
            used = indent;
        } else if !is_first {
            broken.push(' ');
            used += 1;
        }
        is_first = false;
        broken.push_str(word);
        used += length;
    }
    broken
}

/// Writes a text to standard output, as [`wrapped`].
pub(crate) fn paragraph(text: &str) {
    line(&wrapped(text));
}

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
