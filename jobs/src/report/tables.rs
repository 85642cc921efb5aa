//! Final tables of a run: one writer evaluates the committed outcomes and writes them in one order.
//!
//! `outcomes`, `scores` and `measures` are byte-identical for the same job, whatever the workers, crashes and restarts:
//! they are sorted by (configuration, dataset index), summed in that order, and hold no run, time or measured cost.

use super::costs::{Attribution, cost_rows};
use super::measure_means::MeasureTotals;
use super::measure_versions::MeasureVersions;
use super::named_passages::NamedPassages;
use super::publish::publish_tables;
use crate::clock::now_ms;
use crate::error::JobError;
use crate::run::evaluation::evaluate_outcomes;
use crate::run::evaluator::{QuestionGold, is_ok};
use crate::run::leftovers;
use crate::run::open::OpenRun;
use hopeval_results::log::{FinalRecord, FinalTable, RecordBody};
use hopeval_results::tables::{
    ConfigurationRow, FinalOutcomeRow, LatencyRow, OutcomeRow, RunRow, ScoreRow, TableWriter, TraceRow, write_table,
};
use hopeval_results::{Log, layout};
use std::sync::Arc;

/// The counts of a finished run, and its tables.
#[derive(Clone, Debug, Default)]
pub struct FinishedRun {
    /// Outcomes with a status other than ok.
    pub failed: u64,
    /// All outcomes.
    pub outcomes: u64,
    /// The tables.
    pub tables: Vec<FinalTable>,
}

/// Writes the final tables of a run with all cohorts committed, appends their record to the log, and publishes them.
/// `mesh` is the last generation's processes and workers. `report` gets the stages `tables`, with the number of written
/// outcomes, and `publishing`, with the number of published tables.
///
/// # Errors
/// Uncommitted cohorts; a part cannot be read, a table cannot be written, a later generation has begun.
pub fn finish(
    run: &OpenRun,
    log: &mut Log,
    generation: u64,
    committer: &str,
    mesh: (u32, u32),
    report: &dyn Fn(&str, u64),
) -> Result<FinishedRun, JobError> {
    // An edit of gold may arrive while the tables are written. It finds the run unfinished, so its command does not
    // rewrite the tables. The log shows it after the record is appended. Later edits find the run finished.
    loop {
        let finished = write_tables(run, log, generation, mesh, report)?;
        let state = log.state();
        let (gold_edit, golds) = (state.last_gold_edit(), state.golds.len() as u64);
        let tables = finished.tables.clone();
        let body = RecordBody::Final(FinalRecord { tables, gold_edit, golds, live: serde_json::Value::Null });
        log.append(generation, committer, body)?;
        if !log.state().lacks_gold() {
            publish_tables(&run.places.store, log, &|tables| report("publishing", tables))?;
            if log.refresh()?.generation == generation {
                leftovers::clear_published(&run.places.store, run.id())?;
            }
            return Ok(finished);
        }
    }
}

/// Writes the final tables of a run anew, in a generation of its own. All cohorts must be committed.
///
/// # Errors
/// As [`finish`]; the log cannot be fenced.
pub fn rewrite(run: &OpenRun, log: &mut Log, committer: &str) -> Result<(), JobError> {
    let generation = log.append_fence(committer, 1, 1, &run.record.job_digest)?;
    finish(run, log, generation, committer, (1, 1), &|_, _| ()).map(drop)
}

/// Writes every final table under a name of its own.
fn write_tables(
    run: &OpenRun,
    log: &Log,
    generation: u64,
    mesh: (u32, u32),
    report: &dyn Fn(&str, u64),
) -> Result<FinishedRun, JobError> {
    let id = run.id();
    let (committed, expected) = (log.state().total_outcomes(), run.resolved.outcome_count());
    if committed != expected {
        let reason = format!("{committed} of its {expected} outcomes are committed, so it is not finished");
        return Err(JobError::Unfit { run: id.to_owned(), reason });
    }
    // Other writers of this run's tables, now or later, have another generation.
    let records = log.state().next;
    let place = |table: &str| layout::written_table(id, generation, records, table);
    let mut writing = OutcomeTables::create(run, &place)?;
    evaluate_outcomes(run, log, &mut |question, outcome, values| {
        writing.add_outcome(question, outcome, values)?;
        if writing.outcomes % 4096 == 0 {
            report("tables", writing.outcomes);
        }
        Ok(())
    })?;
    report("tables", writing.outcomes);
    let OutcomeTables {
        totals: board,
        attribution,
        mut passages,
        failed,
        outcomes,
        outcome_table,
        score_table,
        latency_table,
        trace_table,
        ..
    } = writing;
    let store = &run.places.store;
    let mut tables = vec![outcome_table.finish()?, score_table.finish()?, latency_table.finish()?];
    tables.extend(trace_table.map(TableWriter::finish).transpose()?);
    passages.add_gold(run, log)?;
    tables.push(write_table(store, &place("passages"), passages.rows(run))?);
    tables.push(write_table(store, &place("measures"), board.rows(run))?);
    tables.push(write_table(store, &place("costs"), cost_rows(run, log, &attribution)?)?);
    tables.push(write_table(store, &place("configurations"), configuration_rows(run))?);
    tables.push(write_table(store, &place("runs"), vec![run_row(run, log, mesh, outcomes, failed)])?);
    Ok(FinishedRun { failed, outcomes, tables })
}

/// The tables with a row for each outcome, while they are written, and the sums over outcomes.
struct OutcomeTables<'a> {
    run: &'a OpenRun,
    names: Vec<Arc<str>>,
    measures: Vec<Arc<str>>,
    versions: MeasureVersions,
    outcome_table: TableWriter<FinalOutcomeRow>,
    score_table: TableWriter<ScoreRow>,
    latency_table: TableWriter<LatencyRow>,
    /// Begun with the first outcome that has a trace.
    trace_table: Option<TableWriter<TraceRow>>,
    trace_place: String,
    totals: MeasureTotals,
    attribution: Attribution,
    passages: NamedPassages,
    outcomes: u64,
    failed: u64,
}

impl<'a> OutcomeTables<'a> {
    fn create(run: &'a OpenRun, place: &dyn Fn(&str) -> String) -> Result<Self, JobError> {
        let (store, set) = (&run.places.store, run.evaluator.measure_set());
        Ok(Self {
            run,
            names: run.configuration_names().into_iter().map(Arc::from).collect(),
            measures: set.names().iter().map(|name| name.as_str().into()).collect(),
            versions: MeasureVersions::new(run, &format!("{} ", set.profile())),
            outcome_table: TableWriter::new(store, &place("outcomes"))?,
            score_table: TableWriter::new(store, &place("scores"))?,
            latency_table: TableWriter::new(store, &place("latencies"))?,
            trace_table: None,
            trace_place: place("traces"),
            totals: MeasureTotals::new(run),
            attribution: Attribution::default(),
            passages: NamedPassages::new(run),
            outcomes: 0,
            failed: 0,
        })
    }

    /// Writes the rows of one outcome.
    fn add_outcome(
        &mut self,
        question: &QuestionGold,
        mut outcome: OutcomeRow,
        values: &[Option<f64>],
    ) -> Result<(), JobError> {
        self.totals.add(self.run, question, &outcome, values);
        self.attribution.add(&outcome);
        self.passages.add(&outcome);
        self.failed += u64::from(!is_ok(&outcome));
        self.outcomes += 1;
        self.add_scores(question, &outcome, values)?;
        let configuration = &self.names[outcome.configuration as usize];
        if let Some(timing) = &outcome.timing {
            self.latency_table.push(LatencyRow {
                configuration: configuration.as_ref().to_owned(),
                index: outcome.index,
                service_s: timing.service_s,
                queue_s: timing.queue_s,
                wall_s: timing.wall_s,
                mode: Some(self.run.resolved.job.run.mode.name().to_owned()),
                device_s: outcome.device_s,
            })?;
        }
        if let Some(trace) = outcome.take_trace_row(configuration) {
            let table = match &mut self.trace_table {
                Some(table) => table,
                None => self.trace_table.insert(TableWriter::new(&self.run.places.store, &self.trace_place)?),
            };
            table.push(trace)?;
        }
        let passage_name = |id| self.run.passages.id(id).to_owned();
        self.outcome_table.push(outcome.into_final(configuration, &passage_name))?;
        Ok(())
    }

    fn add_scores(
        &mut self,
        question: &QuestionGold,
        outcome: &OutcomeRow,
        values: &[Option<f64>],
    ) -> Result<(), JobError> {
        let configuration = outcome.configuration as usize;
        let id: Arc<str> = outcome.question.as_str().into();
        let gold_digest: Arc<str> = question.gold_digest.as_str().into();
        let measures = self.measures.iter().zip(self.versions.of_configuration(configuration));
        for ((measure, version), value) in measures.zip(values) {
            self.score_table.push(ScoreRow {
                configuration: Arc::clone(&self.names[configuration]),
                index: outcome.index,
                question: Arc::clone(&id),
                measure: Arc::clone(measure),
                version: Arc::clone(version),
                gold_digest: Arc::clone(&gold_digest),
                value: *value,
            })?;
        }
        Ok(())
    }
}

fn run_row(run: &OpenRun, log: &Log, mesh: (u32, u32), outcomes: u64, failed: u64) -> RunRow {
    let (resolved, prepared) = (&run.resolved, &run.resolved.prepared);
    RunRow {
        run: run.id().to_owned(),
        job: run.record.job.clone(),
        job_digest: run.record.job_digest.clone(),
        settings: run.record.settings.to_string(),
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_ms: run.record.created_ms,
        finished_ms: now_ms(),
        generations: log.state().generation,
        workers: mesh.1,
        processes: mesh.0,
        dataset: resolved.format().name().to_owned(),
        dataset_digest: resolved.dataset_digest.clone(),
        corpus: run.passages.corpus_name(),
        corpus_digest: Some(resolved.corpus_digest.clone()),
        passages: Some(resolved.passages),
        questions: prepared.questions,
        quarantined: prepared.quarantined,
        configurations: resolved.configurations.len() as u32,
        outcomes,
        failed,
        chunk_size: resolved.cohort_size,
        gold_edit: log.state().last_gold_edit(),
    }
}

fn configuration_rows(run: &OpenRun) -> Vec<ConfigurationRow> {
    let rows = run.resolved.configurations.iter().zip(&run.methods).enumerate();
    rows.map(|(position, (configuration, method))| ConfigurationRow {
        position: position as u32,
        configuration: configuration.name.clone(),
        method: configuration.kind.clone(),
        method_version: method.version(),
        parameters: configuration.parameters.to_string(),
        context_mode: method.context_mode().name().to_owned(),
        answers: method.gives_answers(),
        services: method.service_uses().iter().map(|used| format!("{}={}", used.parameter, used.service)).collect(),
        prompt_origin: method.wording().map(|wording| wording.origin.into_owned()),
        prompt_digest: method.wording().map(|wording| blake3::hash(wording.text.as_bytes()).to_hex().to_string()),
        replicate: configuration.replicate.map(|replicate| replicate.to_string()),
        control: configuration.control.clone(),
    })
    .collect()
}
