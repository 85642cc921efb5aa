//! A dataset's questions, streamed from its files, with a policy for wrong rows.
//!
//! Rows are numbered over all files. Memory holds one row, a hash of every seen id, and BEIR's judgements.

mod seen_ids;
mod unread_fields;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{DatasetError, RecordPosition, RowError};
use crate::format::{FormatError, detect_format, find_contradiction};
use crate::formats::Format;
use crate::formats::{beir, open};
use crate::input::{Compression, InputError};
use crate::question::Question;
use crate::records::{RecordLayout, RecordReader};
use crate::table::{DelimitedReader, TableRow};
use crate::value::{FieldResult, JsonValue};
use seen_ids::SeenIds;
use unread_fields::UnreadFields;

/// The location and format of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetSpec {
    /// The format; detected from the first file's first row if absent.
    pub format: Option<Format>,
    /// Its files, read in this order as one dataset. For BEIR: a folder, or queries and judgements.
    pub paths: Vec<PathBuf>,
    /// The largest number of questions to return.
    pub limit: Option<u64>,
}

impl DatasetSpec {
    /// The dataset in one file. The format is detected from the content.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { format: None, paths: vec![path.into()], limit: None }
    }
}

/// A row that was set aside.
#[derive(Clone, Debug)]
pub struct QuarantinedRow {
    /// The problem and its position.
    pub error: RowError,
    /// The row as written in its file. Bytes that are not UTF-8 are replaced.
    pub raw: String,
}

/// The treatment of wrong rows. A file that cannot be read to its end is an error under both policies.
pub enum RowPolicy {
    /// The first wrong row is an error.
    Strict,
    /// Wrong rows are passed to this function, and reading continues.
    Quarantine(Box<dyn FnMut(QuarantinedRow) + Send>),
}

impl fmt::Debug for RowPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strict => "Strict",
            Self::Quarantine(_) => "Quarantine(..)",
        })
    }
}

/// Applies a policy and counts.
pub(crate) struct Refusals {
    policy: RowPolicy,
    count: u64,
}

impl Refusals {
    pub(crate) fn new(policy: RowPolicy) -> Self {
        Self { policy, count: 0 }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn refuse_row(&mut self, error: RowError, raw: impl FnOnce() -> String) -> Result<(), DatasetError> {
        match &mut self.policy {
            RowPolicy::Strict => Err(error.into()),
            RowPolicy::Quarantine(set_aside) => {
                self.count += 1;
                set_aside(QuarantinedRow { error, raw: raw() });
                Ok(())
            }
        }
    }
}

/// The questions of a dataset. Ends after the first error.
pub struct Questions {
    format: Format,
    contradiction: Option<Format>,
    files: VecDeque<PathBuf>,
    source: Option<QuestionSource>,
    qrels: Option<beir::Qrels>,
    refusals: Refusals,
    seen: SeenIds,
    unread: UnreadFields,
    /// Questions of the last row that were not returned yet.
    pending: VecDeque<Question>,
    /// Rows read, including wrong ones.
    rows: u64,
    left: u64,
    /// Bytes of the finished files.
    bytes: u64,
    /// The position of the last row.
    place: Option<(PathBuf, RecordPosition)>,
    done: bool,
}

enum QuestionSource {
    Json(RecordReader),
    /// With the function for reading a row.
    Table(DelimitedReader, fn(&TableRow, u64) -> FieldResult<Question>),
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").field("format", &self.format).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Questions {
    /// Opens the dataset's first file and detects its format if the specification does not name one.
    ///
    /// # Errors
    /// A file cannot be read, its format is unknown or not the named one, or a judgement is wrong.
    pub fn open(spec: &DatasetSpec, policy: RowPolicy) -> Result<Self, DatasetError> {
        Self::with_refusals(spec, Refusals::new(policy))
    }

    /// Continues with the policy and the count of another reader.
    pub(crate) fn with_refusals(spec: &DatasetSpec, mut refusals: Refusals) -> Result<Self, DatasetError> {
        let first = spec.paths.first().ok_or(FormatError::NoFiles)?;
        let (format, contradiction) = match spec.format {
            Some(format) => (format, find_contradiction(format, first)),
            None => (detect_format(first)?, None),
        };
        let mut files: VecDeque<PathBuf> = spec.paths.iter().cloned().collect();
        let mut qrels = None;
        if format == Format::Beir {
            let (queries, judgements) = beir::locate_files(&spec.paths)?;
            if let Some(path) = judgements {
                let mut refuse = |error, raw| refusals.refuse_row(error, || raw);
                qrels = Some(beir::Qrels::read(&path, &mut refuse)?);
            }
            files = VecDeque::from([queries]);
        }
        let mut questions = Self {
            format,
            contradiction,
            files,
            source: None,
            qrels,
            refusals,
            seen: SeenIds::default(),
            unread: UnreadFields::default(),
            pending: VecDeque::new(),
            rows: 0,
            left: spec.limit.unwrap_or(u64::MAX),
            bytes: 0,
            place: None,
            done: false,
        };
        questions.next_file()?;
        Ok(questions)
    }

    pub(crate) fn into_refusals(self) -> Refusals {
        self.refusals
    }

    /// The format, as named or detected.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The format that the first row is of, if it is not of the named one.
    pub fn contradiction(&self) -> Option<Format> {
        self.contradiction
    }

    /// The fields that were in rows read so far and were not looked at, each with the number of these rows.
    pub fn unread_fields(&self) -> &BTreeMap<String, u64> {
        self.unread.by_name()
    }

    /// The file and position of the last question's row.
    pub fn row_position(&self) -> Option<(&Path, RecordPosition)> {
        self.place.as_ref().map(|(path, position)| (path.as_path(), *position))
    }

    /// Rows set aside so far.
    pub fn quarantined(&self) -> u64 {
        self.refusals.count()
    }

    /// Rows read so far, including wrong ones. An IIRC row has several questions.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Uncompressed bytes read so far, including those read ahead.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.source.as_ref().map_or(0, QuestionSource::bytes)
    }

    /// The layout of the current file's records; `None` for a table.
    pub(crate) fn layout(&self) -> Option<RecordLayout> {
        match &self.source {
            Some(QuestionSource::Json(records)) => Some(records.layout()),
            _ => None,
        }
    }

    /// The compression of the current file.
    pub(crate) fn compression(&self) -> Compression {
        match &self.source {
            Some(QuestionSource::Json(records)) => records.compression(),
            Some(QuestionSource::Table(table, _)) => table.compression(),
            None => Compression::None,
        }
    }

    /// Opens the next file. False after the last one.
    fn next_file(&mut self) -> Result<bool, DatasetError> {
        self.bytes = self.bytes();
        self.source = None;
        let Some(path) = self.files.pop_front() else { return Ok(false) };
        self.source = Some(match RecordReader::open(&path) {
            Ok(records) => QuestionSource::Json(records),
            Err(foreign @ InputError::Foreign { .. }) => match self.format.entry().read_table {
                Some(read) => QuestionSource::Table(DelimitedReader::open(&path)?, read),
                None => return Err(foreign.into()),
            },
            Err(error) => return Err(error.into()),
        });
        self.seen.next_file(&path);
        Ok(true)
    }

    /// Reads the next row into `pending`. False at the end.
    fn next_row(&mut self) -> Result<bool, DatasetError> {
        loop {
            let Some(source) = &mut self.source else { return Ok(false) };
            let n = self.rows;
            let taken = match source {
                QuestionSource::Json(records) => {
                    let path = records.path().to_owned();
                    records.next()?.map(|record| {
                        self.place = Some((path.clone(), record.position));
                        let read = JsonValue::parse(record.bytes).and_then(|row| {
                            let questions = (self.format.entry().read)(&row, n)?;
                            self.unread.count_fields(row.unread_fields());
                            Ok(questions)
                        });
                        let error = self.seen.accept_row(read, self.qrels.as_mut(), record.position, &mut self.pending);
                        error.map(|error| {
                            self.refusals.refuse_row(error.in_row(&path, record.position), || {
                                String::from_utf8_lossy(record.bytes).into_owned()
                            })
                        })
                    })
                }
                QuestionSource::Table(table, read) => {
                    let mut row = table.next()?;
                    if row.as_ref().is_some_and(|row| row.position.record == 1 && open::is_header(row)) {
                        row = table.next()?;
                    }
                    row.map(|row| {
                        self.place = Some((table.path().to_owned(), row.position));
                        let read = (*read)(&row, n).map(|question| vec![question]);
                        let error = self.seen.accept_row(read, None, row.position, &mut self.pending);
                        error.map(|error| {
                            self.refusals.refuse_row(error.in_row(table.path(), row.position), || table.raw_text(&row))
                        })
                    })
                }
            };
            match taken {
                Some(refused) => {
                    self.rows += 1;
                    refused.unwrap_or(Ok(()))?;
                    if !self.pending.is_empty() {
                        return Ok(true);
                    }
                }
                None => {
                    source.must_have_rows()?;
                    if !self.next_file()? {
                        self.refuse_unused_judgements()?;
                        return Ok(false);
                    }
                }
            }
        }
    }

    fn refuse_unused_judgements(&mut self) -> Result<(), DatasetError> {
        for error in self.qrels.take().iter().flat_map(beir::Qrels::unused_judgements) {
            self.refusals.refuse_row(error, String::new)?;
        }
        Ok(())
    }
}

impl QuestionSource {
    fn bytes(&self) -> u64 {
        match self {
            Self::Json(records) => records.bytes(),
            Self::Table(table, _) => table.bytes(),
        }
    }

    fn must_have_rows(&self) -> Result<(), InputError> {
        match self {
            Self::Json(records) if records.count() == 0 => Err(InputError::Empty { path: records.path().to_owned() }),
            Self::Table(table, _) if table.bytes() == 0 => Err(InputError::Empty { path: table.path().to_owned() }),
            _ => Ok(()),
        }
    }
}

impl Iterator for Questions {
    type Item = Result<Question, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || self.left == 0 {
            return None;
        }
        if self.pending.is_empty() {
            match self.next_row() {
                Ok(true) => {}
                Ok(false) => {
                    self.done = true;
                    return None;
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        self.left -= 1;
        self.pending.pop_front().map(Ok)
    }
}
