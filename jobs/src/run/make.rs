//! Makes a run: builds its missing inputs, except dense indexes, and writes its questions and its record.
//!
//! The order to make it is stored first (`making.rs`), so that `resume` can finish what a killed process began.

use super::evaluator::OutcomeEvaluator;
use super::making::MakingOrder;
use super::new_run::{create_record, new_id, resolve_settings};
use super::passages::RunPassages;
use super::settings::ResolvedSettings;
use crate::cache::ProgressReporter;
use crate::clock::now_ms;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::sweep::{self, Configuration};
use crate::places::Places;
use crate::prepare::corpora;
use crate::prepare::opening::{ConfiguredJob, OpenedJob};
use crate::prepare::question_ids::QuestionIds;
use crate::prepare::questions::{self, PreparationSummary};
use hopeval_datasets::Format;
use hopeval_methods::ContextMode;
use hopeval_results::tables::{ErrorRow, QuestionRow, TableWriter, write_table};
use hopeval_results::{FileCheck, layout};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The names in the figures of a run.
#[derive(Clone, Debug)]
pub struct RunNames {
    /// Its measures.
    pub measures: Vec<String>,
    /// Those of them that can decide which configuration is the best.
    pub deciding: Vec<String>,
    /// Its strata.
    pub strata: Vec<String>,
    /// Its configurations; replicates have one name.
    pub configurations: Vec<String>,
    /// The same by place in the job, in which each replicate has its own.
    pub numbered: Vec<String>,
}

impl RunNames {
    /// The configuration of this name, or of this number in the run's tables: `3` or `#3`.
    pub fn find_configuration(&self, text: &str) -> Option<&str> {
        let by_number = || self.numbered.get(sweep::numbered_position(text)?);
        self.configurations.iter().find(|name| *name == text).or_else(by_number).map(String::as_str)
    }
}

/// Checks the names in the figures of a run before the run is made. The error is a message for the user.
pub type NameCheck<'a> = &'a dyn Fn(&RunNames) -> Result<(), String>;

/// Makes a run of `job`, unless `check` refuses its names, and returns its id.
///
/// # Errors
/// Faults of the job, its files, its names or the store. Nothing of the run is left then; after an error that may pass,
/// the order to make it is.
pub fn make_run(
    job: &Job,
    places: &Places,
    quarantine: Option<&Path>,
    check: NameCheck<'_>,
    report: ProgressReporter<'_>,
) -> Result<String, JobError> {
    let input = RunInput::open(job, places, quarantine.is_some(), report)?;
    let created_ms = now_ms();
    let run = new_id(created_ms, &input.dataset_digest, input.opened.corpus().digest());
    let quarantine = quarantine.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let order = MakingOrder { run, created_ms, job: job.clone(), quarantine, judged: None };
    order.store(&places.store)?;
    input.write_run(&order, places, check, report)
}

/// The settings and the names of a run that could be made.
#[derive(Clone, Debug)]
pub(crate) struct CheckedRun {
    /// Its settings.
    pub(crate) resolved: ResolvedSettings,
    /// The context modes of its configurations, in their order.
    pub(crate) modes: Vec<ContextMode>,
    /// The names in its figures.
    pub(crate) names: RunNames,
}

impl CheckedRun {
    /// The context modes of the named configurations.
    pub(crate) fn modes_of(&self, names: &[String]) -> impl Iterator<Item = ContextMode> {
        let names: HashSet<&String> = names.iter().collect();
        let all = self.resolved.configurations.iter().zip(&self.modes);
        all.filter(move |(configuration, _)| names.contains(&configuration.name)).map(|(_, mode)| *mode)
    }
}

/// Checks that a run of `job` can be made, and makes none. `each` gets its questions. Wrong rows go to the file
/// `quarantine`, if it is given.
///
/// # Errors
/// As [`make_run`].
pub(crate) fn check_run(
    job: &Job,
    places: &Places,
    quarantine: Option<&Path>,
    check: NameCheck<'_>,
    report: ProgressReporter<'_>,
    each: &mut dyn FnMut(QuestionRow),
) -> Result<CheckedRun, JobError> {
    let set_aside = quarantine.is_some();
    let RunInput { opened, mut configured, evaluator, dataset_digest } =
        RunInput::open(job, places, set_aside, report)?;
    let (prepared, names, _) = prepare_checked(&opened, &mut configured, &evaluator, quarantine, report, &mut |row| {
        each(row);
        Ok(())
    })?;
    check(&names).map_err(JobError::Names)?;
    let modes = configured.methods.iter().map(|method| method.context_mode()).collect();
    let resolved = resolve_settings(opened, configured, prepared, dataset_digest, set_aside);
    Ok(CheckedRun { resolved, modes, names })
}

/// Makes the ordered run.
///
/// # Errors
/// As [`make_run`].
pub(super) fn make_from(
    order: &MakingOrder,
    places: &Places,
    report: ProgressReporter<'_>,
) -> Result<String, JobError> {
    let input = RunInput::open(&order.job, places, order.quarantine.is_some(), report)?;
    input.write_run(order, places, &|_| Ok(()), report)
}

/// The input of a run to be made, open and checked.
struct RunInput {
    opened: OpenedJob,
    configured: ConfiguredJob,
    evaluator: OutcomeEvaluator,
    dataset_digest: String,
}

impl RunInput {
    fn open(job: &Job, places: &Places, set_aside: bool, report: ProgressReporter<'_>) -> Result<Self, JobError> {
        let opened = OpenedJob::open(job, &places.cache, places.threads, set_aside, report)?;
        let configured = ConfiguredJob::new(&opened, places, report)?;
        // The settings are checked before anything is written.
        let passages = RunPassages::Corpus(Arc::clone(opened.corpus()));
        let evaluator =
            OutcomeEvaluator::new(&opened.job.measures, Format::World, &configured.methods, &[], &passages)?;
        let dataset_digest = dataset_digest(&opened.job)?;
        Ok(Self { opened, configured, evaluator, dataset_digest })
    }

    /// Writes the ordered run and returns its id.
    fn write_run(
        self,
        order: &MakingOrder,
        places: &Places,
        check: NameCheck<'_>,
        report: ProgressReporter<'_>,
    ) -> Result<String, JobError> {
        order.complete(&places.store, || self.write_files(order, places, check, report))
    }

    /// Writes the questions and the record.
    fn write_files(
        self,
        order: &MakingOrder,
        places: &Places,
        check: NameCheck<'_>,
        report: ProgressReporter<'_>,
    ) -> Result<(), JobError> {
        let Self { opened, mut configured, evaluator, dataset_digest } = self;
        let (prepared, checks) = write_questions(&opened, &mut configured, &evaluator, places, order, check, report)?;
        let resolved = resolve_settings(opened, configured, prepared, dataset_digest, order.quarantine.is_some());
        create_record(&places.store, order, &resolved, checks)
    }
}

/// The digest of a job's files of questions, and of the ids that a file names of them.
pub(crate) fn dataset_digest(job: &Job) -> Result<String, JobError> {
    let digests = job.dataset.questions.paths().iter().map(|path| corpora::digest_path(path));
    let digests = digests.collect::<Result<Vec<_>, _>>()?;
    let mut all = digests.join(" ");
    if let Some(only) = &job.dataset.only {
        all.push_str(&format!(" only {}", QuestionIds::read(only)?.digest()));
    }
    Ok(blake3::hash(all.as_bytes()).to_hex().to_string())
}

/// Writes the tables of the questions and of the rows set aside. Returns their checks, too.
fn write_questions(
    opened: &OpenedJob,
    configured: &mut ConfiguredJob,
    evaluator: &OutcomeEvaluator,
    places: &Places,
    order: &MakingOrder,
    check: NameCheck<'_>,
    report: ProgressReporter<'_>,
) -> Result<(PreparationSummary, BTreeMap<String, FileCheck>), JobError> {
    let (run, quarantine) = (&order.run, order.quarantine.as_deref());
    let mut writer = TableWriter::<QuestionRow>::new(&places.store, &layout::questions_table(run))?;
    // Until the writer is finished, nothing of the run is in the store.
    let (prepared, names, errors) =
        prepare_checked(opened, configured, evaluator, quarantine, report, &mut |row| Ok(writer.push(row)?))?;
    check(&names).map_err(JobError::Names)?;
    let written = writer.finish()?;
    let set_aside = write_table(&places.store, &layout::final_table(run, "errors"), errors)?;
    let checks = [written, set_aside].into_iter().map(|file| (file.path.clone(), file.file_check()));
    Ok((prepared, checks.collect()))
}

/// Prepares the questions of a run, and refuses those that it cannot have. Returns the names in its figures and the
/// rows set aside, too.
fn prepare_checked(
    opened: &OpenedJob,
    configured: &mut ConfiguredJob,
    evaluator: &OutcomeEvaluator,
    quarantine: Option<&Path>,
    report: ProgressReporter<'_>,
    write: &mut dyn FnMut(QuestionRow) -> Result<(), JobError>,
) -> Result<(PreparationSummary, RunNames, Vec<ErrorRow>), JobError> {
    let needs_candidates = configured.needs_candidates;
    let (overlap, rankings) = (&mut configured.overlap, &mut configured.rankings);
    let mut gold = GoldCounts::default();
    let (mut prepared, errors) =
        questions::prepare_questions(&opened.job, opened.corpus(), needs_candidates, quarantine, &mut |mut row| {
            if row.index % 1024 == 0 {
                report("questions", row.index);
            }
            overlap.see_row(&row);
            gold.count_row(&row, evaluator);
            rankings.fill_row(opened.corpus(), &mut row)?;
            opened.catalogue.check_question(&row.id, &row.text)?;
            write(row)
        })?;
    prepared.rankings = rankings.counts()?;
    overlap.refuse_overlap()?;
    gold.refuse_unmeasurable(&opened.job, &prepared, evaluator)?;
    // Strata are known once all questions are read.
    let names = names_in_figures(opened, configured, &prepared)?;
    Ok((prepared, names, errors))
}

/// Questions by their gold.
#[derive(Clone, Copy, Debug, Default)]
struct GoldCounts {
    answers: u64,
    passages: u64,
    /// Whether a measure is defined for some question and configuration.
    measurable: bool,
}

impl GoldCounts {
    fn count_row(&mut self, row: &QuestionRow, evaluator: &OutcomeEvaluator) {
        self.answers += u64::from(!row.answers.is_empty());
        self.passages += u64::from(!row.gold.is_empty());
        self.measurable = self.measurable || evaluator.is_measurable(&evaluator.question_gold(row));
    }

    /// Refuses a run whose tables would be empty.
    fn refuse_unmeasurable(
        &self,
        job: &Job,
        prepared: &PreparationSummary,
        evaluator: &OutcomeEvaluator,
    ) -> Result<(), JobError> {
        let given = evaluator.given_results();
        // Methods without results make training data.
        if self.measurable || given.is_empty() {
            return Ok(());
        }
        let mut found = format!(
            "of {} questions, read as {}, {} have answers and {} gold passages; the configurations give {}",
            prepared.questions,
            prepared.format.map_or("no format", Format::name),
            self.answers,
            self.passages,
            given.join(" and ")
        );
        if !prepared.unread.is_empty() {
            found.push_str(&format!("; fields not read: {}", prepared.unread.join(", ")));
        }
        let hint = match prepared.contradiction {
            Some(other) => format!("the first row is of {other}: leave `format` out of [dataset], or name that one"),
            None if self.answers > 0 && given.contains(&"rankings") => {
                "`answer_hit_at = [10]` in [measures] measures rankings by the answers in their texts".to_owned()
            }
            None => "`hopeval data check` says which fields of the dataset are read".to_owned(),
        };
        let path = job.dataset.questions.paths().first().cloned().unwrap_or_default();
        Err(JobError::Unmeasurable { path, found, hint })
    }
}

impl RunNames {
    /// The names in the figures of `evaluator` over `configurations`.
    pub(super) fn from_parts(evaluator: &OutcomeEvaluator, configurations: &[Configuration]) -> Self {
        let names = configurations.iter().map(|configuration| configuration.replicated_name().to_owned());
        let numbered: Vec<String> = names.collect();
        let mut seen = BTreeSet::new();
        Self {
            measures: evaluator.measure_set().names().to_vec(),
            deciding: evaluator.measure_set().deciding_names().into_iter().map(str::to_owned).collect(),
            strata: evaluator.strata().to_vec(),
            configurations: numbered.iter().filter(|name| seen.insert(*name)).cloned().collect(),
            numbered,
        }
    }
}

/// The names in the figures of a run of these questions.
fn names_in_figures(
    opened: &OpenedJob,
    configured: &ConfiguredJob,
    prepared: &PreparationSummary,
) -> Result<RunNames, JobError> {
    let format = prepared.format.unwrap_or(Format::World);
    let (settings, methods) = (&opened.job.measures, &configured.methods);
    let passages = RunPassages::Corpus(Arc::clone(opened.corpus()));
    let evaluator = OutcomeEvaluator::new(settings, format, methods, &prepared.strata, &passages)?;
    Ok(RunNames::from_parts(&evaluator, &configured.configurations))
}
