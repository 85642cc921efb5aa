//! The formats of passages: their names, their detection from a file's first row, and the files behind a path.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::dataset_error::DatasetError;
use crate::formats::Format;
use crate::input::InputError;
use crate::rows::RowReader;
use crate::table::{DelimitedReader, TableRow};
use crate::value::JsonValue;

/// The schema of a corpus's passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PassageFormat {
    /// JSON `{title, text}`, optionally with `id`, `sentences` and `links`: [`crate::PassageRecord`] itself.
    Titled,
    /// Pyserini's `{id, contents}`; the first of several lines is the title, its quotes dropped.
    Contents,
    /// BEIR's `corpus.jsonl`, `{_id, title, text}`, or its folder.
    Beir,
    /// DPR's tab-separated `id`, `text`, `title`, with or without that header.
    Dpr,
    /// The candidates of a dataset's questions (and IIRC's introductory paragraphs), from one or several splits.
    Contexts,
    /// The HotpotQA abstracts dump: folders of `wiki_NN.bz2`, one article's abstract on each line.
    Abstracts,
    /// Rows of one's own, whose names a mapping gives ([`crate::PassageMapping`]).
    Fields,
}

impl PassageFormat {
    /// All formats.
    pub const ALL: [Self; 7] =
        [Self::Titled, Self::Contents, Self::Beir, Self::Dpr, Self::Contexts, Self::Abstracts, Self::Fields];

    /// The name that jobs and the command line use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Titled => "titled",
            Self::Contents => "contents",
            Self::Beir => "beir",
            Self::Dpr => "dpr",
            Self::Contexts => "contexts",
            Self::Abstracts => "abstracts",
            Self::Fields => "fields",
        }
    }
}

impl fmt::Display for PassageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PassageFormat {
    type Err = PassageFormatError;

    fn from_str(name: &str) -> Result<Self, PassageFormatError> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| PassageFormatError::Name { found: name.to_owned() })
    }
}

fn names() -> String {
    PassageFormat::ALL.map(PassageFormat::name).join(", ")
}

/// Why a corpus's format is unknown.
#[derive(Debug, thiserror::Error)]
pub enum PassageFormatError {
    /// There is no format of that name.
    #[error("unknown passage format {found:?}; allowed: {}", names())]
    Name {
        /// The name.
        found: String,
    },
    /// No format recognises the first row.
    #[error(
        "{}: cannot tell the passages' format from {found}; allowed: rows of {}\n\
         hint: [corpus.fields] in a job, or --field NAME=PATH, maps other names",
        path.display(),
        names()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// A description of its first row.
        found: String,
    },
    /// A mapping beside a format that has its own names.
    #[error("a mapping of fields beside the format {format}; allowed: the format `fields`, or no mapping")]
    MappedFormat {
        /// The format.
        format: PassageFormat,
    },
    /// A corpus without files.
    #[error("a corpus needs at least one file; allowed: files, or a folder")]
    NoFiles,
    /// A folder without passages.
    #[error(
        "{}: no passages in this folder; allowed: a folder with corpus.jsonl (BEIR), \
         or with files wiki_* in it or below",
        path.display()
    )]
    Folder {
        /// The folder.
        path: PathBuf,
    },
}

/// Columns of id, text and title in a DPR table.
pub(super) const DPR_COLUMNS: [usize; 3] = [0, 1, 2];

/// The columns of id, text and title named by a table's header.
pub(super) fn dpr_header(row: &TableRow) -> Option<[usize; 3]> {
    let column = |name| row.fields.iter().position(|field| field.eq_ignore_ascii_case(name));
    if row.fields.len() != 3 { None } else { Some([column("id")?, column("text")?, column("title")?]) }
}

/// Detects the format of the passages in `path` from its first row, or from the names in a folder.
///
/// # Errors
/// The file cannot be read, or no format recognises it.
pub fn detect_passages(path: &Path) -> Result<PassageFormat, DatasetError> {
    if path.is_dir() {
        return Ok(if beir_corpus(path).is_some() { PassageFormat::Beir } else { PassageFormat::Abstracts });
    }
    let mut rows = match RowReader::open(path) {
        Ok(rows) => rows,
        Err(foreign @ InputError::Foreign { .. }) => {
            let is_dpr = |row: TableRow| row.fields.len() == 3;
            return if DelimitedReader::open(path)?.next()?.is_some_and(is_dpr) {
                Ok(PassageFormat::Dpr)
            } else {
                Err(foreign.into())
            };
        }
        Err(error) => return Err(error.into()),
    };
    let Some(row) = rows.next()? else { return Err(InputError::Empty { path: path.to_owned() }.into()) };
    row.read(|row| Ok(format_of_row(row, path))).map_err(|error| error.in_row(path, row.position))?
}

fn format_of_row(row: &JsonValue<'_>, path: &Path) -> Result<PassageFormat, DatasetError> {
    let format = match row.get("text") {
        Some(JsonValue::List(_)) => Some(PassageFormat::Abstracts),
        _ if row.has("contents") => Some(PassageFormat::Contents),
        _ if Format::of_row(row, path).is_some_and(|format| format != Format::Beir) => Some(PassageFormat::Contexts),
        Some(_) if row.has("_id") => Some(PassageFormat::Beir),
        Some(_) => Some(PassageFormat::Titled),
        None => None,
    };
    format.ok_or_else(|| {
        let found = match row {
            JsonValue::Object(_) => {
                format!("a row with the fields {}", row.field_names().collect::<Vec<_>>().join(", "))
            }
            _ => row.describe(),
        };
        PassageFormatError::Unknown { path: path.to_owned(), found }.into()
    })
}

fn beir_corpus(folder: &Path) -> Option<PathBuf> {
    let names = ["corpus.jsonl", "corpus.jsonl.gz", "corpus.jsonl.zst", "corpus.jsonl.bz2"];
    names.into_iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// The files behind `paths`, in order.
pub(super) fn list_files(format: PassageFormat, paths: &[PathBuf]) -> Result<VecDeque<PathBuf>, DatasetError> {
    let mut files = VecDeque::new();
    for path in paths {
        match format {
            PassageFormat::Beir if path.is_dir() => {
                let corpus = beir_corpus(path).ok_or_else(|| PassageFormatError::Folder { path: path.clone() })?;
                files.push_back(corpus);
            }
            PassageFormat::Abstracts if path.is_dir() => {
                let before = files.len();
                dump_files(path, &mut files)?;
                if files.len() == before {
                    return Err(PassageFormatError::Folder { path: path.clone() }.into());
                }
            }
            _ => files.push_back(path.clone()),
        }
    }
    Ok(files)
}

/// Appends the dump's files in and below `folder`, sorted by name within each folder.
fn dump_files(folder: &Path, files: &mut VecDeque<PathBuf>) -> Result<(), InputError> {
    let cannot_open = |source| InputError::Open { path: folder.to_owned(), source };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot_open)? {
        entries.push(entry.map_err(cannot_open)?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            dump_files(&path, files)?;
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wiki_")) {
            files.push_back(path);
        }
    }
    Ok(())
}
