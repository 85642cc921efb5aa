//! Errors of reading rules and of cutting texts.

use std::io;
use std::path::PathBuf;

/// The greatest size of a file of rules, in bytes. spaCy's own are below 1 MiB; with a vocabulary's vectors they are
/// larger.
pub const MOST_BYTES: u64 = 64 << 20;

/// The most steps back that a pattern takes on one chunk of a text.
pub const MOST_STEPS: usize = 5_000_000;

/// A file of rules cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WordRulesError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is too large.
    #[error(
        "{}: more than {MOST_BYTES} bytes; allowed: the rules alone, which spaCy writes with \
         `nlp.tokenizer.to_disk(FILE, exclude=[\"vocab\"])`",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is none that spaCy's tokenizer writes.
    #[error("{}: `{key}`: {found}; allowed: {allowed}", path.display())]
    Contents {
        /// The file.
        path: PathBuf,
        /// The key of the file's table, or `file` for the whole.
        key: String,
        /// The mistake.
        found: String,
        /// The allowed value.
        allowed: &'static str,
    },
    /// A pattern cannot be compiled.
    #[error(
        "{}: `{key}`, character {position}: {reason}; allowed: patterns of Python's `re`, without named characters, \
         repeated assertions, and the flags `a` and `L`",
        path.display()
    )]
    Pattern {
        /// The file.
        path: PathBuf,
        /// The key of the file's table.
        key: &'static str,
        /// The place in the pattern, in characters from 0; of an error that the compiler of patterns found, the
        /// beginning of the alternative that has it.
        position: usize,
        /// The mistake.
        reason: String,
    },
    /// A special case takes too long to cut.
    #[error("{}: `exceptions`", path.display())]
    SpecialCase {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: WordCutError,
    },
}

/// A text cannot be cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WordCutError {
    /// A pattern takes more than [`MOST_STEPS`] steps, or more memory than its engine allows.
    #[error("the word rules' pattern `{key}` gives up on {chunk:?} after {MOST_STEPS} steps: {reason}")]
    GaveUp {
        /// The pattern's key in the file.
        key: &'static str,
        /// The beginning of the chunk.
        chunk: String,
        /// The engine's message.
        reason: String,
    },
}
