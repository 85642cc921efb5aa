//! What can go wrong when an index is built or opened.

use std::{io, path::PathBuf};

/// Why an index could not be built, opened or verified.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The operating system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file it was done to.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The file does not begin as index files do.
    #[error("{} is not a hopeval index\nhint: delete the file and build it again", path.display())]
    NotAnIndex {
        /// The file.
        path: PathBuf,
    },
    /// Another version of the program wrote the file.
    #[error("{} has index format {found}, this program reads format {supported}\nhint: delete the file and build it again", path.display())]
    ForeignVersion {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format that this build reads and writes.
        supported: u32,
    },
    /// The file is shorter or longer than its header says.
    #[error("{} has {found} bytes where its header says {expected}\nhint: delete the file and build it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// A checksum or an invariant of the format does not hold.
    #[error("{} is corrupt: {what}\nhint: delete the file and build it again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What does not hold.
        what: String,
    },
    /// The index was built from other passages or for other settings.
    #[error("{} was built for {what} {found}, not for {wanted}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// `corpus`, or the name of the setting.
        what: &'static str,
        /// What the file says.
        found: String,
        /// What the caller wants.
        wanted: String,
    },
    /// A parameter is out of its range.
    #[error("{field} is {value}; allowed: {allowed}")]
    Parameter {
        /// The parameter's name as in settings files.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The passages exceed what the format can hold.
    #[error("the corpus has more {what} than an index holds ({limit})")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The most there may be.
        limit: u64,
    },
    /// A vector that inner products cannot be computed with.
    #[error("{owner} cannot be used: {what}")]
    Vector {
        /// Whose it is: `the vector of passage 17` (counted from 0) or `the query's vector`.
        owner: String,
        /// What is wrong with it, and what is allowed.
        what: String,
    },
    /// A dense index got more or fewer vectors than its corpus has passages.
    #[error("there are {found} vectors for {wanted} passages")]
    Count {
        /// Vectors so far.
        found: u64,
        /// The passages.
        wanted: u32,
    },
}
