//! Reads the rankings and answers that another system made: a TREC run, JSON Lines, CSV, or one JSON object of answers.
//!
//! ```text
//!   file --open: every row read once, for its form--> places of the rows, by id --row(id)--> RankingsRow
//! ```
//!
//! A file is read twice. The first time each row is checked, and its place is kept: some 100 bytes for each question,
//! whatever the length of its ranking. The second time a row is read by its id, in any order. Passages have their names
//! of the file; nothing here knows a corpus. Files are not compressed, since rows are read by their places.

mod answers;
mod json_lines;
mod table;
mod trec;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::dataset_error::DatasetError;
use crate::error::{FieldError, RecordPosition, RowError};
use crate::input::{Compression, InputError};
use crate::value::{FieldResult, quoted};

/// Bytes read from the disk at a time.
const READ_AHEAD: usize = 256 << 10;

/// A format of files with rankings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RankingsFormat {
    /// A TREC run: `qid Q0 document rank score tag`.
    Trec,
    /// JSON Lines of `{id, answer, ranked, supporting, cost}`.
    Jsonl,
    /// CSV (RFC 4180) with the same names in its first line.
    Csv,
    /// One JSON object with the answer of each question: `{"id": "answer", …}`.
    Json,
}

impl RankingsFormat {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Trec, Self::Jsonl, Self::Csv, Self::Json];

    /// The name in jobs and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trec => "trec",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }

    /// The first line of a file, as an example.
    pub const fn example(self) -> &'static str {
        match self {
            Self::Trec => "QUESTION Q0 PASSAGE 1 12.5 RUN",
            Self::Jsonl => {
                r#"{"id": "QUESTION", "answer": "TEXT", "ranked": ["PASSAGE", …], "supporting": [["PASSAGE", 0], …]}"#
            }
            Self::Csv => "id,answer,ranked",
            Self::Json => r#"{"QUESTION": "ANSWER", …}"#,
        }
    }
}

impl fmt::Display for RankingsFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RankingsFormat {
    type Err = UnknownRankingsFormat;

    fn from_str(name: &str) -> Result<Self, UnknownRankingsFormat> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| UnknownRankingsFormat { name: name.to_owned() })
    }
}

/// A name of no format of rankings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format `{name}`; allowed: {}", RankingsFormat::ALL.map(RankingsFormat::name).join(", "))]
pub struct UnknownRankingsFormat {
    /// The given name.
    pub name: String,
}

/// One question of such a file.
#[derive(Clone, Debug, PartialEq)]
pub struct RankingsRow {
    /// The question's id.
    pub id: String,
    /// The place of the row; of a TREC run, of its first line.
    pub position: RecordPosition,
    /// The answer, if there is one.
    pub answer: Option<String>,
    /// Ranked passages, best first, each name once.
    pub ranked: Vec<RankedName>,
    /// Supporting sentences: the name of the passage, and the sentence's index from 0.
    pub supporting: Vec<(String, u32)>,
    /// The cost of the question.
    pub cost: RowCost,
}

/// A ranked passage.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedName {
    /// Its name in the file.
    pub name: String,
    /// Its score, never above the one before it; `None` if the file has no scores.
    pub score: Option<f64>,
    /// The place of its line; `None` if it is in a list of the row.
    pub position: Option<RecordPosition>,
}

/// The cost of a question, as far as its row says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RowCost {
    /// Calls of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Tokens of prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Generated tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Money, in a currency that the file does not name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
}

impl RowCost {
    /// The names of all figures, in the order of reports.
    pub const NAMES: [&'static str; 5] = ["calls", "prompt_tokens", "completion_tokens", "seconds", "money"];

    /// The names of the figures that it has.
    pub fn names(&self) -> Vec<&'static str> {
        let has = [
            self.calls.is_some(),
            self.prompt_tokens.is_some(),
            self.completion_tokens.is_some(),
            self.seconds.is_some(),
            self.money.is_some(),
        ];
        Self::NAMES.into_iter().zip(has).filter_map(|(name, has)| has.then_some(name)).collect()
    }
}

/// Facts about a whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankingsFacts {
    /// Its questions.
    pub rows: u64,
    /// Questions with an answer.
    pub answers: u64,
    /// Questions with ranked passages.
    pub rankings: u64,
    /// Questions with supporting sentences.
    pub supporting: u64,
    /// Passages of the longest ranking.
    pub longest: u32,
    /// The figures of each row's cost.
    pub costs: Vec<&'static str>,
    /// The first row's id.
    pub first: String,
    /// The first row's place.
    pub position: RecordPosition,
}

/// A file of rankings: the places of its rows.
#[derive(Debug)]
pub struct RankingsFile {
    path: PathBuf,
    format: RankingsFormat,
    /// The format that its beginning tells.
    recognised: RankingsFormat,
    input: BufReader<File>,
    /// The columns of a CSV file.
    columns: Vec<table::Column>,
    places: HashMap<String, Vec<BytePlace>>,
    facts: RankingsFacts,
}

/// The place of a row, or of a part of one, in the file.
#[derive(Clone, Copy, Debug)]
struct BytePlace {
    /// Its first byte.
    offset: u64,
    bytes: u64,
    position: RecordPosition,
}

impl RankingsFile {
    /// Reads every row of `path` once. The format is told from the beginning if none is named.
    ///
    /// # Errors
    /// The file cannot be read, is compressed, or has no rows; a wrong row; two rows of one question.
    pub fn open(path: &Path, format: Option<RankingsFormat>) -> Result<Self, DatasetError> {
        let cannot_open = |source| InputError::Open { path: path.to_owned(), source };
        let metadata = std::fs::metadata(path).map_err(cannot_open)?;
        if metadata.is_dir() {
            return Err(InputError::Folder { path: path.to_owned() }.into());
        }
        if !metadata.is_file() {
            return Err(InputError::Irregular { path: path.to_owned() }.into());
        }
        let mut input = BufReader::with_capacity(READ_AHEAD, File::open(path).map_err(cannot_open)?);
        let beginning = input.fill_buf().map_err(cannot_open)?;
        let compression = Compression::of_magic(beginning);
        if compression != Compression::None {
            let allowed = "a TREC run, JSON Lines, CSV or a JSON object of answers that is not compressed";
            return Err(InputError::Foreign { path: path.into(), found: compression.to_string(), allowed }.into());
        }
        let recognised = detect_format(beginning);
        let format = format.unwrap_or(recognised);
        let (columns, places, facts) = (Vec::new(), HashMap::new(), RankingsFacts::default());
        let mut file = Self { path: path.to_owned(), format, recognised, input, columns, places, facts };
        match format {
            RankingsFormat::Trec => file.scan_trec()?,
            RankingsFormat::Jsonl => file.scan_lines()?,
            RankingsFormat::Csv => file.scan_table()?,
            RankingsFormat::Json => file.scan_answers()?,
        }
        file.check_facts()?;
        Ok(file)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format that it is read in, where that is another one than its beginning tells.
    pub fn other_format(&self) -> Option<RankingsFormat> {
        Some(self.format).filter(|format| *format != self.recognised)
    }

    /// Facts about the whole file.
    pub fn facts(&self) -> &RankingsFacts {
        &self.facts
    }

    /// The row of a question; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or was changed since it was opened.
    pub fn row(&mut self, id: &str) -> Result<Option<RankingsRow>, DatasetError> {
        let Some(places) = self.places.get(id) else { return Ok(None) };
        let mut parts = Vec::with_capacity(places.len());
        for place in places {
            let mut bytes = vec![0; place.bytes as usize];
            let unreadable = |source| InputError::Read {
                path: self.path.clone(),
                bytes: place.offset,
                line: place.position.line,
                source,
            };
            self.input.seek(SeekFrom::Start(place.offset)).map_err(unreadable)?;
            self.input.read_exact(&mut bytes).map_err(unreadable)?;
            parts.push((bytes, place.position));
        }
        Ok(Some(self.read_parts(&parts)?))
    }

    /// The error of a ranked passage, by its index in [`RankingsRow::ranked`].
    pub fn ranked_error(&self, row: &RankingsRow, index: usize, found: String, allowed: &str) -> RowError {
        match row.ranked.get(index).and_then(|ranked| ranked.position) {
            Some(position) => self.row_error(position, trec::DOCUMENT, found, allowed),
            None => self.row_error(row.position, &format!("ranked[{index}]"), found, allowed),
        }
    }

    /// The error of a supporting sentence, by its index in [`RankingsRow::supporting`].
    pub fn supporting_error(&self, row: &RankingsRow, index: usize, found: String, allowed: &str) -> RowError {
        self.row_error(row.position, &format!("supporting[{index}]"), found, allowed)
    }

    /// The error of a row's id.
    pub fn id_error(&self, position: RecordPosition, found: String, allowed: &str) -> RowError {
        self.row_error(position, if self.format == RankingsFormat::Trec { trec::ID } else { "id" }, found, allowed)
    }

    fn row_error(&self, position: RecordPosition, field: &str, found: String, allowed: &str) -> RowError {
        RowError { path: self.path.clone(), position, field: field.to_owned(), found, allowed: allowed.to_owned() }
    }

    /// Reads a row from its parts. Only a TREC run has rows of several parts.
    fn read_parts(&self, parts: &[(Vec<u8>, RecordPosition)]) -> Result<RankingsRow, RowError> {
        if self.format == RankingsFormat::Trec {
            return trec::read_row(&self.path, parts).map(|(row, _)| row);
        }
        let (bytes, position) = &parts[0];
        self.read_record(bytes, *position).map_err(|error| error.in_row(&self.path, *position))
    }

    /// Reads a row of JSON Lines, CSV or an object of answers.
    fn read_record(&self, bytes: &[u8], position: RecordPosition) -> FieldResult<RankingsRow> {
        match self.format {
            RankingsFormat::Csv => table::read_row(&self.columns, bytes, position),
            RankingsFormat::Json => answers::read_row(bytes, position),
            _ => json_lines::read_row(bytes, position),
        }
    }

    /// Reads a TREC run. The lines of a question may stand apart.
    fn scan_trec(&mut self) -> Result<(), DatasetError> {
        let (mut lines, mut tag) = (LineReader::default(), None);
        let mut block: Option<(String, Vec<u8>, BytePlace)> = None;
        let mut line = Vec::new();
        while let Some(place) = lines.next_line(&mut self.input, &self.path, &mut line)? {
            let id = trec::line_id(&line);
            let goes_on = id.is_none_or(|id| block.as_ref().is_some_and(|(same, ..)| same.as_bytes() == id));
            if goes_on && let Some((_, bytes, begun)) = &mut block {
                bytes.extend_from_slice(&line);
                begun.bytes += place.bytes;
                continue;
            }
            let Some(id) = id else { continue };
            self.end_block(block.take(), &mut tag)?;
            let id = std::str::from_utf8(id).map_err(|_| {
                let error = FieldError::new("bytes that are not UTF-8", "UTF-8").under_key(trec::ID);
                error.in_row(&self.path, place.position)
            })?;
            block = Some((id.to_owned(), line.clone(), place));
        }
        self.end_block(block, &mut tag)?;
        let scattered: Vec<String> =
            self.places.iter().filter(|(_, places)| places.len() > 1).map(|(id, _)| id.clone()).collect();
        for id in scattered {
            let row = self.row(&id)?;
            self.facts.longest = self.facts.longest.max(row.map_or(0, |row| row.ranked.len() as u32));
        }
        Ok(())
    }

    /// Checks the lines of a question that stand together, and keeps their place.
    fn end_block(
        &mut self,
        block: Option<(String, Vec<u8>, BytePlace)>,
        tag: &mut Option<String>,
    ) -> Result<(), DatasetError> {
        let Some((id, bytes, place)) = block else { return Ok(()) };
        let (row, found) = trec::read_row(&self.path, &[(bytes, place.position)])?;
        match tag {
            Some(first) if *first != found => {
                let found = format!("{}, another run than {}", quoted(&found), quoted(first));
                return Err(self.row_error(place.position, trec::TAG, found, "the lines of one run").into());
            }
            _ => *tag = Some(found),
        }
        self.count_row(&row)?;
        self.places.entry(id).or_default().push(place);
        self.facts.rows = self.places.len() as u64;
        Ok(())
    }

    fn scan_lines(&mut self) -> Result<(), DatasetError> {
        let (mut lines, mut line) = (LineReader::default(), Vec::new());
        while let Some(place) = lines.next_line(&mut self.input, &self.path, &mut line)? {
            if !line.trim_ascii().is_empty() {
                self.keep_record(&line, place)?;
            }
        }
        Ok(())
    }

    fn scan_table(&mut self) -> Result<(), DatasetError> {
        let (mut lines, mut record) = (LineReader::default(), Vec::new());
        while let Some(place) = lines.next_record(&mut self.input, &self.path, &mut record)? {
            if record.trim_ascii().is_empty() {
                continue;
            }
            if self.columns.is_empty() {
                let columns = table::read_header(&record);
                self.columns = columns.map_err(|error| error.in_row(&self.path, place.position))?;
            } else {
                self.keep_record(&record, place)?;
            }
        }
        Ok(())
    }

    fn scan_answers(&mut self) -> Result<(), DatasetError> {
        let mut text = Vec::new();
        let unreadable = |source| InputError::Read { path: self.path.clone(), bytes: 0, line: 1, source };
        self.input.read_to_end(&mut text).map_err(unreadable)?;
        if without_mark(&text).trim_ascii().is_empty() {
            return Ok(());
        }
        let places = answers::find_entries(&text);
        for place in places.map_err(|(position, error)| error.in_row(&self.path, position))? {
            let begin = place.offset as usize;
            self.keep_record(&text[begin..begin + place.bytes as usize], place)?;
        }
        Ok(())
    }

    /// Checks a row of JSON Lines, CSV or an object of answers, and keeps its place.
    fn keep_record(&mut self, bytes: &[u8], place: BytePlace) -> Result<(), DatasetError> {
        let read = self.read_record(bytes, place.position);
        let row = read.map_err(|error| error.in_row(&self.path, place.position))?;
        self.count_row(&row)?;
        if let Some(before) = self.places.get(&row.id) {
            let line = before[0].position.line;
            let found = format!("{}, which line {line} has too", quoted(&row.id));
            return Err(self.id_error(place.position, found, "each question once").into());
        }
        self.places.insert(row.id, vec![place]);
        self.facts.rows += 1;
        Ok(())
    }

    /// Adds a row to the facts. Its cost has the figures of the first row's.
    fn count_row(&mut self, row: &RankingsRow) -> Result<(), RowError> {
        let costs = row.cost.names();
        if self.places.is_empty() {
            self.facts.costs.clone_from(&costs);
            self.facts.first.clone_from(&row.id);
            self.facts.position = row.position;
        }
        if costs != self.facts.costs {
            let named = |names: &[&str]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            let allowed = format!("the figures of the first row: {}", named(&self.facts.costs));
            return Err(self.row_error(row.position, "cost", named(&costs), &allowed));
        }
        let facts = &mut self.facts;
        facts.answers += u64::from(row.answer.is_some());
        facts.rankings += u64::from(!row.ranked.is_empty());
        facts.supporting += u64::from(!row.supporting.is_empty());
        facts.longest = facts.longest.max(row.ranked.len() as u32);
        Ok(())
    }

    /// Refuses a file that says nothing.
    fn check_facts(&self) -> Result<(), DatasetError> {
        let RankingsFacts { rows, answers, rankings, supporting, position, .. } = &self.facts;
        if *rows == 0 {
            return Err(InputError::Empty { path: self.path.clone() }.into());
        }
        if answers + rankings + supporting == 0 {
            let found = "no answer, ranking or supporting sentence, nor in any other row".to_owned();
            let allowed = "rows of which some have `answer`, `ranked` or `supporting`";
            return Err(self.row_error(*position, "ranked", found, allowed).into());
        }
        Ok(())
    }
}

/// The format of a file that begins so: JSON Lines or an object of answers if it begins with a brace, CSV if its first
/// line names a column `id`, otherwise a TREC run.
fn detect_format(beginning: &[u8]) -> RankingsFormat {
    let beginning = without_mark(beginning).trim_ascii_start();
    if beginning.first() == Some(&b'{') {
        return if answers::is_object_of_answers(beginning) { RankingsFormat::Json } else { RankingsFormat::Jsonl };
    }
    let first = beginning.split(|&byte| byte == b'\n').next().unwrap_or_default();
    match table::names_id(first) {
        true => RankingsFormat::Csv,
        false => RankingsFormat::Trec,
    }
}

/// The bytes without a byte order mark before them.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Reads lines with their places.
#[derive(Debug, Default)]
struct LineReader {
    /// The next line's first byte.
    offset: u64,
    lines: u64,
    records: u64,
}

impl LineReader {
    /// Reads the next line with its end; `None` at the end of the file. A byte order mark before the first is left out.
    fn next_line(
        &mut self,
        input: &mut BufReader<File>,
        path: &Path,
        line: &mut Vec<u8>,
    ) -> Result<Option<BytePlace>, InputError> {
        line.clear();
        let read = input.read_until(b'\n', line);
        let unreadable =
            |source| InputError::Read { path: path.to_owned(), bytes: self.offset, line: self.lines + 1, source };
        if read.map_err(unreadable)? == 0 {
            return Ok(None);
        }
        let mut offset = self.offset;
        self.offset += line.len() as u64;
        self.lines += 1;
        if offset == 0 && without_mark(line).len() < line.len() {
            let mark = line.len() - without_mark(line).len();
            line.drain(..mark);
            offset += mark as u64;
        }
        if !line.trim_ascii().is_empty() {
            self.records += 1;
        }
        let position = RecordPosition { record: self.records, line: self.lines };
        Ok(Some(BytePlace { offset, bytes: line.len() as u64, position }))
    }

    /// Reads the next record of a CSV file: lines until each quote has its partner.
    fn next_record(
        &mut self,
        input: &mut BufReader<File>,
        path: &Path,
        record: &mut Vec<u8>,
    ) -> Result<Option<BytePlace>, InputError> {
        let Some(mut place) = self.next_line(input, path, record)? else { return Ok(None) };
        let is_open = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'"').count() % 2 == 1;
        let (mut line, mut open) = (Vec::new(), is_open(record));
        while open && let Some(more) = self.next_line(input, path, &mut line)? {
            record.extend_from_slice(&line);
            place.bytes += more.bytes;
            self.records = place.position.record;
            open ^= is_open(&line);
        }
        Ok(Some(place))
    }
}

/// Refuses a passage that is ranked twice.
fn refuse_repeats<'n>(names: impl Iterator<Item = &'n str>) -> Result<(), (usize, FieldError)> {
    let mut seen = FxHashSet::default();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            return Err((index, FieldError::new(format!("{} again", quoted(name)), "each passage once")));
        }
    }
    Ok(())
}
