//! Errors of building, opening and verifying a corpus.

use std::{io, path::PathBuf};

use arrow::error::ArrowError;

/// Errors of opening or verifying a corpus.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// The folder has no `corpus.json`.
    #[error("{} is not a corpus: it has no corpus.json", path.display())]
    NotACorpus {
        /// The folder.
        path: PathBuf,
    },
    /// A file of the corpus does not exist.
    #[error("{} is missing: the corpus is incomplete and must be built again", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The system refused to open, read or map a file.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// `corpus.json` cannot be parsed.
    #[error("{} is not a description of a corpus", path.display())]
    Info {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        #[source]
        source: serde_json::Error,
    },
    /// The corpus was written in another format version.
    #[error(
        "{} has format version {found}, this program reads version {supported}: build the corpus again",
        path.display()
    )]
    Version {
        /// The file with the version.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The supported version.
        supported: u64,
    },
    /// A file's length has changed since it was written.
    #[error("{} has {found} bytes and was written with {expected}: it is truncated or was overwritten", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes when it was written.
        expected: u64,
        /// Bytes now.
        found: u64,
    },
    /// A file's content contradicts itself.
    #[error("{} is damaged: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        detail: String,
    },
    /// Arrow could not read a file.
    #[error("{} is damaged", path.display())]
    Arrow {
        /// The file.
        path: PathBuf,
        /// Arrow's error.
        #[source]
        source: ArrowError,
    },
    /// The content's digest differs from the stated one.
    #[error("{} has digest {found}, corpus.json states {expected}", path.display())]
    Digest {
        /// The file, or the folder for the digest of the content.
        path: PathBuf,
        /// The stated digest.
        expected: String,
        /// The digest of the present content.
        found: String,
    },
}

/// Errors of building a corpus. Positions count the passages handed in, from 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The corpus's place is occupied.
    #[error("{} exists already", path.display())]
    Exists {
        /// The place.
        path: PathBuf,
    },
    /// The system refused to write.
    #[error("cannot write {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Arrow could not write a file.
    #[error("cannot write {}", path.display())]
    Arrow {
        /// The file.
        path: PathBuf,
        /// Arrow's error.
        #[source]
        source: ArrowError,
    },
    /// A setting has a forbidden value.
    #[error("{setting} is {found}, allowed is {allowed}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        found: u64,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A field is longer than the format holds.
    #[error("passage {position}: {field} has {found} {unit}, at most {allowed} fit")]
    TooLong {
        /// The passage's position.
        position: u64,
        /// The field.
        field: &'static str,
        /// Its length.
        found: usize,
        /// Unit of the length.
        unit: &'static str,
        /// The maximum length.
        allowed: usize,
    },
    /// There are more passages than the format holds.
    #[error("there are more than {allowed} passages")]
    TooMany {
        /// The maximum number.
        allowed: u32,
    },
    /// The ends of sentences do not partition the text.
    #[error(
        "passage {position}: sentence {sentence} ends at byte {end}; ends must not decrease, lie between characters, \
         and the last must be the text's length {text_bytes}"
    )]
    Sentence {
        /// The passage's position.
        position: u64,
        /// The sentence, counted from 0.
        sentence: usize,
        /// Its stated end.
        end: u32,
        /// Length of the text in bytes.
        text_bytes: usize,
    },
    /// The anchor of a hyperlink is not a part of the text.
    #[error(
        "passage {position}: link {link} spans bytes {start} to {end}, which is no part of a text of {text_bytes} bytes"
    )]
    Link {
        /// The passage's position.
        position: u64,
        /// The link, counted from 0.
        link: usize,
        /// Its stated start.
        start: u32,
        /// Its stated end.
        end: u32,
        /// Length of the text in bytes.
        text_bytes: usize,
    },
    /// Two different passages have one external id.
    #[error("passages {first} and {second} both have the id {id:?}")]
    DuplicateId {
        /// The id.
        id: String,
        /// Position of the first.
        first: u64,
        /// Position of the second.
        second: u64,
    },
    /// Two passages have the same title and text, and the settings forbid it.
    #[error("passages {first} and {second} have the same title {title:?} and the same text")]
    DuplicatePassage {
        /// The title.
        title: String,
        /// Position of the first.
        first: u64,
        /// Position of the second.
        second: u64,
    },
    /// The new corpus cannot be read back.
    #[error("the new corpus cannot be read back")]
    ReadBack {
        /// The reason.
        #[from]
        source: CorpusError,
    },
}

impl BuildError {
    /// Wraps the system's error about `path`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Wraps Arrow's error about `path`; a system error inside it becomes [`BuildError::Io`].
    pub(crate) fn arrow(path: impl Into<PathBuf>) -> impl FnOnce(ArrowError) -> Self {
        let path = path.into();
        move |source| match source {
            ArrowError::IoError(_, source) => Self::Io { path, source },
            source => Self::Arrow { path, source },
        }
    }
}
