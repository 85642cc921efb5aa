//! Prepares the questions of a run: reads the dataset, finds gold and candidates in the corpus, names the strata.
//!
//! The result is one Parquet table that every worker streams its share from; positions in it are the dataset's order
//! after limit and quarantine, and chunks are slices of it.

use crate::error::JobError;
use crate::job::file::Job;
use crate::prepare::corpora::spec;
use hopeval_corpus::Corpus;
use hopeval_datasets::{Format, GoldBy, GoldPassage, PassageRecord, Policy, Quarantined, Question, Questions};
use hopeval_results::tables::{ErrorRow, QuestionRow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The stratum of every question.
pub const ALL: &str = "all";

/// What a question carries beyond the columns of its row, which stores it as JSON under these names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Gold supporting facts: (title, sentence).
    pub supporting_facts: Vec<(String, u32)>,
    /// Gold evidences.
    pub evidences: Vec<[String; 3]>,
    /// Sub-questions with their answers.
    pub decomposition: Vec<(String, Option<String>)>,
    /// The dataset's chain of thought, where it has one.
    pub rationale: Option<String>,
    /// Titles of the gold passages, in order.
    pub gold_titles: Vec<String>,
}

/// What was found while preparing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Questions that are evaluated.
    pub questions: u64,
    /// Rows set aside.
    pub quarantined: u64,
    /// Candidates that the corpus does not have, over all questions.
    pub missing_candidates: u64,
    /// The format, as given or found.
    pub format: Option<Format>,
    /// All strata, `all` first, then by name.
    pub strata: Vec<String>,
    /// Questions that were left out because a draw has them, or has not.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Turns one dataset question into a row.
pub struct Resolver<'a> {
    corpus: &'a Corpus,
    gold: GoldBy,
    path: PathBuf,
    line: Option<u64>,
    candidates_needed: bool,
    missing: u64,
}

impl<'a> Resolver<'a> {
    /// For the questions of a dataset whose first file is `path`. With `candidates_needed`, a candidate that the
    /// corpus does not have is an error; else it is counted.
    pub fn new(corpus: &'a Corpus, gold: GoldBy, path: &Path, candidates_needed: bool) -> Self {
        Self { corpus, gold, path: path.into(), line: None, candidates_needed, missing: 0 }
    }

    /// Says where the next question stands, for errors.
    fn at(&mut self, path: &Path, line: u64) {
        if self.path != path {
            self.path = path.into();
        }
        self.line = Some(line);
    }

    fn wrong(&self, question: &Question, field: &'static str, found: String, allowed: &'static str) -> JobError {
        let (path, line) = (self.path.clone(), self.line);
        JobError::Question { path, line, question: question.id.clone(), field, found, allowed }
    }

    /// The row of `question` at position `index`.
    ///
    /// # Errors
    /// [`JobError::Question`] for gold that the corpus does not have.
    pub fn row(&mut self, index: u64, question: &Question) -> Result<QuestionRow, JobError> {
        let gold = question.gold.iter().map(|gold| self.find_gold(question, gold)).collect::<Result<Vec<_>, _>>()?;
        let mut candidates = Vec::with_capacity(question.candidates.len());
        for candidate in &question.candidates {
            match self.find_candidate(candidate) {
                Some(passage) => candidates.push(passage),
                None if self.candidates_needed => {
                    let allowed = "candidates that are in the corpus, since a method ranks them";
                    return Err(self.wrong(question, "candidates", format!("`{}` is not", candidate.title), allowed));
                }
                None => self.missing += 1,
            }
        }
        let details = Details {
            supporting_facts: question.supporting_facts.clone(),
            evidences: question.evidences.clone(),
            decomposition: question.decomposition.iter().map(|s| (s.question.clone(), s.answer.clone())).collect(),
            rationale: question.rationale.clone(),
            gold_titles: question.gold.iter().filter_map(|gold| gold.title.clone()).collect(),
        };
        let gold_digest = gold_digest(&question.answers, &gold, &details);
        Ok(QuestionRow {
            index,
            id: question.id.clone(),
            text: question.text.clone(),
            kind: question.kind.clone(),
            hops: question.hops,
            strata: question.strata.clone().into_iter().collect(),
            answers: question.answers.clone(),
            gold,
            candidates,
            gold_digest,
            record: serde_json::to_string(&details).expect("plain data can be written as JSON; this is a bug"),
        })
    }

    fn find_gold(&self, question: &Question, gold: &GoldPassage) -> Result<Vec<u32>, JobError> {
        let (found, named) = match self.gold {
            GoldBy::Id => {
                let id = gold.id.as_deref();
                (id.and_then(|id| self.corpus.by_external_id(id)).into_iter().map(|p| p.0).collect(), gold.id.clone())
            }
            GoldBy::Title => {
                let title = gold.title.as_deref().unwrap_or_default();
                (self.corpus.by_title(title).iter().map(|p| p.0).collect(), gold.title.clone())
            }
            GoldBy::TitleAndText => {
                let (title, text) =
                    (gold.title.as_deref().unwrap_or_default(), gold.text.as_deref().unwrap_or_default());
                let found = self.corpus.by_title_and_text(title, text);
                (found.into_iter().map(|p| p.0).collect::<Vec<u32>>(), gold.title.clone())
            }
        };
        if found.is_empty() {
            let (found, allowed) = match named {
                Some(named) => (
                    format!("`{named}` is not in the corpus"),
                    "gold passages that are in the corpus (see `gold` in [dataset])",
                ),
                None => self.unidentified(gold),
            };
            return Err(self.wrong(question, "gold", found, allowed));
        }
        Ok(found)
    }

    /// What to say of a gold passage that lacks the very field that is to identify it.
    fn unidentified(&self, gold: &GoldPassage) -> (String, &'static str) {
        let lacks = if self.gold == GoldBy::Id { "id" } else { "title" };
        let known = gold.title.as_deref().or(gold.id.as_deref()).map_or_else(String::new, |name| format!(" `{name}`"));
        let found = format!("the gold passage{known} has no {lacks}, by which gold is told");
        let allowed = match self.gold {
            GoldBy::Id => {
                "gold passages with an id, or `gold = \"title\"` in [dataset], as for IIRC, whose gold is articles by title"
            }
            GoldBy::Title | GoldBy::TitleAndText => "gold passages with a title, or `gold = \"id\"` in [dataset]",
        };
        (found, allowed)
    }

    fn find_candidate(&self, candidate: &PassageRecord) -> Option<u32> {
        let by_id = candidate.id.as_deref().and_then(|id| self.corpus.by_external_id(id));
        let exact = || self.corpus.by_title_and_text(&candidate.title, &candidate.text);
        let by_title = || self.corpus.by_title(&candidate.title).first().copied();
        by_id.or_else(exact).or_else(by_title).map(|passage| passage.0)
    }
}

/// What identifies a question's gold.
fn gold_digest(answers: &[String], gold: &[Vec<u32>], details: &Details) -> String {
    let all = (answers, gold, &details.supporting_facts, &details.evidences);
    let bytes = serde_json::to_vec(&all).expect("plain data can be written as JSON; this is a bug");
    blake3::hash(&bytes).to_hex()[..16].to_owned()
}

/// The strata of a question, `all` first.
pub fn strata(row: &QuestionRow) -> Vec<String> {
    let kind = row.kind.iter().map(|kind| format!("type={kind}"));
    let hops = row.hops.iter().map(|hops| format!("hops={hops}"));
    let own = row.strata.iter().map(|(name, value)| format!("{name}={value}"));
    std::iter::once(ALL.to_owned()).chain(kind).chain(hops).chain(own).collect()
}

/// Reads the job's questions and gives each row to `write`, in dataset order.
///
/// With `quarantine`, rows that are wrong are written to that file, as JSON Lines of the error and the row, and returned.
///
/// # Errors
/// The first bad row without `quarantine`; files that cannot be read or written.
pub fn prepare(
    job: &Job,
    corpus: &Corpus,
    candidates_needed: bool,
    quarantine: Option<&Path>,
    write: &mut dyn FnMut(QuestionRow) -> Result<(), JobError>,
) -> Result<(Prepared, Vec<ErrorRow>), JobError> {
    let aside = quarantine.map(Aside::open).transpose()?;
    let policy = match &aside {
        None => Policy::Strict,
        Some(aside) => {
            let aside = aside.clone();
            Policy::Quarantine(Box::new(move |row: Quarantined| {
                let error = ErrorRow {
                    stage: "dataset".to_owned(),
                    file: row.error.path.display().to_string(),
                    line: Some(row.error.position.line),
                    field: Some(row.error.field.clone()).filter(|field| !field.is_empty()),
                    message: row.error.to_string(),
                };
                aside.put(error, &row.raw);
            }))
        }
    };
    let path = job.dataset.questions.paths().first().cloned().unwrap_or_default();
    // The limit counts admitted questions, so it is applied after quarantine.
    let spec = spec(&job.dataset, None);
    let drawn = job.dataset.draw.map(|draw| draw.of(&spec, aside.is_some())).transpose()?;
    let mut questions = Questions::open(&spec, policy)?;
    let format = questions.format();
    let mut resolver = Resolver::new(corpus, job.gold_by(format), &path, candidates_needed);
    let mut strata_found = BTreeSet::new();
    let (mut index, mut position, mut left_out) = (0, 0, 0);
    let limit = job.dataset.limit.unwrap_or(u64::MAX);
    while index < limit {
        let Some(question) = questions.next().transpose()? else { break };
        position += 1;
        if drawn.as_ref().is_some_and(|drawn| !drawn.takes(position - 1)) {
            left_out += 1;
            continue;
        }
        if let Some((path, position)) = questions.place() {
            resolver.at(path, position.line);
        }
        match (resolver.row(index, &question), &aside) {
            (Ok(row), _) => {
                strata_found.extend(strata(&row));
                write(row)?;
                index += 1;
            }
            (Err(error), Some(aside)) => {
                let raw = serde_json::to_string(&question).unwrap_or_default();
                let (file, field) = match &error {
                    JobError::Question { path, field, .. } => (path.display().to_string(), Some((*field).to_owned())),
                    _ => (path.display().to_string(), None),
                };
                let message = error.to_string();
                aside.put(ErrorRow { stage: "corpus".to_owned(), file, line: None, field, message }, &raw);
            }
            (Err(error), None) => return Err(error),
        }
    }
    if index == 0 {
        return Err(JobError::NoQuestions { path });
    }
    strata_found.remove(ALL);
    let errors = aside.map_or_else(|| Ok(Vec::new()), |aside| aside.close())?;
    let quarantined = errors.len() as u64;
    let strata = std::iter::once(ALL.to_owned()).chain(strata_found).collect();
    let missing_candidates = resolver.missing;
    let prepared =
        Prepared { questions: index, quarantined, missing_candidates, format: Some(format), strata, left_out };
    Ok((prepared, errors))
}

/// The file of rows set aside.
#[derive(Clone)]
struct Aside {
    path: PathBuf,
    state: Arc<Mutex<AsideState>>,
}

struct AsideState {
    file: std::io::BufWriter<std::fs::File>,
    errors: Vec<ErrorRow>,
    failed: Option<std::io::Error>,
}

impl Aside {
    fn open(path: &Path) -> Result<Self, JobError> {
        let file = std::fs::File::create(path).map_err(|source| JobError::Io {
            path: path.into(),
            operation: "cannot write the quarantine",
            source,
        })?;
        let state = AsideState { file: std::io::BufWriter::new(file), errors: Vec::new(), failed: None };
        Ok(Self { path: path.into(), state: Arc::new(Mutex::new(state)) })
    }

    fn put(&self, error: ErrorRow, raw: &str) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let line = serde_json::json!({"error": error.message, "row": raw});
        if let Err(error) = writeln!(state.file, "{line}") {
            state.failed.get_or_insert(error);
        }
        state.errors.push(error);
    }

    /// The rows that were set aside, in order.
    fn close(self) -> Result<Vec<ErrorRow>, JobError> {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let flushed = state.file.flush();
        let failed =
            |source| JobError::Io { path: self.path.clone(), operation: "cannot write the quarantine", source };
        state.failed.take().map_or(Ok(()), Err).and(flushed).map_err(failed)?;
        Ok(std::mem::take(&mut state.errors))
    }
}
