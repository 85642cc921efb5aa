//! A dataset's questions, streamed from its files, with a policy for wrong rows.
//!
//! Rows are numbered over all files. Memory holds one row, a hash of every seen id, BEIR's judgements, and a hash of
//! the paragraphs of every question of MuSiQue's test sets.

mod seen_ids;
mod unlabelled_pairs;
mod unread_fields;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::dataset_error::DatasetError;
use crate::error::{RecordPosition, RowError};
use crate::format::{FormatError, detect_format, find_contradiction};
use crate::formats::Format;
use crate::formats::{beir, open};
use crate::input::{Compression, InputError};
use crate::mapping::{FieldMapping, MappedQuestions};
use crate::question::Question;
use crate::records::RecordLayout;
use crate::rows::RowReader;
use crate::table::{DelimitedReader, TableRow};
use crate::value::FieldResult;
use seen_ids::SeenIds;
use unlabelled_pairs::UnlabelledPairs;
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
    /// The names of hopeval's fields in the files, for the format `fields`. A mapping means that format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<FieldMapping>,
}

impl DatasetSpec {
    /// The dataset in one file. The format is detected from the content.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { paths: vec![path.into()], ..Self::default() }
    }

    /// The format: named, meant by a mapping, or detected from the first file.
    ///
    /// # Errors
    /// There is no file; it cannot be read; no format recognises it; a mapping beside another format.
    pub fn find_format(&self) -> Result<Format, DatasetError> {
        let first = self.paths.first().ok_or(FormatError::NoFiles)?;
        match (self.format, &self.fields) {
            (None | Some(Format::Fields), Some(_)) => Ok(Format::Fields),
            (Some(format), Some(_)) => Err(FormatError::MappedFormat { format: format.to_string() }.into()),
            (Some(format), None) => Ok(format),
            (None, None) => detect_format(first),
        }
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
    first_file: Option<PathBuf>,
    source: Option<QuestionSource>,
    qrels: Option<beir::Qrels>,
    mapped: Option<MappedQuestions>,
    /// For MuSiQue.
    pairs: Option<UnlabelledPairs>,
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
    Rows(RowReader),
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
        let format = spec.find_format()?;
        let contradiction = spec.format.and_then(|named| find_contradiction(named, first));
        if let Some(fields) = &spec.fields {
            fields.check()?;
        }
        let mapped = (format == Format::Fields).then(|| MappedQuestions::new(spec.fields.as_ref()));
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
            first_file: None,
            source: None,
            qrels,
            mapped,
            pairs: (format == Format::Musique).then(UnlabelledPairs::default),
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

    /// Refuses a mapped field that no row had so far. A reader that ends by itself, after the last row or at its limit,
    /// has asked this.
    ///
    /// # Errors
    /// [`FormatError::NotFound`] names the field.
    pub fn check_mapping(&self) -> Result<(), DatasetError> {
        match (&self.mapped, &self.first_file) {
            (Some(mapped), Some(file)) => Ok(mapped.check_found(file, self.rows)?),
            _ => Ok(()),
        }
    }

    /// The layout of the current file's records; `None` for a table.
    pub(crate) fn layout(&self) -> Option<RecordLayout> {
        match &self.source {
            Some(QuestionSource::Rows(rows)) => rows.layout(),
            _ => None,
        }
    }

    /// Whether the current file is a Parquet file.
    pub(crate) fn is_parquet(&self) -> bool {
        matches!(&self.source, Some(QuestionSource::Rows(RowReader::Parquet(_))))
    }

    /// The compression of the current file.
    pub(crate) fn compression(&self) -> Compression {
        match &self.source {
            Some(QuestionSource::Rows(rows)) => rows.compression(),
            Some(QuestionSource::Table(table, _)) => table.compression(),
            None => Compression::None,
        }
    }

    /// Opens the next file. False after the last one.
    fn next_file(&mut self) -> Result<bool, DatasetError> {
        self.bytes = self.bytes();
        self.source = None;
        let Some(path) = self.files.pop_front() else { return Ok(false) };
        self.source = Some(if self.mapped.is_some() {
            QuestionSource::Rows(RowReader::open_named(&path)?)
        } else {
            match (RowReader::open(&path), self.format.entry().read_table) {
                (Ok(rows), _) => QuestionSource::Rows(rows),
                (Err(InputError::Foreign { .. }), Some(read)) => {
                    QuestionSource::Table(DelimitedReader::open(&path)?, read)
                }
                (Err(error), _) => return Err(error.into()),
            }
        });
        self.first_file.get_or_insert_with(|| path.clone());
        self.seen.next_file(&path);
        Ok(true)
    }

    /// Reads the next row into `pending`. False at the end.
    fn next_row(&mut self) -> Result<bool, DatasetError> {
        loop {
            let Some(source) = &mut self.source else { return Ok(false) };
            let n = self.rows;
            let taken = match source {
                QuestionSource::Rows(rows) => {
                    let path = rows.path().to_owned();
                    rows.next()?.map(|row| {
                        self.place = Some((path.clone(), row.position));
                        let read = row.read(|value| {
                            let mut questions = match &mut self.mapped {
                                Some(mapped) => vec![mapped.read_question(value, n)?],
                                None => (self.format.entry().read)(value, n)?,
                            };
                            if let Some(pairs) = &mut self.pairs {
                                questions.iter_mut().for_each(|question| pairs.mark_second(question));
                            }
                            self.unread.count_fields(value.unread_fields());
                            Ok(questions)
                        });
                        let error = self.seen.accept_row(read, self.qrels.as_mut(), row.position, &mut self.pending);
                        error
                            .map(|error| self.refusals.refuse_row(error.in_row(&path, row.position), || row.raw_text()))
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
                        self.check_mapping()?;
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
            Self::Rows(rows) => rows.bytes(),
            Self::Table(table, _) => table.bytes(),
        }
    }

    fn must_have_rows(&self) -> Result<(), InputError> {
        match self {
            Self::Rows(rows) if rows.count() == 0 => Err(InputError::Empty { path: rows.path().to_owned() }),
            Self::Table(table, _) if table.bytes() == 0 => Err(InputError::Empty { path: table.path().to_owned() }),
            _ => Ok(()),
        }
    }
}

impl Iterator for Questions {
    type Item = Result<Question, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.left == 0 {
            self.done = true;
            return self.check_mapping().err().map(Err);
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
