//! Finds a dataset's format by its name or by a file's first row. The formats are in `formats.rs`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::dataset_error::DatasetError;
use crate::formats::Format;
use crate::formats::{beir, open};
use crate::gold::GoldMatch;
use crate::input::InputError;
use crate::rows::RowReader;
use crate::scoring::ScoringScript;
use crate::table::DelimitedReader;
use crate::value::JsonValue;

/// Rows tried until one parses, to detect the format from the content.
const ROWS_TRIED: usize = 100;

impl Format {
    /// The rule that makes a passage gold in datasets of this format, unless a job sets another.
    pub fn default_gold(self) -> GoldMatch {
        self.entry().gold
    }

    /// The script whose rules score answers to questions of this format, unless a job sets another.
    pub fn default_scoring(self) -> ScoringScript {
        self.entry().scoring
    }

    /// Whether gold passages can have grades above 1.
    pub fn has_grades(self) -> bool {
        matches!(self, Self::Beir | Self::World | Self::Fields)
    }

    /// The format of a file with this first row, or `None` if no format recognises it.
    pub(crate) fn of_row(row: &JsonValue<'_>, path: &Path) -> Option<Self> {
        let claims = Self::ALL.into_iter().filter(|format| (format.entry().recognises)(row, path));
        claims.min_by_key(|format| format.entry().asked)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| FormatError::Name { found: name.to_owned() })
    }
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// Why a dataset's format is unknown.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// There is no format of that name.
    #[error("unknown dataset format {found:?}; allowed: {}", names())]
    Name {
        /// The name.
        found: String,
    },
    /// No format recognises the first row.
    #[error(
        "{}: cannot tell the dataset's format from {found}; allowed: rows of {}\n\
         hint: [dataset.fields] in a job, or --field NAME=PATH, maps other names",
        path.display(),
        names()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// A description of its first row.
        found: String,
    },
    /// A mapping of fields that contradicts itself.
    #[error("the mapping of fields has {found}; allowed: {allowed}")]
    Mapping {
        /// The contradiction.
        found: String,
        /// The allowed fields.
        allowed: &'static str,
    },
    /// A mapping beside a format that has its own names.
    #[error("a mapping of fields beside the format {format}; allowed: the format `fields`, or no mapping")]
    MappedFormat {
        /// The format.
        format: String,
    },
    /// A mapped field that no row has.
    #[error(
        "{}: field `{path}`: none of {rows} rows has it, and the mapping reads `{name}` from it; allowed: fields of \
         the rows, such as {fields}",
        file.display()
    )]
    NotFound {
        /// The first file.
        file: PathBuf,
        /// hopeval's name.
        name: String,
        /// The path in the file.
        path: String,
        /// Rows read.
        rows: u64,
        /// The fields of the first row.
        fields: String,
    },
    /// No field of a file has a usual name of the field that every row needs.
    #[error(
        "{}: none of its fields can be the {wanted}: it has {fields}; allowed: fields of texts with a usual name, such \
         as {usual}, or a mapping that names the field",
        path.display()
    )]
    Unguessed {
        /// The file.
        path: PathBuf,
        /// The needed field.
        wanted: &'static str,
        /// The fields of the first rows.
        fields: String,
        /// Usual names of the needed field.
        usual: String,
    },
    /// A dataset without files.
    #[error("a dataset needs at least one file; allowed: a list of files, or a BEIR folder")]
    NoFiles,
    /// A folder or a list of files that is not a BEIR dataset.
    #[error("{}: {found}; allowed: {}", path.display(), beir::ALLOWED)]
    Beir {
        /// The folder or file.
        path: PathBuf,
        /// The problem.
        found: String,
    },
}

/// Detects a dataset's format from the first row of `path` (or from the names in a BEIR folder).
///
/// # Errors
/// The file cannot be read, or no format recognises it.
pub fn detect_format(path: &Path) -> Result<Format, DatasetError> {
    if path.is_dir() {
        beir::queries_in(path)?;
        return Ok(Format::Beir);
    }
    let mut rows = match RowReader::open(path) {
        Ok(rows) => rows,
        Err(foreign @ InputError::Foreign { .. }) => return detect_table(path, foreign),
        Err(error) => return Err(error.into()),
    };
    with_first_row(&mut rows, |row| {
        Format::of_row(row, path).ok_or_else(|| {
            let found = match row {
                JsonValue::Object(_) => {
                    let keys: Vec<&str> = row.field_names().collect();
                    format!("a row with the fields {}", keys.join(", "))
                }
                _ => row.describe(),
            };
            FormatError::Unknown { path: path.to_owned(), found }.into()
        })
    })?
}

/// The format that the first row of `path` is of, if it is not of the format `named`. Files that cannot be read have
/// none: their reader says so.
pub(crate) fn find_contradiction(named: Format, path: &Path) -> Option<Format> {
    // A mapping describes rows that may resemble those of another format.
    if named == Format::Fields {
        return None;
    }
    let mut rows = RowReader::open(path).ok()?;
    let other = |row: &JsonValue<'_>| {
        if (named.entry().recognises)(row, path) { None } else { Format::of_row(row, path) }
    };
    with_first_row(&mut rows, other).ok()?
}

/// Gives the first row that parses to `read`.
fn with_first_row<T>(rows: &mut RowReader, read: impl Fn(&JsonValue<'_>) -> T) -> Result<T, DatasetError> {
    let path = rows.path().to_owned();
    let mut broken = None;
    for _ in 0..ROWS_TRIED {
        let Some(row) = rows.next()? else { break };
        match row.read(|row| Ok(read(row))) {
            Ok(read) => return Ok(read),
            Err(error) => broken = broken.or(Some(error.in_row(&path, row.position))),
        }
    }
    match broken {
        Some(row) => Err(row.into()),
        None => Err(InputError::Empty { path }.into()),
    }
}

/// A table is a dataset if it has two columns, the second of which holds a list of answers.
fn detect_table(path: &Path, foreign: InputError) -> Result<Format, DatasetError> {
    let mut table = DelimitedReader::open(path)?;
    let Some(row) = table.next()? else { return Err(foreign.into()) };
    if !open::is_table_row(&row) {
        return Err(foreign.into());
    }
    Ok(if open::is_named_trivia(path) { Format::TriviaQa } else { Format::Nq })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_asked_one_after_another() {
        let mut asked = Format::ALL.map(|format| format.entry().asked);
        asked.sort_unstable();
        assert!(asked.is_sorted_by(|a, b| a < b), "{asked:?}: two formats with one number");
    }

    #[test]
    fn names_round_trip() {
        for format in Format::ALL {
            assert_eq!(format.name().parse::<Format>().unwrap(), format);
            assert_eq!(serde_json::to_string(&format).unwrap(), format!("\"{format}\""));
        }
    }
}
