//! Brings the outcomes of other systems into the questions of a run: files of rankings, for methods of kind `rankings`.
//!
//! ```text
//!   file --RankingsFile, digest--> contents in the configuration's parameters
//!   question --its row, passages found in the corpus--> BroughtRow in the question's record --> Question::prediction
//! ```
//!
//! One process reads the files, when the run is made. From then on the rows stand in the run's table of questions,
//! which every worker of every process streams. So all of them see the same bytes, no worker holds a file, and a run
//! goes on without it.

mod names;
mod rows;

pub use names::{exported_name, spaced_title};
pub(crate) use rows::{BroughtRows, wrong_row};

use self::names::PassageNames;
use super::brought::{BroughtRow, RankingsCounts};
use super::corpora::digest_path;
use super::questions::QuestionDetails;
use crate::error::JobError;
use crate::job::rankings::{CONTENTS, FILE, KIND};
use crate::job::sweep::Configuration;
use hopeval_corpus::Corpus;
use hopeval_datasets::{RankingsFile, RankingsFormat, RankingsRow};
use hopeval_results::tables::QuestionRow;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files of rankings of a job.
#[derive(Default)]
pub struct JobRankings {
    files: Vec<BroughtFile>,
}

/// A file of rankings that is brought in.
struct BroughtFile {
    rows: BroughtRows,
    /// BLAKE3 of its bytes.
    digest: String,
    /// The name of its rows in the records of questions.
    row_digest: String,
    names: PassageNames,
}

impl JobRankings {
    /// Reads the files that `configurations` name, each once, and fills in the parameter with their facts.
    ///
    /// # Errors
    /// A file that cannot be read; a wrong row.
    pub fn open(configurations: &mut [Configuration]) -> Result<Self, JobError> {
        let mut opened = Self::default();
        let mut known: BTreeMap<(PathBuf, Option<RankingsFormat>), Value> = BTreeMap::new();
        for configuration in configurations.iter_mut().filter(|configuration| configuration.kind == KIND) {
            let Some(parameters) = configuration.parameters.as_object_mut() else { continue };
            // A wrong value is refused with the method's other parameters.
            let Some(path) = parameters.get(FILE).and_then(Value::as_str) else { continue };
            let format = parameters.get("format").cloned().unwrap_or_default();
            let Ok(format) = serde_json::from_value::<Option<RankingsFormat>>(format) else { continue };
            let key = (PathBuf::from(path), format);
            let contents = match known.get(&key) {
                Some(contents) => contents.clone(),
                None => {
                    let contents = opened.add_file(&key.0, format)?;
                    known.insert(key, contents.clone());
                    contents
                }
            };
            parameters.insert(CONTENTS.to_owned(), contents);
        }
        Ok(opened)
    }

    /// Reads a file, and returns its facts.
    fn add_file(&mut self, path: &Path, format: Option<RankingsFormat>) -> Result<Value, JobError> {
        let digest = digest_path(path)?;
        let file = RankingsFile::open(path, format)?;
        let facts = file.facts();
        let row_digest = match file.other_format() {
            None => digest.clone(),
            // The same bytes in another format are other rows.
            Some(other) => blake3::hash(format!("{digest} {other}").as_bytes()).to_hex().to_string(),
        };
        let contents = json!({
            "digest": row_digest,
            "rows": facts.rows,
            "answers": facts.answers > 0,
            "rankings": facts.rankings > 0,
            "supporting": facts.supporting > 0,
            "longest": facts.longest,
            "costs": facts.costs,
        });
        if self.files.iter().all(|known| known.row_digest != row_digest) {
            let (rows, names) = (BroughtRows::new(file), PassageNames::default());
            self.files.push(BroughtFile { rows, digest, row_digest, names });
        }
        Ok(contents)
    }

    /// Adds the files' rows of a question to its record.
    ///
    /// # Errors
    /// A passage that the corpus lacks; a file that was changed.
    pub fn fill_row(&mut self, corpus: &Corpus, row: &mut QuestionRow) -> Result<(), JobError> {
        let mut brought = BTreeMap::new();
        for file in &mut self.files {
            if let Some(found) = file.find_row(corpus, &row.id)? {
                brought.insert(file.row_digest.clone(), found);
            }
        }
        if !brought.is_empty() {
            set_brought(row, brought);
        }
        Ok(())
    }

    /// The counts of all files, once all questions were seen.
    ///
    /// # Errors
    /// A file of which no row is of an evaluated question, or that was changed while it was read.
    pub fn counts(&self) -> Result<Vec<RankingsCounts>, JobError> {
        self.files.iter().map(BroughtFile::counts).collect()
    }
}

impl BroughtFile {
    fn find_row(&mut self, corpus: &Corpus, id: &str) -> Result<Option<BroughtRow>, JobError> {
        let row = self.rows.find_row(id)?;
        row.map(|row| self.resolve_row(corpus, row)).transpose()
    }

    fn resolve_row(&mut self, corpus: &Corpus, row: RankingsRow) -> Result<BroughtRow, JobError> {
        const ALLOWED: &str = "passages of the corpus, by their ids, names in `hopeval export`, or unique \
                               titles, with `_` for spaces if need be";
        let mut ranked = Vec::with_capacity(row.ranked.len());
        let mut seen = BTreeSet::new();
        for (index, entry) in row.ranked.iter().enumerate() {
            let wrong = |found: String| wrong_row(self.rows.file().ranked_error(&row, index, found, ALLOWED));
            let passage = self.names.find_passage(corpus, &entry.name).map_err(wrong)?;
            if !seen.insert(passage) {
                let found = format!("`{}`, a passage that has another name before", entry.name);
                return Err(wrong_row(self.rows.file().ranked_error(&row, index, found, "each passage once")));
            }
            ranked.push(passage.0);
        }
        let mut supporting = Vec::with_capacity(row.supporting.len());
        for (index, (name, sentence)) in row.supporting.iter().enumerate() {
            let wrong = |found: String| wrong_row(self.rows.file().supporting_error(&row, index, found, ALLOWED));
            supporting.push((self.names.find_passage(corpus, name).map_err(wrong)?.0, *sentence));
        }
        let scores = row.ranked.iter().filter_map(|entry| entry.score).collect();
        Ok(BroughtRow { answer: row.answer, ranked, scores, supporting, cost: row.cost })
    }

    fn counts(&self) -> Result<RankingsCounts, JobError> {
        let used = self.rows.count_used()?;
        let (path, rows) = (self.rows.file().path(), self.rows.file().facts().rows);
        let found = digest_path(path)?;
        if found != self.digest {
            let what = "a file of rankings, which was written to while it was read,";
            return Err(JobError::Differs { what, found, expected: self.digest.clone() });
        }
        let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(RankingsCounts { file, digest: found, rows, used })
    }
}

/// The brought rows of a question, by the digest of their file.
pub fn brought_rows(row: &QuestionRow) -> BTreeMap<String, BroughtRow> {
    let details: Option<QuestionDetails> = serde_json::from_str(&row.record).ok();
    details.map(|details| details.brought).unwrap_or_default()
}

/// Puts brought rows into the record of a question.
fn set_brought(row: &mut QuestionRow, brought: BTreeMap<String, BroughtRow>) {
    let details: QuestionDetails = serde_json::from_str(&row.record).unwrap_or_default();
    let details = QuestionDetails { brought, ..details };
    row.record = serde_json::to_string(&details).expect("plain data can be written as JSON; this is a bug");
}

/// Gives a question with edited gold the brought rows of the one that it replaces.
pub fn keep_brought(old: &QuestionRow, new: &mut QuestionRow) {
    let brought = brought_rows(old);
    if !brought.is_empty() {
        set_brought(new, brought);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One text is a row of JSON Lines, and an object of answers of two questions.
    #[test]
    fn one_file_in_two_formats_is_two_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("theirs.json");
        std::fs::write(&path, "{\"id\": \"q0\", \"answer\": \"yes\"}\n").unwrap();
        let read_as = |format: Value| Configuration {
            name: format.to_string(),
            kind: KIND.to_owned(),
            parameters: json!({"file": path, "format": format}),
            control: None,
            replicate: None,
        };
        let mut configurations = [json!(null), json!("json"), json!("jsonl")].map(read_as);
        let opened = JobRankings::open(&mut configurations).unwrap();
        let contents = |n: usize| configurations[n].parameters[CONTENTS].clone();
        // JSON Lines is what the beginning tells.
        assert_eq!((opened.files.len(), contents(0)), (2, contents(2)));
        assert_eq!(contents(0)["digest"], digest_path(&path).unwrap());
        assert_eq!((&contents(0)["rows"], &contents(1)["rows"]), (&json!(1), &json!(2)));
        let mut files = opened.files;
        for (file, configuration) in files.iter_mut().zip([0, 1]) {
            assert_eq!(contents(configuration)["digest"], *file.row_digest);
        }
        let answers = files.iter_mut().map(|file| file.rows.find_row("q0").unwrap().and_then(|row| row.answer));
        assert_eq!(answers.collect::<Vec<_>>(), [Some("yes".to_owned()), None]);
        assert_eq!(files[1].rows.find_row("id").unwrap().and_then(|row| row.answer).as_deref(), Some("q0"));
    }
}
