//! Reports the content of a dataset's files: `hopeval data check`.
//!
//! Reads everything under the quarantine rule, so that one bad row does not hide the next. Repeated question texts are
//! found by hash. Memory holds the hashes and the first bad rows.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::dataset_error::DatasetError;
use crate::formats::Format;
use crate::input::Compression;
use crate::question::Question;
use crate::questions::{DatasetSpec, QuarantinedRow, Questions, RowPolicy};
use crate::records::RecordLayout;

/// Bad rows whose errors are kept.
const BAD_ROWS_SHOWN: usize = 10;

/// The content of a dataset's files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The files, as named.
    pub files: Vec<PathBuf>,
    /// The format.
    pub format: Format,
    /// Whether the format was detected from the content.
    pub detected: bool,
    /// The format that the first row is of, if it is not of the named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<Format>,
    /// How the first file is compressed.
    pub compression: Compression,
    /// How the first file's records are laid out; `None` for a table.
    pub layout: Option<RecordLayout>,
    /// Whether the first file is a Parquet file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parquet: bool,
    /// Uncompressed bytes read.
    pub bytes: u64,
    /// Rows read, bad ones included.
    pub rows: u64,
    /// Questions that a run would get.
    pub questions: u64,
    /// Rows that a run would refuse or set aside, including repeated ids.
    pub bad_rows: u64,
    /// The first of their errors.
    pub first_errors: Vec<String>,
    /// Questions by type.
    pub kinds: BTreeMap<String, u64>,
    /// Questions by level.
    pub levels: BTreeMap<String, u64>,
    /// Questions by number of hops.
    pub hops: BTreeMap<u32, u64>,
    /// Questions by stratum and its value.
    pub strata: BTreeMap<String, BTreeMap<String, u64>>,
    /// Answers per question, aliases included.
    pub answers: CountSpread,
    /// Questions whose gold answer is `yes` or `no`.
    pub yes_no: u64,
    /// Questions marked as unanswerable.
    pub unanswerable: u64,
    /// Gold passages per question.
    pub gold: CountSpread,
    /// Given candidates per question.
    pub candidates: CountSpread,
    /// Questions with candidates, but without a candidate for some gold passage's title.
    pub gold_not_given: u64,
    /// Supporting facts with a sentence index beyond the end of the given passage.
    pub facts_beyond_passage: u64,
    /// Questions whose text repeats an earlier one, word for word.
    pub repeated_texts: u64,
    /// Questions without a field, by field. Fields of all questions, and of none, are left out.
    pub missing: BTreeMap<String, u64>,
    /// Rows by field that is in them and is not looked at.
    #[serde(default)]
    pub unread: BTreeMap<String, u64>,
}

/// The distribution of a count over questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountSpread {
    /// The smallest.
    pub min: u64,
    /// The mean; 0 without questions.
    pub mean: f64,
    /// The largest.
    pub max: u64,
}

#[derive(Default)]
struct SpreadCounter {
    sum: u64,
    n: u64,
    range: Option<(u64, u64)>,
}

impl SpreadCounter {
    fn add(&mut self, value: usize) {
        let value = value as u64;
        self.sum += value;
        self.n += 1;
        let (min, max) = self.range.unwrap_or((value, value));
        self.range = Some((min.min(value), max.max(value)));
    }

    fn spread(&self) -> CountSpread {
        let (min, max) = self.range.unwrap_or_default();
        CountSpread { min, mean: if self.n == 0 { 0.0 } else { self.sum as f64 / self.n as f64 }, max }
    }
}

/// Reads the whole dataset and reports.
///
/// # Errors
/// A file cannot be read to its end, or its format is unknown. Bad rows are not an error: the report lists them.
pub fn check_dataset(spec: &DatasetSpec) -> Result<CheckReport, DatasetError> {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let set_aside = {
        let errors = Arc::clone(&errors);
        move |row: QuarantinedRow| {
            let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
            if errors.len() < BAD_ROWS_SHOWN {
                errors.push(row.error.to_string());
            }
        }
    };
    let mut questions = Questions::open(spec, RowPolicy::Quarantine(Box::new(set_aside)))?;
    let mut report = CheckReport {
        files: spec.paths.clone(),
        format: questions.format(),
        detected: spec.format.is_none() && spec.fields.is_none(),
        contradiction: questions.contradiction(),
        compression: questions.compression(),
        layout: questions.layout(),
        parquet: questions.is_parquet(),
        bytes: 0,
        rows: 0,
        questions: 0,
        bad_rows: 0,
        first_errors: Vec::new(),
        kinds: BTreeMap::new(),
        levels: BTreeMap::new(),
        hops: BTreeMap::new(),
        strata: BTreeMap::new(),
        answers: CountSpread::default(),
        yes_no: 0,
        unanswerable: 0,
        gold: CountSpread::default(),
        candidates: CountSpread::default(),
        gold_not_given: 0,
        facts_beyond_passage: 0,
        repeated_texts: 0,
        missing: BTreeMap::new(),
        unread: BTreeMap::new(),
    };
    let [mut answers, mut gold, mut candidates] =
        [SpreadCounter::default(), SpreadCounter::default(), SpreadCounter::default()];
    let mut texts = FxHashSet::default();
    for question in questions.by_ref() {
        let question = question?;
        answers.add(question.answers.len());
        gold.add(question.gold.len());
        candidates.add(question.candidates.len());
        report.repeated_texts += u64::from(!texts.insert(hash_text(&question.text)));
        report.count_question(&question);
    }
    report.bytes = questions.bytes();
    report.rows = questions.rows();
    report.bad_rows = questions.quarantined();
    report.unread.clone_from(questions.unread_fields());
    (report.answers, report.gold, report.candidates) = (answers.spread(), gold.spread(), candidates.spread());
    // A field without any value is not missing: the format or the split does not have it.
    let all = report.questions;
    report.missing.retain(|_, &mut count| count > 0 && count < all);
    report.first_errors = std::mem::take(&mut errors.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(report)
}

impl CheckReport {
    fn count_question(&mut self, question: &Question) {
        self.questions += 1;
        let add = |counts: &mut BTreeMap<String, u64>, key: &Option<String>| {
            if let Some(key) = key {
                *counts.entry(key.clone()).or_default() += 1;
            }
        };
        add(&mut self.kinds, &question.kind);
        add(&mut self.levels, &question.level);
        if let Some(hops) = question.hops {
            *self.hops.entry(hops).or_default() += 1;
        }
        for (stratum, value) in &question.strata {
            *self.strata.entry(stratum.clone()).or_default().entry(value.clone()).or_default() += 1;
        }
        let yes_no = |answer: &String| answer.eq_ignore_ascii_case("yes") || answer.eq_ignore_ascii_case("no");
        self.yes_no += u64::from(question.answers.first().is_some_and(yes_no));
        self.unanswerable += u64::from(question.answerable == Some(false));

        let given = |title: &str| question.candidates.iter().find(|candidate| candidate.title == title);
        let absent = question.gold.iter().filter_map(|gold| gold.title.as_deref()).any(|title| given(title).is_none());
        self.gold_not_given += u64::from(absent && !question.candidates.is_empty());
        let beyond = |(title, index): &&(String, u32)| {
            given(title).is_some_and(|passage| *index as usize >= passage.sentences.len())
        };
        self.facts_beyond_passage += question.supporting_facts.iter().filter(beyond).count() as u64;

        let empty_candidate = question.candidates.iter().any(|candidate| candidate.text.trim().is_empty());
        let fields = [
            ("answers", question.answers.is_empty()),
            ("gold", question.gold.is_empty()),
            ("candidates", question.candidates.is_empty()),
            ("a candidate's text", empty_candidate),
            ("supporting_facts", question.supporting_facts.is_empty()),
            ("evidences", question.evidences.is_empty()),
            ("decomposition", question.decomposition.is_empty()),
            ("type", question.kind.is_none()),
            ("level", question.level.is_none()),
            ("hops", question.hops.is_none()),
        ];
        for (field, missing) in fields {
            *self.missing.entry(field.to_owned()).or_default() += u64::from(missing);
        }
    }
}

fn hash_text(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl fmt::Display for CountSpread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{} each", self.min)
        } else {
            write!(f, "{} to {}, mean {:.2}", self.min, self.max, self.mean)
        }
    }
}

/// A Markdown table, followed by the first bad rows.
impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<String> = self.files.iter().map(|path| path.display().to_string()).collect();
        let percent = |count: u64| 100.0 * count as f64 / (self.questions.max(1)) as f64;
        let list = |counts: &BTreeMap<String, u64>| {
            counts.iter().map(|(key, count)| format!("{key} {count}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "| {} | |\n| --- | --- |", files.join(", "))?;
        let how = match self.contradiction {
            _ if self.detected => "found by content".to_owned(),
            Some(other) => format!("as named, but the first row is of {other}"),
            None => "as named".to_owned(),
        };
        writeln!(f, "| format | {} ({how}) |", self.format)?;
        let table = if self.parquet { "Parquet" } else { "a table" };
        let layout = self.layout.map_or_else(|| table.to_owned(), |layout| layout.to_string());
        writeln!(f, "| file | {}, {layout}, {} bytes uncompressed |", self.compression, self.bytes)?;
        writeln!(f, "| rows | {}, of which {} bad |", self.rows, self.bad_rows)?;
        writeln!(f, "| questions | {} |", self.questions)?;
        for (name, counts) in [("types", &self.kinds), ("levels", &self.levels)] {
            if !counts.is_empty() {
                writeln!(f, "| {name} | {} |", list(counts))?;
            }
        }
        if !self.hops.is_empty() {
            let hops: Vec<String> = self.hops.iter().map(|(hops, count)| format!("{hops}: {count}")).collect();
            writeln!(f, "| hops | {} |", hops.join(", "))?;
        }
        for (stratum, counts) in &self.strata {
            writeln!(f, "| stratum {stratum} | {} |", list(counts))?;
        }
        writeln!(f, "| answers, aliases too | {} |", self.answers)?;
        writeln!(f, "| answered yes or no | {} ({:.1} %) |", self.yes_no, percent(self.yes_no))?;
        if self.unanswerable > 0 {
            writeln!(f, "| unanswerable | {} ({:.1} %) |", self.unanswerable, percent(self.unanswerable))?;
        }
        writeln!(f, "| gold passages | {} |", self.gold)?;
        writeln!(f, "| given candidates | {} |", self.candidates)?;
        for (name, count) in [
            ("questions with a gold passage that is not given", self.gold_not_given),
            ("supporting facts beyond their passage", self.facts_beyond_passage),
            ("questions that repeat an earlier one's text", self.repeated_texts),
        ] {
            if count > 0 {
                writeln!(f, "| {name} | {count} |")?;
            }
        }
        for (field, count) in &self.missing {
            writeln!(f, "| questions without {field} | {count} |")?;
        }
        if !self.unread.is_empty() {
            writeln!(f, "| fields not read | {} |", list(&self.unread))?;
        }
        if !self.first_errors.is_empty() {
            writeln!(f, "\nBad rows, {} of {}:\n", self.first_errors.len(), self.bad_rows)?;
            for error in &self.first_errors {
                writeln!(f, "* {error}")?;
            }
        }
        Ok(())
    }
}
