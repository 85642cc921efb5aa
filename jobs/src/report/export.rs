//! Exports a configuration's outcomes, and a run's gold, in the formats of other programs.

mod trec;

use crate::error::JobError;
use crate::prepare::rankings::exported_name;
use crate::run::evaluation::evaluate_outcomes;
use crate::run::open::OpenRun;
use hopeval_results::Log;
use hopeval_results::tables::OutcomeRow;
use serde_json::{Map, Value, json};
use std::io::Write;

/// A format of predictions or rankings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// TREC run: `qid Q0 docid rank score tag`.
    Trec,
    /// TREC relevance judgements, of the run's gold passages: `qid 0 docid 1`.
    Qrels,
    /// HotpotQA's prediction file: `{"answer": {id: text}, "sp": {id: [[title, sentence]]}}`.
    HotpotQa,
    /// 2WikiMultihopQA's: the same with `evidence`.
    TwoWiki,
    /// MuSiQue's JSON Lines.
    Musique,
    /// One line per question: outcome and every measure.
    Csv,
}

impl std::str::FromStr for ExportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "trec" => Ok(Self::Trec),
            "qrels" => Ok(Self::Qrels),
            "hotpotqa" => Ok(Self::HotpotQa),
            "2wikimultihopqa" => Ok(Self::TwoWiki),
            "musique" => Ok(Self::Musique),
            "csv" => Ok(Self::Csv),
            other => Err(format!("`{other}`; allowed: trec, qrels, hotpotqa, 2wikimultihopqa, musique, csv")),
        }
    }
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run.
    #[error(transparent)]
    Job(#[from] JobError),
    /// No such configuration.
    #[error("no configuration `{found}`; the run has {allowed}")]
    Configuration {
        /// The requested name.
        found: String,
        /// Names of the run's configurations.
        allowed: String,
    },
    /// A configuration must be named for this format.
    #[error("--configuration is missing; the run has {allowed}\nhint: only `--format qrels` is of the whole run")]
    NoConfiguration {
        /// Names of the run's configurations.
        allowed: String,
    },
    /// Paragraphs would have other numbers than in the dataset.
    #[error(
        "MuSiQue's script counts paragraphs by their place in the dataset, and {missing} of the questions' paragraphs \
         are not in the run's corpus\nhint: a corpus of the questions' own paragraphs has all of them"
    )]
    MissingParagraphs {
        /// Paragraphs that are not in the corpus.
        missing: u64,
    },
    /// The output cannot be written.
    #[error("cannot write the export")]
    Write(#[from] std::io::Error),
}

impl ExportError {
    /// Whether the same command may succeed later without a person's help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Job(error) if error.is_transient())
    }
}

/// Writes the committed outcomes of `configuration`, in dataset order, including edits of gold read by the
/// configuration; or the gold of all questions, for which the configuration does not matter. Returns the number of
/// written questions.
///
/// # Errors
/// No such configuration; outcomes cannot be read; the output cannot be written.
pub fn export_outcomes(
    run: &OpenRun,
    log: &Log,
    configuration: Option<&str>,
    format: ExportFormat,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let names = run.configuration_names();
    let found = configuration.map(|configuration| {
        let position = names.iter().position(|name| name == configuration);
        let unknown = || ExportError::Configuration { found: configuration.to_owned(), allowed: names.join(", ") };
        position.map(|position| (position, configuration)).ok_or_else(unknown)
    });
    let (position, configuration) = match (found.transpose()?, format) {
        (_, ExportFormat::Qrels) => return trec::write_qrels(run, log, out),
        (Some(found), _) => found,
        (None, _) => return Err(ExportError::NoConfiguration { allowed: names.join(", ") }),
    };
    let mut rows = Vec::new();
    evaluate_outcomes(run, log, &mut |_, outcome, values| {
        if outcome.configuration as usize == position {
            rows.push((outcome.clone(), values.to_vec()));
        }
        Ok(())
    })?;
    match format {
        ExportFormat::Trec => trec::write_run(run, log, configuration, &rows, out)?,
        ExportFormat::HotpotQa => write_official(run, &rows, false, out)?,
        ExportFormat::TwoWiki => write_official(run, &rows, true, out)?,
        ExportFormat::Musique => write_musique(run, log, &rows, out)?,
        ExportFormat::Csv => write_csv(run, &rows, out)?,
        ExportFormat::Qrels => {}
    }
    Ok(rows.len() as u64)
}

type EvaluatedRows = [(OutcomeRow, Vec<Option<f64>>)];

fn passage_title(run: &OpenRun, id: u32) -> &str {
    run.passages.title(id)
}

fn write_official(run: &OpenRun, rows: &EvaluatedRows, evidence: bool, out: &mut dyn Write) -> Result<(), ExportError> {
    let (mut answers, mut facts, mut triples) = (Map::new(), Map::new(), Map::new());
    for (outcome, _) in rows {
        // Failed questions have no answer in the file. The scripts score them as 0.
        if let Some(answer) = &outcome.answer {
            answers.insert(outcome.question.clone(), json!(answer));
        }
        let found = outcome.supporting.iter().map(|&(id, sentence)| json!([passage_title(run, id), sentence]));
        // A sentence in no passage is wrong for the scripts, too: its index is a text.
        let named = outcome.named_support().iter().map(|named| json!([named.title, named.sentence]));
        let pairs: Vec<Value> = found.chain(named).collect();
        facts.insert(outcome.question.clone(), Value::Array(pairs));
        triples.insert(outcome.question.clone(), json!(outcome.evidences));
    }
    let mut all = json!({"answer": answers, "sp": facts});
    if evidence {
        all["evidence"] = Value::Object(triples);
    }
    writeln!(out, "{all}")?;
    Ok(())
}

fn write_musique(run: &OpenRun, log: &Log, rows: &EvaluatedRows, out: &mut dyn Write) -> Result<(), ExportError> {
    let missing = run.resolved.prepared.missing_candidates;
    if missing > 0 && rows.iter().any(|(outcome, _)| !outcome.supporting.is_empty()) {
        return Err(ExportError::MissingParagraphs { missing });
    }
    let mut outcomes = rows.iter().peekable();
    for question in run.questions_from(log, 0)? {
        let question = question?;
        // An unfinished run may lack cohorts in the middle.
        let Some((outcome, _)) = outcomes.next_if(|(outcome, _)| outcome.index == question.index) else { continue };
        let supports: std::collections::BTreeSet<u32> = outcome.supporting.iter().map(|&(id, _)| id).collect();
        let indices: Vec<usize> =
            (0..question.candidates.len()).filter(|&i| supports.contains(&question.candidates[i])).collect();
        let line = json!({
            "id": outcome.question,
            "predicted_answer": outcome.answer.as_deref().unwrap_or_default(),
            "predicted_support_idxs": indices,
            "predicted_answerable": outcome.answer.is_some(),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn quoted_field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn write_csv(run: &OpenRun, rows: &EvaluatedRows, out: &mut dyn Write) -> Result<(), ExportError> {
    let measures = run.evaluator.measure_set().names().join(",");
    writeln!(out, "index,question,status,answer,ranked,iterations,rounds,{measures}")?;
    for (outcome, values) in rows {
        let ranked = outcome.ranked.iter().map(|&id| exported_name(run.passages.id(id))).collect::<Vec<_>>().join(" ");
        let values = values.iter().map(|v| v.map_or(String::new(), |v| v.to_string())).collect::<Vec<_>>().join(",");
        let answer = outcome.answer.as_deref().unwrap_or_default();
        let fields =
            [outcome.question.as_str(), outcome.status.as_str(), answer, ranked.as_str()].map(quoted_field).join(",");
        writeln!(out, "{},{fields},{},{},{values}", outcome.index, outcome.iterations, outcome.rounds)?;
    }
    Ok(())
}
