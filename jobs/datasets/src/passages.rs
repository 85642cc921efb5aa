//! A corpus's passages, streamed from files of several formats.
//!
//! Passages come in the order of the files, with duplicates: the corpus decides which of them are one passage. Memory
//! holds one row.

mod abstracts;
mod anchors;
mod source;

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::dataset_error::DatasetError;
use crate::input::InputError;
use crate::mapping::{MappedPassages, PassageMapping};
use crate::passage::PassageRecord;
use crate::questions::{DatasetSpec, Questions, Refusals, RowPolicy};
use crate::rows::RowReader;
use crate::table::{DelimitedReader, TableRow};
use crate::value::{FieldResult, JsonValue};

pub use source::{PassageFormat, PassageFormatError, detect_passages};

/// The location and format of a corpus's passages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageSpec {
    /// The format; detected from the first file's first row if absent.
    pub format: Option<PassageFormat>,
    /// Files, read in this order, or folders: BEIR's, or one of the abstracts dump (its files in the order of their
    /// names).
    pub paths: Vec<PathBuf>,
    /// The names of a passage's fields in the files, for the format `fields`. A mapping means that format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<PassageMapping>,
}

impl PassageSpec {
    /// The passages of one file or folder. The format is detected from the content.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { paths: vec![path.into()], ..Self::default() }
    }
}

/// The passages of a corpus. Ends after the first error.
pub struct Passages {
    format: PassageFormat,
    files: VecDeque<PathBuf>,
    source: Option<PassageSource>,
    mapped: Option<MappedPassages>,
    /// Rows of finished files.
    rows: u64,
    first_file: PathBuf,
    /// `None` while `source` is a reader of questions, which applies the policy itself.
    refusals: Option<Refusals>,
    /// Passages of the last row that were not returned yet.
    pending: VecDeque<PassageRecord>,
    /// Uncompressed bytes of the finished files.
    bytes: u64,
    done: bool,
}

enum PassageSource {
    Rows(RowReader),
    Table { table: DelimitedReader, columns: [usize; 3] },
    Questions(Box<Questions>),
}

impl fmt::Debug for Passages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passages").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Passages {
    /// Opens the first file and detects its format if the specification does not name one.
    ///
    /// # Errors
    /// A file cannot be read, or its format is unknown.
    pub fn open(spec: &PassageSpec, policy: RowPolicy) -> Result<Self, DatasetError> {
        let first = spec.paths.first().ok_or(PassageFormatError::NoFiles)?;
        let format = match (spec.format, &spec.fields) {
            (None | Some(PassageFormat::Fields), Some(_)) => PassageFormat::Fields,
            (Some(format), Some(_)) => return Err(PassageFormatError::MappedFormat { format }.into()),
            (Some(format), None) => format,
            (None, None) => detect_passages(first)?,
        };
        let mapped = (format == PassageFormat::Fields).then(|| MappedPassages::new(spec.fields.as_ref()));
        let mut passages = Self {
            format,
            files: source::list_files(format, &spec.paths)?,
            source: None,
            mapped,
            rows: 0,
            first_file: first.clone(),
            refusals: Some(Refusals::new(policy)),
            pending: VecDeque::new(),
            bytes: 0,
            done: false,
        };
        passages.next_file()?;
        Ok(passages)
    }

    /// The format, as named or detected.
    pub fn format(&self) -> PassageFormat {
        self.format
    }

    /// Rows set aside so far.
    pub fn quarantined(&self) -> u64 {
        match (&self.refusals, &self.source) {
            (Some(refusals), _) => refusals.count(),
            (None, Some(PassageSource::Questions(questions))) => questions.quarantined(),
            (None, _) => 0,
        }
    }

    /// Uncompressed bytes read so far, including those read ahead.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.source.as_ref().map_or(0, PassageSource::bytes)
    }

    /// Opens the next file. False after the last one.
    fn next_file(&mut self) -> Result<bool, DatasetError> {
        self.bytes = self.bytes();
        self.source = None;
        let Some(path) = self.files.pop_front() else { return Ok(false) };
        self.source = Some(match self.format {
            PassageFormat::Dpr => {
                let table = DelimitedReader::open(&path)?;
                PassageSource::Table { table, columns: source::DPR_COLUMNS }
            }
            PassageFormat::Contexts => {
                let refusals = self.refusals.take().unwrap_or_else(|| Refusals::new(RowPolicy::Strict));
                PassageSource::Questions(Box::new(Questions::with_refusals(&DatasetSpec::file(path), refusals)?))
            }
            PassageFormat::Fields => PassageSource::Rows(RowReader::open_named(&path)?),
            _ => PassageSource::Rows(RowReader::open(&path)?),
        });
        Ok(true)
    }

    /// Reads the next row into `pending`. False at the end of the file.
    fn next_row(&mut self) -> Result<bool, DatasetError> {
        let (error, raw) = match &mut self.source {
            None => return Ok(false),
            Some(PassageSource::Questions(questions)) => match questions.next().transpose()? {
                Some(question) => {
                    self.pending.extend(question.candidates);
                    self.pending.extend(question.context);
                    return Ok(true);
                }
                None => return Ok(false),
            },
            Some(PassageSource::Rows(rows)) => {
                let path = rows.path().to_owned();
                let Some(row) = rows.next()? else { return Ok(false) };
                let read = row.read(|value| match &mut self.mapped {
                    Some(mapped) => mapped.read_passage(value),
                    None => read_passage(self.format, value),
                });
                match read {
                    Ok(passage) => {
                        self.pending.push_back(passage);
                        return Ok(true);
                    }
                    Err(error) => (error.in_row(&path, row.position), row.raw_text()),
                }
            }
            Some(PassageSource::Table { table, columns }) => {
                let Some(row) = table.next()? else { return Ok(false) };
                if row.position.record == 1
                    && let Some(named) = source::dpr_header(&row)
                {
                    *columns = named;
                    return Ok(true);
                }
                match table_passage(&row, *columns) {
                    Ok(passage) => {
                        self.pending.push_back(passage);
                        return Ok(true);
                    }
                    Err(error) => (error.in_row(table.path(), row.position), table.raw_text(&row)),
                }
            }
        };
        match &mut self.refusals {
            Some(refusals) => refusals.refuse_row(error, || raw).map(|()| true),
            None => Err(error.into()),
        }
    }

    fn next_passage(&mut self) -> Result<Option<PassageRecord>, DatasetError> {
        loop {
            if let Some(passage) = self.pending.pop_front() {
                return Ok(Some(passage));
            }
            if self.next_row()? {
                continue;
            }
            self.bytes = self.bytes();
            match self.source.take() {
                Some(PassageSource::Questions(questions)) => self.refusals = Some(questions.into_refusals()),
                // A dump has thousands of files, and one of them may be empty. A corpus of one file may not.
                Some(PassageSource::Rows(rows)) if rows.count() == 0 && self.format != PassageFormat::Abstracts => {
                    return Err(InputError::Empty { path: rows.path().to_owned() }.into());
                }
                Some(PassageSource::Rows(rows)) => self.rows += rows.count(),
                _ => {}
            }
            if !self.next_file()? {
                if let Some(mapped) = &self.mapped {
                    mapped.check_found(&self.first_file, self.rows)?;
                }
                return Ok(None);
            }
        }
    }
}

impl PassageSource {
    fn bytes(&self) -> u64 {
        match self {
            Self::Rows(rows) => rows.bytes(),
            Self::Table { table, .. } => table.bytes(),
            Self::Questions(questions) => questions.bytes(),
        }
    }
}

impl Iterator for Passages {
    type Item = Result<PassageRecord, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_passage().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

fn read_passage(format: PassageFormat, row: &JsonValue<'_>) -> FieldResult<PassageRecord> {
    match format {
        PassageFormat::Contents => read_contents(row),
        PassageFormat::Abstracts => abstracts::read_passage(row),
        _ => PassageRecord::read(row),
    }
}

/// Pyserini's `{id, contents}`: if `contents` has several lines, the first is the title, without the quotes around it.
fn read_contents(row: &JsonValue<'_>) -> FieldResult<PassageRecord> {
    let id = row.required("id", JsonValue::id)?;
    let (title, text) = row.required("contents", |contents| {
        let contents = contents.str()?;
        let (title, text) = contents.split_once('\n').unwrap_or(("", contents));
        let title = title.trim();
        let unquoted = title.strip_prefix('"').and_then(|title| title.strip_suffix('"')).unwrap_or(title);
        Ok((unquoted.to_owned(), text.to_owned()))
    })?;
    Ok(PassageRecord { id: Some(id), title, text, ..PassageRecord::default() })
}

fn table_passage(row: &TableRow, [id, text, title]: [usize; 3]) -> FieldResult<PassageRecord> {
    use crate::error::FieldError;
    if row.damaged {
        return Err(FieldError::new("bytes that are not UTF-8", "UTF-8"));
    }
    if row.fields.len() != 3 {
        return Err(FieldError::new(format!("{} columns", row.fields.len()), "3 columns: id, text, title"));
    }
    if row.fields[id].is_empty() {
        return Err(FieldError::new("an empty column", "a passage's id").under_key("id"));
    }
    Ok(PassageRecord {
        id: Some(row.fields[id].clone()),
        title: row.fields[title].clone(),
        text: row.fields[text].clone(),
        ..PassageRecord::default()
    })
}
