//! Makes a run of judges: a run whose questions are those of a finished run, with its answers to be judged.
//!
//! ```text
//!   judged run: outcomes, gold as edited --+
//!                                          +--> questions with predictions, settings --> a run like any other
//!   judges of a job: [judge], [service] ---+
//! ```
//!
//! From then on nothing is special: each judge over each judged configuration is a configuration, and its machines are
//! driven, journalled, capped and committed as those of methods. The run stands by itself; the judged run stays as it
//! is. It has an empty corpus, so fingerprints of its services do not depend on the judged run's: equal prompts of
//! all runs are asked once.

use super::evaluation::evaluate_outcomes;
use super::evaluator::OutcomeEvaluator;
use super::make::{NameCheck, RunNames};
use super::making::MakingOrder;
use super::new_run::{create_record, new_id, resolve_settings};
use super::open::OpenRun;
use super::passages::RunPassages;
use super::settings::JudgedRun;
use crate::cache::ProgressReporter;
use crate::clock::now_ms;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::references;
use crate::job::sweep::{self, JudgedConfiguration};
use crate::places::Places;
use crate::prepare::corpora::dataset_spec;
use crate::prepare::opening::{ConfiguredJob, OpenedJob};
use crate::prepare::questions::{PredictionRecord, PreparationSummary, QuestionDetails};
use crate::services::catalogue::Catalogue;
use crate::services::dataset_questions::DatasetQuestions;
use hopeval_methods::MethodSetting;
use hopeval_results::tables::{ErrorRow, OutcomeRow, QuestionRow, TableWriter, write_table};
use hopeval_results::{Log, layout};
use std::collections::{BTreeMap, BTreeSet};

/// Makes a run of the judges of `judges` over the outcomes of the run `judged`, unless `check` refuses its names, and
/// returns its id. `judges` is a job, or the judges of a file by themselves ([`Job::load_judges`]).
///
/// # Errors
/// A run that is not finished, that judges another one, or without answers; unsuitable judges; errors of the store.
pub fn make_judging_run(
    judges: &Job,
    judged: &str,
    places: &Places,
    check: NameCheck<'_>,
    report: ProgressReporter<'_>,
) -> Result<String, JobError> {
    let input = JudgingInput::open(judges, judged, places, report)?;
    let created_ms = now_ms();
    let run = new_id(created_ms, judged, &input.judged.record.job_digest);
    let order = MakingOrder { run, created_ms, job: judges.clone(), quarantine: None, judged: Some(judged.to_owned()) };
    order.store(&places.store)?;
    order.complete(&places.store, || input.write_files(&order, places, check, report))
}

/// Makes the ordered run of judges over the run `judged`.
///
/// # Errors
/// As [`make_judging_run`].
pub(super) fn make_from(
    order: &MakingOrder,
    judged: &str,
    places: &Places,
    report: ProgressReporter<'_>,
) -> Result<String, JobError> {
    let input = JudgingInput::open(&order.job, judged, places, report)?;
    order.complete(&places.store, || input.write_files(order, places, &|_| Ok(()), report))
}

/// A finished run and the judges of its answers.
struct JudgingInput {
    judged: OpenRun,
    log: Log,
    /// The judged configurations, with their positions.
    configurations: Vec<(usize, JudgedConfiguration)>,
    job: Job,
}

impl JudgingInput {
    fn open(judges: &Job, judged: &str, places: &Places, report: ProgressReporter<'_>) -> Result<Self, JobError> {
        let unfit = |reason: String| JobError::Unfit { run: judged.to_owned(), reason };
        if judges.judge.is_empty() {
            return Err(unfit(
                "there is no judge: its job has no table [judge.NAME], and no other is given".to_owned(),
            ));
        }
        let run = OpenRun::open_outcomes(places, judged, report)?;
        if let Some(other) = &run.resolved.judged {
            return Err(unfit(format!("it is a run of judges itself, over run {}", other.run)));
        }
        let log = Log::open(&places.store, judged)?;
        if log.state().total_outcomes() < run.resolved.outcome_count() {
            return Err(unfit(format!("it is not finished; `hopeval resume {judged}` goes on with it")));
        }
        let configurations = judged_configurations(&run);
        if configurations.is_empty() {
            return Err(unfit("none of its configurations gives answers".to_owned()));
        }
        let job = judging_job(judges, &run, &configurations)?;
        Ok(Self { judged: run, log, configurations, job })
    }

    /// Writes the questions and the record.
    fn write_files(
        self,
        order: &MakingOrder,
        places: &Places,
        check: NameCheck<'_>,
        report: ProgressReporter<'_>,
    ) -> Result<(), JobError> {
        let Self { judged, log, configurations, job } = self;
        let (corpus, corpus_key) = places.cache.find_corpus(&job, false, report)?;
        let mode = job.run.mode;
        let questions = DatasetQuestions::new(dataset_spec(&job.dataset, None));
        let catalogue = Catalogue::open(corpus, &job.service, &places.cache, places.threads, mode, &questions, report)?;
        let opened = OpenedJob { job, corpus_key, catalogue };
        let subjects: Vec<JudgedConfiguration> = configurations.iter().map(|(_, subject)| subject.clone()).collect();
        let judging = sweep::judge_configurations(&opened.job, &subjects);
        let configured = ConfiguredJob::of_configurations(&opened, judging, places, report)?;
        check(&names_in_figures(&judged, &opened.job, &configured)?).map_err(JobError::Names)?;
        let predictions = Predictions::read(&judged, &log, &configurations)?;
        let store = &places.store;
        let mut writer = TableWriter::<QuestionRow>::new(store, &layout::questions_table(&order.run))?;
        let mut hasher = blake3::Hasher::new_derive_key("hopeval judged outcomes 1");
        for row in judged.questions_from(&log, 0)? {
            let row = predictions.judged_row(row?);
            if row.index % 1024 == 0 {
                report("questions", row.index);
            }
            for text in [&row.id, &row.text, &row.gold_digest, &row.record] {
                hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            }
            writer.push(row)?;
        }
        let written = writer.finish()?;
        let set_aside = write_table(store, &layout::final_table(&order.run, "errors"), Vec::<ErrorRow>::new())?;
        let checks = [written, set_aside].into_iter().map(|file| (file.path.clone(), file.file_check())).collect();
        let prepared = PreparationSummary {
            questions: judged.resolved.prepared.questions,
            format: judged.resolved.prepared.format,
            strata: judged.resolved.prepared.strata.clone(),
            ..PreparationSummary::default()
        };
        let digest = hasher.finalize().to_hex().to_string();
        let mut resolved = resolve_settings(opened, configured, prepared, digest, false);
        // The rows are copied, so they have what those of the judged run have.
        resolved.grades = judged.resolved.grades;
        resolved.judged = Some(JudgedRun {
            run: judged.id().to_owned(),
            job_digest: judged.record.job_digest.clone(),
            gold_edit: log.state().last_gold_edit(),
        });
        create_record(store, order, &resolved, checks)
    }
}

/// The names in the figures of the judges over `judged`.
fn names_in_figures(judged: &OpenRun, job: &Job, configured: &ConfiguredJob) -> Result<RunNames, JobError> {
    let (format, strata) = (judged.resolved.format(), &judged.resolved.prepared.strata);
    let none = RunPassages::none();
    let evaluator = OutcomeEvaluator::new(&job.measures, format, &configured.methods, strata, &none)?;
    Ok(RunNames::from_parts(&evaluator, &configured.configurations))
}

/// The configurations of a run with answers, and their positions.
fn judged_configurations(run: &OpenRun) -> Vec<(usize, JudgedConfiguration)> {
    let all = run.resolved.configurations.iter().zip(&run.methods).enumerate();
    let answering = all.filter(|(_, (_, method))| method.gives_answers());
    answering
        .map(|(position, (configuration, method))| {
            let subject = JudgedConfiguration {
                name: configuration.name.clone(),
                replicated_name: configuration.replicated_name().to_owned(),
                replicate: configuration.replicate,
                control: configuration.control.clone(),
                context_mode: method.context_mode(),
            };
            (position, subject)
        })
        .collect()
}

/// The job of the judges over the outcomes of `run`.
fn judging_job(judges: &Job, run: &OpenRun, configurations: &[(usize, JudgedConfiguration)]) -> Result<Job, JobError> {
    let subjects: Vec<JudgedConfiguration> = configurations.iter().take(1).map(|(_, one)| one.clone()).collect();
    let mut open = sweep::judge_configurations(judges, &subjects);
    references::leave_open(&mut open);
    let methods = sweep::build_methods(&open, &MethodSetting::of_corpus(0))?;
    let used: BTreeSet<String> =
        methods.iter().flat_map(|method| method.service_uses()).map(|used| used.service.to_string()).collect();
    let mut job = judges.judging(&run.resolved.job, run.evaluator.measure_set().profile(), &used);
    // The table of questions keeps the format, which has the scoring profile and the gold's identity.
    job.dataset.format = run.resolved.prepared.format;
    Ok(job)
}

/// The outcomes of the judged configurations. Held in memory: a hundred bytes or so for each.
struct Predictions {
    names: Vec<String>,
    /// By configuration, then by question.
    records: Vec<Vec<PredictionRecord>>,
}

impl Predictions {
    fn read(run: &OpenRun, log: &Log, configurations: &[(usize, JudgedConfiguration)]) -> Result<Self, JobError> {
        let slots: BTreeMap<usize, usize> =
            configurations.iter().enumerate().map(|(slot, (position, _))| (*position, slot)).collect();
        let questions = run.resolved.prepared.questions as usize;
        let mut records = vec![vec![PredictionRecord::default(); questions]; configurations.len()];
        evaluate_outcomes(run, log, &mut |_, outcome, _| {
            let slot = slots.get(&(outcome.configuration as usize));
            if let Some(record) = slot.and_then(|&slot| records[slot].get_mut(outcome.index as usize)) {
                *record = prediction_record(&outcome);
            }
            Ok(())
        })?;
        let names = configurations.iter().map(|(_, subject)| subject.name.clone()).collect();
        Ok(Self { names, records })
    }

    /// A question of the judged run with its predictions, and without passages, which stand in no corpus here.
    fn judged_row(&self, row: QuestionRow) -> QuestionRow {
        let of_question = self.records.iter().map(|records| &records[row.index as usize]);
        let predictions = self.names.iter().cloned().zip(of_question.cloned()).collect();
        let details = QuestionDetails { predictions, ..QuestionDetails::default() };
        let record = serde_json::to_string(&details).expect("plain data can be written as JSON; this is a bug");
        QuestionRow { gold: Vec::new(), candidates: Vec::new(), record, ..row }
    }
}

fn prediction_record(outcome: &OutcomeRow) -> PredictionRecord {
    PredictionRecord {
        status: outcome.status.clone(),
        message: outcome.message.clone(),
        answer: outcome.answer.clone(),
    }
}
