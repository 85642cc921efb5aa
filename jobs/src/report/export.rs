//! Exports a configuration's outcomes, and a run's gold, in the formats of other programs.

mod trec;

use crate::error::JobError;
use crate::prepare::rankings::exported_name;
use crate::run::evaluation::evaluate_outcomes;
use crate::run::evaluator::is_ok;
use crate::run::open::OpenRun;
use hopeval_datasets::musique_official_id;
use hopeval_results::Log;
use hopeval_results::tables::OutcomeRow;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Write;

/// A format of predictions or rankings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// TREC run: `qid Q0 docid rank score tag`.
    Trec,
    /// TREC relevance judgements, of the run's gold passages: `qid 0 docid grade`.
    Qrels,
    /// HotpotQA's prediction file: `{"answer": {id: text}, "sp": {id: [[title, sentence]]}}`.
    HotpotQa,
    /// 2WikiMultihopQA's: the same with `evidence`.
    TwoWiki,
    /// MuSiQue's JSON Lines, under the official ids.
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
            rows.push((outcome, values.to_vec()));
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

/// Refuses support in paragraphs by number, where `missing` paragraphs of the questions are not counted.
fn refuse_missing_paragraphs(missing: u64, rows: &EvaluatedRows) -> Result<(), ExportError> {
    if missing > 0 && rows.iter().any(|(outcome, _)| !outcome.supporting.is_empty()) {
        return Err(ExportError::MissingParagraphs { missing });
    }
    Ok(())
}

fn write_musique(run: &OpenRun, log: &Log, rows: &EvaluatedRows, out: &mut dyn Write) -> Result<(), ExportError> {
    refuse_missing_paragraphs(run.resolved.prepared.missing_candidates, rows)?;
    let mut outcomes = rows.iter().peekable();
    for question in run.questions_from(log, 0)? {
        let question = question?;
        // An unfinished run may lack cohorts in the middle.
        let Some((outcome, _)) = outcomes.next_if(|(outcome, _)| outcome.index == question.index) else { continue };
        let line = musique_line(outcome, &question.candidates);
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// A line of MuSiQue's prediction file.
///
/// An outcome that is ok and has no answer says that its question is not answerable. A failed one has said nothing, but
/// the script wants a word: `true`, without answer and support, scores 0 on both sides of a pair of MuSiQue-Full, as a
/// failure does in every measure. `false` would be right of the unanswerable side.
fn musique_line(outcome: &OutcomeRow, candidates: &[u32]) -> Value {
    let supports: BTreeSet<u32> = outcome.supporting.iter().map(|&(id, _)| id).collect();
    let indices: Vec<usize> = (0..candidates.len()).filter(|&i| supports.contains(&candidates[i])).collect();
    json!({
        "id": musique_official_id(&outcome.question),
        "predicted_answer": outcome.answer.as_deref().unwrap_or_default(),
        "predicted_support_idxs": indices,
        "predicted_answerable": outcome.answer.is_some() || !is_ok(outcome),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_datasets::{DatasetSpec, Format, Question, Questions, RowPolicy};
    use hopeval_measures::Profile;
    use hopeval_measures::official::score_files;

    /// MuSiQue-Full as it is published: each id twice, with and without a paragraph that the answer needs.
    fn full_rows() -> String {
        let paragraph = |idx: u32, title: &str, is_supporting: bool| {
            let text = format!("Of {title}.");
            json!({"idx": idx, "title": title, "paragraph_text": text, "is_supporting": is_supporting})
        };
        let row = |id: &str, answerable: bool| {
            let last = if answerable { "City" } else { "Ocean" };
            json!({
                "id": id,
                "paragraphs": [paragraph(0, "Film", true), paragraph(1, "Tree", false), paragraph(2, last, answerable)],
                "question": format!("Where was the director of {id} born?"),
                "question_decomposition": [
                    {"id": 1, "question": "Who directed it?", "answer": "Ann", "paragraph_support_idx": 0},
                    {"id": 2, "question": "Where was #1 born?", "answer": "Rome",
                     "paragraph_support_idx": if answerable { json!(2) } else { Value::Null }},
                ],
                "answer": "Rome",
                "answer_aliases": ["Roma"],
                "answerable": answerable,
            })
        };
        let rows = ["2hop__1_2", "2hop__3_4"].map(|id| format!("{}\n{}\n", row(id, true), row(id, false)));
        rows.concat()
    }

    /// The figures of the official script for the outcomes that `answer` gives to the questions of MuSiQue-Full.
    fn scored(answer: impl Fn(&Question, &mut OutcomeRow)) -> Vec<(&'static str, f64)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("musique_full_v1.0_dev.jsonl");
        std::fs::write(&path, full_rows()).unwrap();
        let questions = Questions::open(&DatasetSpec::file(&path), RowPolicy::Strict).unwrap();
        assert_eq!(questions.format(), Format::Musique);
        let mut lines = String::new();
        for question in questions.map(Result::unwrap) {
            let mut outcome =
                OutcomeRow { question: question.id.clone(), status: "ok".to_owned(), ..OutcomeRow::default() };
            answer(&question, &mut outcome);
            lines += &format!("{}\n", musique_line(&outcome, &[10, 11, 12]));
        }
        score_files(Profile::Musique, lines.as_bytes(), full_rows().as_bytes(), None::<&[u8]>).unwrap().figures
    }

    #[test]
    fn musique_full_is_scored_by_pairs() {
        let figures = |values: [f64; 5]| {
            let names =
                ["answer_f1", "answer_em", "support_f1", "group_answer_sufficiency_f1", "group_support_sufficiency_f1"];
            names.into_iter().zip(values).collect::<Vec<_>>()
        };
        // Silence where there is no gold.
        let right = scored(|question, outcome| {
            outcome.answer = question.answers.first().cloned();
            if outcome.answer.is_some() {
                outcome.supporting = vec![(12, 0), (10, 0)];
            }
        });
        assert_eq!(right, figures([1.0; 5]));
        // An answer to every question is never right of a pair.
        let talkative = scored(|_, outcome| outcome.answer = Some("Roma".to_owned()));
        assert_eq!(talkative, figures([1.0, 1.0, 0.0, 0.0, 0.0]));
        // Nor is a failure, although no answer is what an unanswerable question wants.
        let failed = scored(|question, outcome| {
            outcome.answer = question.answers.first().cloned();
            if question.id.ends_with("1_2__unanswerable") {
                outcome.status = "timeout".to_owned();
            }
        });
        assert_eq!(failed, figures([1.0, 1.0, 0.0, 0.5, 0.0]));
    }

    #[test]
    fn support_by_number_needs_all_paragraphs() {
        let row = |supporting: &[(u32, u32)]| {
            (OutcomeRow { supporting: supporting.to_vec(), ..OutcomeRow::default() }, Vec::new())
        };
        let (silent, supported) = ([row(&[]), row(&[])], [row(&[]), row(&[(3, 0)])]);
        assert!(refuse_missing_paragraphs(0, &supported).is_ok());
        assert!(refuse_missing_paragraphs(7, &silent).is_ok(), "answers alone name no paragraph");
        let error = refuse_missing_paragraphs(7, &supported).unwrap_err();
        assert!(matches!(error, ExportError::MissingParagraphs { missing: 7 }), "{error}");
        let said = error.to_string();
        assert!(said.contains("7 of the questions' paragraphs are not in the run's corpus"), "{said}");
        assert!(said.contains("hint: "), "{said}");
    }
}
