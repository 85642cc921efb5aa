//! Prepares the questions of a run: reads the dataset, finds gold and candidates in the corpus, names the strata.
//!
//! The result is one Parquet table; every worker streams its share from it. Positions follow the dataset's order after
//! limit and quarantine, and cohorts are slices of the table.

use crate::error::JobError;
use crate::job::file::{DatasetEntry, Job};
use crate::job::missing_gold::MissingGold;
use crate::prepare::brought::{BroughtRow, RankingsCounts};
use crate::prepare::corpora::dataset_spec;
use crate::prepare::gold::{gold_slots, leaves_out};
use crate::prepare::quarantine::QuarantineFile;
use crate::prepare::question_filter::QuestionFilter;
use hopeval_corpus::Corpus;
use hopeval_datasets::{Format, GoldMatch, GoldPassage, PassageRecord, Question, Questions, RowPolicy};
use hopeval_methods::{Failure, FailureKind, GivenContext, Outcome, OutcomeStatus, PassageId};
use hopeval_results::tables::{ErrorRow, QuestionRow};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The stratum of every question.
pub const ALL: &str = "all";

/// Details of a question beyond the columns of its row. The row stores them as JSON under these names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuestionDetails {
    /// Gold supporting facts: (title, sentence).
    pub supporting_facts: Vec<(String, u32)>,
    /// Gold evidences.
    pub evidences: Vec<[String; 3]>,
    /// Sub-questions with their answers.
    pub decomposition: Vec<(String, Option<String>)>,
    /// The dataset's chain of thought, if any.
    pub rationale: Option<String>,
    /// Titles of the gold passages, in order.
    pub gold_titles: Vec<String>,
    /// The grade of each gold passage of the row; empty if all are 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gold_grades: Vec<u32>,
    /// The text that belongs to the question, if the dataset has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextRecord>,
    /// The outcomes of other systems, by the digest of their file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub brought: BTreeMap<String, BroughtRow>,
    /// The outcomes to be judged, by configuration: for the questions of a run of judges.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub predictions: BTreeMap<String, PredictionRecord>,
}

/// An outcome to be judged, under its stored names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictionRecord {
    /// `ok`, or the kind of failure.
    pub status: String,
    /// The message of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The answer, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

impl PredictionRecord {
    /// The outcome in the form for machines.
    pub fn outcome(&self) -> Outcome {
        if self.status == OutcomeStatus::NotInFile.name() {
            return Outcome { status: OutcomeStatus::NotInFile, ..Outcome::default() };
        }
        let failure = FailureKind::ALL.into_iter().find(|kind| kind.name() == self.status);
        match failure {
            Some(kind) => Outcome::failed(Failure { kind, message: self.message.clone().unwrap_or_default() }),
            None => Outcome { answer: self.answer.clone(), ..Outcome::default() },
        }
    }
}

/// A text that belongs to a question (IIRC's introductory paragraph), under its stored names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextRecord {
    /// Its title; empty if the dataset has none.
    pub title: String,
    /// Its text.
    pub text: String,
    /// The passage of the corpus with this title and text, if there is one.
    pub passage: Option<u32>,
}

impl QuestionDetails {
    /// The details in a row. A record of another version has none.
    pub fn of_row(row: &QuestionRow) -> Self {
        serde_json::from_str(&row.record).unwrap_or_default()
    }

    /// The text given with the question, in the form for machines.
    pub fn given_context(&self) -> Option<GivenContext> {
        let ContextRecord { title, text, passage } = self.context.clone()?;
        Some(GivenContext { title, text, passage: passage.map(PassageId) })
    }
}

/// Counts and strata found by preparing the questions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparationSummary {
    /// Number of evaluated questions.
    pub questions: u64,
    /// Rows set aside.
    pub quarantined: u64,
    /// Candidates missing from the corpus, over all questions.
    pub missing_candidates: u64,
    /// The format, as named or recognised.
    pub format: Option<Format>,
    /// All strata, `all` first, then by name.
    pub strata: Vec<String>,
    /// Questions left out because of a draw, or because `only` does not name them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: u64,
    /// Questions left out because their gold is not in the corpus (`missing_gold`).
    #[serde(default, skip_serializing_if = "is_none")]
    pub without_gold: u64,
    /// Questions evaluated without gold passages because not all of them are in the corpus (`missing_gold = "keep"`).
    #[serde(default, skip_serializing_if = "is_none")]
    pub kept_without_gold: u64,
    /// The format that the first row is of, if it is not of the named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<Format>,
    /// Counts of the files of rankings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rankings: Vec<RankingsCounts>,
    /// Fields of rows that were not looked at. Not stored.
    #[serde(skip)]
    pub unread: Vec<String>,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Turns one dataset question into a row.
pub struct QuestionResolver<'a> {
    corpus: &'a Corpus,
    gold: GoldMatch,
    path: PathBuf,
    line: Option<u64>,
    candidates_needed: bool,
    missing: u64,
    missing_gold: MissingGold,
    kept_without_gold: u64,
}

impl<'a> QuestionResolver<'a> {
    /// For the questions of a dataset with the first file `path`. With `candidates_needed`, a candidate missing from
    /// the corpus is an error; else it is counted.
    pub fn new(
        corpus: &'a Corpus,
        (gold, missing_gold): (GoldMatch, MissingGold),
        path: &Path,
        candidates_needed: bool,
    ) -> Self {
        let path = path.into();
        Self { corpus, gold, path, line: None, candidates_needed, missing: 0, missing_gold, kept_without_gold: 0 }
    }

    /// Sets the place of the next question, for errors.
    fn set_position(&mut self, path: &Path, line: u64) {
        if self.path != path {
            self.path = path.into();
        }
        // A Parquet file has no lines.
        self.line = Some(line).filter(|line| *line > 0);
    }

    fn bad_question(&self, question: &Question, field: &'static str, found: String, allowed: &'static str) -> JobError {
        let (path, line) = (self.path.clone(), self.line);
        JobError::Question { path, line, question: question.id.clone(), field, found, allowed }
    }

    /// The row of `question` at position `index`.
    ///
    /// # Errors
    /// [`JobError::Question`] for gold missing from the corpus, unless such questions are kept.
    pub fn resolve_row(&mut self, index: u64, question: &Question) -> Result<QuestionRow, JobError> {
        let (mut gold, mut gold_grades) = (Vec::new(), Vec::new());
        for passage in &question.gold {
            gold.extend(self.find_gold(question, passage)?);
            gold_grades.resize(gold.len(), passage.grade);
        }
        if gold.iter().any(Vec::is_empty) {
            self.kept_without_gold += 1;
            gold.clear();
            gold_grades.clear();
        }
        if gold_grades.iter().all(|&grade| grade == 1) {
            gold_grades.clear();
        }
        let mut candidates = Vec::with_capacity(question.candidates.len());
        for candidate in &question.candidates {
            match self.find_candidate(candidate) {
                Some(passage) => candidates.push(passage),
                None if self.candidates_needed => {
                    let allowed = "candidates that are in the corpus, since a method ranks them";
                    return Err(self.bad_question(
                        question,
                        "candidates",
                        format!("`{}` is not", candidate.title),
                        allowed,
                    ));
                }
                None => self.missing += 1,
            }
        }
        let details = QuestionDetails {
            supporting_facts: question.supporting_facts.clone(),
            evidences: question.evidences.clone(),
            decomposition: question.decomposition.iter().map(|s| (s.question.clone(), s.answer.clone())).collect(),
            rationale: question.rationale.clone(),
            gold_titles: question.gold.iter().filter_map(|gold| gold.title.clone()).collect(),
            gold_grades,
            context: question.context.as_ref().map(|context| self.find_context(context)),
            predictions: BTreeMap::new(),
            brought: BTreeMap::new(),
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

    /// The passages of a gold passage; some are empty only where questions without their gold are kept.
    fn find_gold(&self, question: &Question, gold: &GoldPassage) -> Result<Vec<Vec<u32>>, JobError> {
        let found = gold_slots(self.corpus, self.gold, gold);
        if found.iter().any(Vec::is_empty) {
            let named = if self.gold == GoldMatch::Id { gold.id.clone() } else { gold.title.clone() };
            let (found, allowed) = match named {
                Some(_) if self.gold == GoldMatch::Snippet && gold.snippets.is_empty() => (
                    "the gold passage has no snippet, by which gold is told".to_owned(),
                    "datasets with snippets (IIRC), or another `gold` in [dataset]",
                ),
                Some(_) if self.missing_gold == MissingGold::Keep => return Ok(found),
                Some(named) => (
                    format!("`{named}` is not in the corpus"),
                    "gold passages that are in the corpus (see `gold` in [dataset])",
                ),
                None => self.unidentified_gold(gold),
            };
            return Err(self.bad_question(question, "gold", found, allowed));
        }
        Ok(found)
    }

    /// The error texts (found, allowed) for a gold passage without its identifying field.
    fn unidentified_gold(&self, gold: &GoldPassage) -> (String, &'static str) {
        let lacks = if self.gold == GoldMatch::Id { "id" } else { "title" };
        let known = gold.title.as_deref().or(gold.id.as_deref()).map_or_else(String::new, |name| format!(" `{name}`"));
        let found = format!("the gold passage{known} has no {lacks}, by which gold is told");
        let allowed = match self.gold {
            GoldMatch::Id => {
                "gold passages with an id, or `gold = \"title\"` in [dataset], as for IIRC, \
                 whose gold is articles by title"
            }
            GoldMatch::Title | GoldMatch::TitleAndText | GoldMatch::Snippet => {
                "gold passages with a title, or `gold = \"id\"` in [dataset]"
            }
        };
        (found, allowed)
    }

    /// A question's own text, with the passage that is exactly it.
    fn find_context(&self, context: &PassageRecord) -> ContextRecord {
        let PassageRecord { title, text, .. } = context;
        let passage = self.corpus.by_title_and_text(title, text).map(|passage| passage.0);
        ContextRecord { title: title.clone(), text: text.clone(), passage }
    }

    /// The passage of a candidate: by its id, else by title and text, else by a title that one passage alone has. Of
    /// several passages of one title none is known to be the candidate.
    fn find_candidate(&self, candidate: &PassageRecord) -> Option<u32> {
        let by_id = candidate.id.as_deref().and_then(|id| self.corpus.by_external_id(id));
        let exact = || self.corpus.by_title_and_text(&candidate.title, &candidate.text);
        let by_title = || match self.corpus.by_title(&candidate.title) {
            [passage] => Some(*passage),
            _ => None,
        };
        by_id.or_else(exact).or_else(by_title).map(|passage| passage.0)
    }
}

/// Hash of a question's answers, gold passages with their grades, supporting facts and evidences.
fn gold_digest(answers: &[String], gold: &[Vec<u32>], details: &QuestionDetails) -> String {
    let all = (answers, gold, &details.supporting_facts, &details.evidences);
    let mut bytes = serde_json::to_vec(&all).expect("plain data can be written as JSON; this is a bug");
    // Hashed only where there are any, so that the digests of other gold stay.
    if !details.gold_grades.is_empty() {
        let grades = serde_json::to_vec(&details.gold_grades);
        bytes.extend(grades.expect("plain data can be written as JSON; this is a bug"));
    }
    blake3::hash(&bytes).to_hex()[..16].to_owned()
}

/// The strata of a question, `all` first.
pub fn row_strata(row: &QuestionRow) -> Vec<String> {
    strata_names(row.kind.as_deref(), row.hops, row.strata.iter().map(|(name, value)| (name, value)))
}

/// The names of the strata of a question with this type, these hops and further strata, `all` first.
pub(crate) fn strata_names<'a>(
    kind: Option<&str>,
    hops: Option<u32>,
    others: impl Iterator<Item = (&'a String, &'a String)>,
) -> Vec<String> {
    let kind = kind.map(|kind| format!("type={kind}"));
    let hops = hops.map(|hops| format!("hops={hops}"));
    let own = others.map(|(name, value)| format!("{name}={value}"));
    std::iter::once(ALL.to_owned()).chain(kind).chain(hops).chain(own).collect()
}

/// Reads the job's questions and passes each row to `write`, in dataset order.
///
/// With `quarantine`, wrong rows are written to that file, as JSON Lines of the error and the row, and returned.
///
/// # Errors
/// The first bad row without `quarantine`; failures to read or write files.
pub fn prepare_questions(
    job: &Job,
    corpus: &Corpus,
    candidates_needed: bool,
    quarantine: Option<&Path>,
    write: &mut dyn FnMut(QuestionRow) -> Result<(), JobError>,
) -> Result<(PreparationSummary, Vec<ErrorRow>), JobError> {
    let quarantine = quarantine.map(QuarantineFile::open).transpose()?;
    let path = job.dataset.questions.paths().first().cloned().unwrap_or_default();
    let mut questions = TakenQuestions::open(&job.dataset, quarantine.as_ref())?;
    let format = questions.reader.format();
    let gold = job.gold_by(format);
    let mut resolver = QuestionResolver::new(corpus, (gold, job.dataset.missing_gold), &path, candidates_needed);
    let mut without_gold = 0;
    let mut strata_found = BTreeSet::new();
    let mut index = 0;
    // The limit counts admitted questions, so it is applied after quarantine.
    let limit = job.dataset.limit.unwrap_or(u64::MAX);
    while index < limit {
        let Some(question) = questions.next()? else { break };
        if let Some((path, position)) = questions.reader.row_position() {
            resolver.set_position(path, position.line);
        }
        if leaves_out(job.dataset.missing_gold, &question, corpus, gold) {
            without_gold += 1;
            continue;
        }
        match (resolver.resolve_row(index, &question), &quarantine) {
            (Ok(row), _) => {
                strata_found.extend(row_strata(&row));
                write(row)?;
                index += 1;
            }
            (Err(error), Some(quarantine)) => quarantine.put_question(&question, &error, &path),
            (Err(error), None) => return Err(error),
        }
    }
    questions.reader.check_mapping()?;
    if let Some(expected) = job.dataset.expected {
        questions.check_count(expected, &path)?;
    }
    if index == 0 {
        let set_aside = quarantine.map_or_else(|| Ok(Vec::new()), QuarantineFile::close)?.len() as u64;
        return Err(no_questions(path, questions.left_out, without_gold, set_aside));
    }
    strata_found.remove(ALL);
    let errors = quarantine.map_or_else(|| Ok(Vec::new()), QuarantineFile::close)?;
    let prepared = PreparationSummary {
        questions: index,
        quarantined: errors.len() as u64,
        missing_candidates: resolver.missing,
        format: Some(format),
        strata: std::iter::once(ALL.to_owned()).chain(strata_found).collect(),
        left_out: questions.left_out,
        without_gold,
        kept_without_gold: resolver.kept_without_gold,
        contradiction: questions.reader.contradiction(),
        rankings: Vec::new(),
        unread: questions.reader.unread_fields().keys().cloned().collect(),
    };
    Ok((prepared, errors))
}

/// The error of a dataset without a question to ask, with the numbers of those that it had.
fn no_questions(path: PathBuf, left_out: u64, without_gold: u64, set_aside: u64) -> JobError {
    let counts = [
        (left_out, "outside the draw (`dataset.draw`, `dataset.only`)"),
        (without_gold, "left out by `dataset.missing_gold`, as the corpus lacks their gold"),
        (set_aside, "set aside as bad rows"),
    ];
    let found: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
    let found = if found.is_empty() { String::new() } else { format!(" are left: {}", found.join("; ")) };
    JobError::NoQuestions { path, found }
}

/// The questions of a dataset that its job takes.
struct TakenQuestions {
    reader: Questions,
    filter: QuestionFilter,
    /// Number of questions read so far, without the rows that the reader sets aside.
    read: u64,
    /// Number of questions outside the draw, or that `only` does not name.
    left_out: u64,
}

impl TakenQuestions {
    /// Reads `dataset`, without its limit. An unreadable row goes to `quarantine`; without one it is an error.
    fn open(dataset: &DatasetEntry, quarantine: Option<&QuarantineFile>) -> Result<Self, JobError> {
        let spec = dataset_spec(dataset, None);
        let filter = QuestionFilter::of_dataset(dataset, quarantine.is_some())?;
        let policy = quarantine.map_or(RowPolicy::Strict, QuarantineFile::policy);
        Ok(Self { reader: Questions::open(&spec, policy)?, filter, read: 0, left_out: 0 })
    }

    fn next(&mut self) -> Result<Option<Question>, JobError> {
        while let Some(question) = self.reader.next().transpose()? {
            let position = self.read;
            self.read += 1;
            if self.filter.takes_question(position, &question.id) {
                return Ok(Some(question));
            }
            self.left_out += 1;
        }
        Ok(None)
    }

    /// Reads what is left, and compares the number of all questions with the job's.
    fn check_count(&mut self, expected: u64, path: &Path) -> Result<(), JobError> {
        while self.reader.next().transpose()?.is_some() {
            self.read += 1;
        }
        let found = self.read;
        let path = path.to_path_buf();
        if found == expected {
            Ok(())
        } else {
            Err(JobError::Unexpected { path, key: "dataset.expected", expected, found })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_corpus::{CorpusBuilder, CorpusSettings, NewPassage};

    /// A corpus of passages (id, title, text), in a folder of its own.
    fn corpus(dir: &Path, passages: &[(&str, &str, &str)]) -> Corpus {
        let dir = dir.join("corpus");
        let mut builder = CorpusBuilder::create(&dir, CorpusSettings::default()).expect("a folder");
        for &(id, title, text) in passages {
            builder.push(NewPassage { id: Some(id), title, text, sentences: &[], links: None }).expect("a passage");
        }
        builder.finish().expect("a corpus");
        Corpus::open(&dir).expect("a corpus")
    }

    fn resolver(corpus: &Corpus) -> QuestionResolver<'_> {
        QuestionResolver::new(corpus, (GoldMatch::Id, MissingGold::Keep), Path::new("questions.jsonl"), false)
    }

    fn gold(id: &str, grade: u32) -> GoldPassage {
        GoldPassage { id: Some(id.to_owned()), grade, ..GoldPassage::default() }
    }

    #[test]
    fn candidates_are_found_by_id_then_text_then_a_title_of_one_passage() {
        let dir = tempfile::tempdir().expect("a folder");
        let corpus = corpus(
            dir.path(),
            &[
                ("a", "Up", "A film of 2009."),
                ("b", "Up", "A direction."),
                ("c", "Rome", "A city on the Tiber."),
                ("d", "Bonn", "A city on the Rhine."),
            ],
        );
        let found = |id: Option<&str>, title: &str, text: &str| {
            let (id, title, text) = (id.map(str::to_owned), title.to_owned(), text.to_owned());
            resolver(&corpus).find_candidate(&PassageRecord { id, title, text, ..PassageRecord::default() })
        };
        assert_eq!(found(Some("d"), "Rome", "A city on the Tiber."), Some(3), "an id says it");
        assert_eq!(found(Some("z"), "Up", "A direction."), Some(1), "an id that the corpus lacks says nothing");
        assert_eq!(found(None, "Up", "A film of 2009."), Some(0));
        assert_eq!(found(None, "Rome", "Another text."), Some(2), "one passage has the title");
        assert_eq!(found(None, "Up", "Another text."), None, "of several passages none is known to be it");
        assert_eq!(found(None, "Oslo", "A city on a fjord."), None);
    }

    #[test]
    fn missing_candidates_are_counted_or_refused_by_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let corpus = corpus(dir.path(), &[("a", "Up", "A film."), ("b", "Up", "A direction.")]);
        let candidate =
            |text: &str| PassageRecord { title: "Up".to_owned(), text: text.to_owned(), ..PassageRecord::default() };
        let candidates = vec![candidate("A film."), candidate("Another.")];
        let question = Question { id: "q".to_owned(), candidates, ..Question::default() };
        let mut counting = resolver(&corpus);
        let row = counting.resolve_row(0, &question).expect("a row");
        assert_eq!((row.candidates, counting.missing), (vec![0], 1));
        let error = QuestionResolver { candidates_needed: true, ..resolver(&corpus) }.resolve_row(0, &question);
        let error = error.expect_err("a method ranks them").to_string();
        assert!(error.contains("candidates") && error.contains("`Up` is not"), "{error}");
    }

    #[test]
    fn grades_above_one_are_kept_and_are_part_of_the_gold() {
        let dir = tempfile::tempdir().expect("a folder");
        let corpus = corpus(dir.path(), &[("a", "A", "x"), ("b", "B", "y")]);
        let row = |gold: Vec<GoldPassage>| {
            let question = Question { id: "q".to_owned(), gold, ..Question::default() };
            resolver(&corpus).resolve_row(0, &question).expect("a row")
        };
        let plain = row(vec![gold("a", 1), gold("b", 1)]);
        let graded = row(vec![gold("a", 3), gold("b", 1)]);
        assert_eq!((&plain.gold, &graded.gold), (&vec![vec![0], vec![1]], &vec![vec![0], vec![1]]));
        assert!(!plain.record.contains("gold_grades"), "rows without grades are as ever: {}", plain.record);
        assert_eq!(QuestionDetails::of_row(&graded).gold_grades, [3, 1]);
        assert_ne!(plain.gold_digest, graded.gold_digest, "other grades are other gold");
        assert_ne!(row(vec![gold("a", 2), gold("b", 1)]).gold_digest, graded.gold_digest);
        // Of a question whose gold is not all there, nothing is kept.
        let lacking = row(vec![gold("a", 3), gold("z", 2)]);
        assert_eq!((lacking.gold.len(), QuestionDetails::of_row(&lacking).gold_grades), (0, Vec::new()));
    }
}
