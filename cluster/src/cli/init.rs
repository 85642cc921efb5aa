//! `init`: looks at a dataset's file and prints a job for it.

use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_datasets::{
    CheckReport, DatasetError, DatasetSpec, Format, PassageFormat, check_dataset, detect_format, detect_passages,
    guess_passages, guess_questions,
};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// The questions: a file of any format, or a BEIR folder.
    file: PathBuf,
    /// The passages: a file or a folder. Left out for questions that bring their own.
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,
}

/// Rows that are looked at.
const ROWS: u64 = 200;

pub(crate) fn init(arguments: &InitArguments) -> Result<u8> {
    let questions = FoundQuestions::look_at(&arguments.file)?;
    let corpus = match &arguments.corpus {
        Some(path) => FoundCorpus::look_at(path)?,
        None if arguments.file.is_dir() => FoundCorpus::named(&arguments.file),
        None if questions.report.candidates.max > 0 => FoundCorpus::named(Path::new("contexts")),
        None => FoundCorpus::missing(),
    };
    print::line(job_text(&arguments.file, &questions, &corpus).trim_end());
    for note in questions.notes().iter().chain(&corpus.notes) {
        print::note(note);
    }
    Ok(exit::DONE)
}

/// The questions of a file, as far as they were looked at.
struct FoundQuestions {
    /// The format, unless its fields are guessed.
    format: Option<Format>,
    /// hopeval's names with those in the file, if they are guessed.
    fields: Vec<(String, String)>,
    /// The first rows.
    report: CheckReport,
}

impl FoundQuestions {
    /// Recognises the format, or else guesses the fields.
    ///
    /// # Errors
    /// The file cannot be read, or none of its fields can be the question.
    fn look_at(path: &Path) -> Result<Self, DatasetError> {
        let Ok(format) = detect_format(path) else {
            let guessed = guess_questions(path)?;
            return Ok(Self { format: None, fields: guessed.fields, report: guessed.report });
        };
        let spec = DatasetSpec { format: Some(format), limit: Some(ROWS), ..DatasetSpec::file(path) };
        let report = check_dataset(&spec)?;
        // A question and an answer alone pass for Natural Questions. Such a file may have more, which that lacks.
        let lacks_more = report.gold.max == 0 && report.candidates.max == 0 && !report.unread.is_empty();
        if let Some(guessed) = (lacks_more || report.bad_rows > 0).then(|| guess_questions(path).ok()).flatten()
            && (guessed.report.gold.max > 0
                || guessed.report.candidates.max > 0
                || guessed.report.bad_rows < report.bad_rows)
        {
            return Ok(Self { format: None, fields: guessed.fields, report: guessed.report });
        }
        Ok(Self { format: Some(format), fields: Vec::new(), report })
    }

    /// Remarks on what a run of these questions would lack.
    fn notes(&self) -> Vec<String> {
        let report = &self.report;
        let mut notes = Vec::new();
        if self.format.is_none() {
            notes.push("the fields are guessed from their names: see [dataset.fields]".to_owned());
        }
        if !report.unread.is_empty() {
            let unread: Vec<&str> = report.unread.keys().map(String::as_str).collect();
            notes.push(format!("fields not read: {}", unread.join(", ")));
        }
        if let Some(first) = report.first_errors.first() {
            notes.push(format!("warning: {} of {} rows are bad; the first: {first}", report.bad_rows, report.rows));
        }
        if report.answers.max == 0 && report.gold.max == 0 {
            notes.push("warning: neither answers nor gold passages were found, so nothing can be measured".to_owned());
        }
        notes
    }
}

/// The passages for a job.
struct FoundCorpus {
    /// Lines of `[corpus]`.
    lines: String,
    notes: Vec<String>,
}

impl FoundCorpus {
    /// A source whose format hopeval knows.
    fn named(path: &Path) -> Self {
        Self { lines: format!("source = {}\n", quoted(&path.display().to_string())), notes: Vec::new() }
    }

    /// No source is known: the job has a place for it.
    fn missing() -> Self {
        let lines = "source = \"corpus.jsonl\"     # the questions bring no passages: name yours here\n";
        let note =
            "the questions bring no passages, so the job needs a corpus: `--corpus FILE`, or its name in [corpus]";
        Self { lines: lines.to_owned(), notes: vec![note.to_owned()] }
    }

    /// Recognises the format, or else guesses the fields.
    ///
    /// # Errors
    /// The file cannot be read, or none of its fields can be the text.
    fn look_at(path: &Path) -> Result<Self, DatasetError> {
        let mut found = Self::named(path);
        let guessed = match detect_passages(path) {
            // Any table of three columns passes for DPR's, unless its first line names others.
            Ok(PassageFormat::Dpr) => guess_passages(path).ok().filter(|guessed| guessed.names_others()),
            Ok(_) => None,
            Err(_) => Some(guess_passages(path)?),
        };
        let Some(guessed) = guessed else { return Ok(found) };
        found.lines += &format!("fields = {{ {} }}\n", pairs(&guessed.fields).join(", "));
        found.notes.push("the fields of the passages are guessed from their names: see [corpus]".to_owned());
        if !guessed.unread.is_empty() {
            found.notes.push(format!("fields of passages not read: {}", guessed.unread.join(", ")));
        }
        Ok(found)
    }
}

/// The job, with a comment on what was found.
fn job_text(path: &Path, questions: &FoundQuestions, corpus: &FoundCorpus) -> String {
    let report = &questions.report;
    let name = path.file_name().map_or_else(|| "job".into(), |name| name.to_string_lossy());
    let name = name.split('.').find(|part| !part.is_empty()).unwrap_or("job");
    let format = questions.format.unwrap_or(Format::Fields);
    let counts =
        [("answers", report.answers), ("gold passages", report.gold), ("passages of its own", report.candidates)];
    let counts = counts.map(|(what, spread)| format!("# {what} of a question: {} to {}\n", spread.min, spread.max));
    let mut text = format!("# The first {} rows, read as {}:\n{}", report.rows, format.name(), counts.concat());
    text += &format!("name = {}\n\n[dataset]\n", quoted(name));
    if questions.format.is_some() {
        text += &format!("format = {}\n", quoted(format.name()));
    }
    text += &format!("questions = {}\n", quoted(&path.display().to_string()));
    // IIRC's gold has titles and no ids.
    if questions.format == Some(Format::Iirc) {
        text += "gold = \"title\"\n";
    }
    if !questions.fields.is_empty() {
        text += &format!("\n[dataset.fields]\n{}\n", pairs(&questions.fields).join("\n"));
    }
    text += &format!("\n[corpus]\n{}\n# `hopeval methods` lists all methods.\n", corpus.lines);
    for retriever in ["bm25", "tfidf"] {
        text += &format!("[service.{retriever}]\nkind = \"{retriever}\"\n\n");
        text += &format!("[method.{retriever}]\nkind = \"one_step\"\nretriever = \"{retriever}\"\n\n");
    }
    text += "[measures]\n";
    let has_answers_alone = report.answers.max > 0 && report.gold.max == 0;
    text += if has_answers_alone { "answer_hit_at = [2, 5, 10]\n" } else { "recall_at = [2, 5, 10]\n" };
    text
}

/// Pairs as TOML.
fn pairs(fields: &[(String, String)]) -> Vec<String> {
    fields.iter().map(|(name, path)| format!("{name} = {}", quoted(path))).collect()
}

/// A text as TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
