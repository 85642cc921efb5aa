//! Errors of building and opening an index.

use std::{io, path::PathBuf};

/// Errors of building, opening and verifying an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The operating system reported an error.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file concerned.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file lacks the magic bytes of an index file.
    #[error("{} is not a hopeval index\nhint: delete the file and build it again", path.display())]
    NotAnIndex {
        /// The file.
        path: PathBuf,
    },
    /// Another version of the program wrote the file.
    #[error(
        "{} has index format {found}, this program reads format {supported}\n\
         hint: delete the file and build it again",
        path.display()
    )]
    ForeignVersion {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format of this build.
        supported: u32,
    },
    /// The file is shorter or longer than stated in its header.
    #[error(
        "{} has {found} bytes where its header says {expected}\nhint: delete the file and build it again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Stated length in bytes.
        expected: u64,
        /// Actual length in bytes.
        found: u64,
    },
    /// A checksum or an invariant of the format does not hold.
    #[error("{} is corrupt: {what}\nhint: delete the file and build it again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The broken invariant.
        what: String,
    },
    /// The index was built from other passages or for other settings.
    #[error("{} was built for {what} {found}, not for {wanted}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// `corpus`, or the name of the setting.
        what: &'static str,
        /// The file's value.
        found: String,
        /// The caller's value.
        wanted: String,
    },
    /// A parameter is out of its range.
    #[error("{field} is {value}; allowed: {allowed}")]
    Parameter {
        /// The parameter's name as in settings files.
        field: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The passages exceed the capacity of the format.
    #[error("the corpus has more {what} than an index holds ({limit})")]
    TooLarge {
        /// The kind of thing of which there are too many.
        what: &'static str,
        /// Maximum number.
        limit: u64,
    },
    /// A vector unfit for inner products.
    #[error("{owner} cannot be used: {what}")]
    Vector {
        /// The vector's owner: `the vector of passage 17` (counted from 0) or `the query's vector`.
        owner: String,
        /// The defect, and the allowed values.
        what: String,
    },
    /// A dense index got more or fewer vectors than its corpus has passages.
    #[error("there are {found} vectors for {wanted} passages")]
    Count {
        /// The number of vectors so far.
        found: u64,
        /// The number of passages.
        wanted: u32,
    },
}
