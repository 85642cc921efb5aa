//! Computes the mean usage and timing of a question of a finished run, by configuration, from the run's tables.
//!
//! Three costs are never mixed (see [`CostRow`]). *Attributed* cost is a configuration's work as if nothing were
//! shared, at the run's measured rates. *Incurred* cost is the run's real expense. *Isolated* cost is measured with one
//! question in flight at a time; only runs of the mode `latency` have it. Energy is attributed and incurred. Unknown
//! figures are `None`, never 0. Costs *brought* with the outcomes of another system are a fourth kind, and are shown as
//! their file gives them.

mod account;
mod clock;
mod counts;

pub use account::{AttributedCosts, BroughtCosts, ConfigurationCosts, MeanCalls};
pub use clock::{IsolatedCosts, LatencySummary, TimeDistribution};

use self::clock::LatencySamples;
use self::counts::OutcomeCounts;
use crate::error::JobError;
use crate::mode::TimingMode;
use crate::run::settings::ResolvedSettings;
use hopeval_results::log::FinalRecord;
use hopeval_results::tables::{
    ConfigurationRow, CostRow, FinalOutcomeRow, LatencyRow, Row, RunRow, TableReader, read_final,
};
use hopeval_results::{Log, RunRecord, Store};
use serde::Serialize;
use std::collections::BTreeMap;

/// Costs of a run's configurations.
#[derive(Clone, Debug, Serialize)]
pub struct RunCosts {
    /// The run.
    pub run: String,
    /// Its job.
    pub job: String,
    /// The heading of its tables.
    pub title: Option<String>,
    /// Timed for throughput or latency.
    pub mode: TimingMode,
    /// Questions.
    pub questions: u64,
    /// Passages of the corpus.
    pub passages: u64,
    /// Workers of its last generation.
    pub workers: u32,
    /// Its configurations, in the job's order.
    pub configurations: Vec<ConfigurationCosts>,
    /// Incurred costs, by service.
    #[serde(skip)]
    pub incurred: Vec<CostRow>,
}

/// Reads the costs of a finished run. Neither its corpus nor its models are needed.
///
/// # Errors
/// An unfinished run; its record or a table cannot be read.
pub fn read_run_costs(store: &Store, run: &str) -> Result<RunCosts, JobError> {
    let record = RunRecord::load(store, run)?;
    let resolved: ResolvedSettings = serde_json::from_value(record.settings).map_err(|source| JobError::Stored {
        what: "the settings",
        run: run.to_owned(),
        source,
    })?;
    let tables = FinalTables::open(store, run)?;
    let configurations = tables.read_rows::<ConfigurationRow>()?;
    let (attributed, incurred): (Vec<CostRow>, Vec<CostRow>) =
        tables.read_rows::<CostRow>()?.into_iter().partition(|row| row.configuration.is_some());
    let mut counts = tables.outcome_counts()?;
    let mut clocks = tables.latency_clocks()?;
    let (mode, price) = (resolved.job.run.mode, resolved.job.run.price_per_device_hour);
    let accounts = configurations.into_iter().map(|configuration| {
        let name = configuration.configuration.clone();
        let counts = counts.remove(&name).unwrap_or_default();
        let rows = attributed.iter().filter(|row| row.configuration.as_deref() == Some(&name));
        let account = counts.configuration_costs(configuration, &resolved.parameters, rows);
        let clock = clocks.remove(&name).filter(|clock| !clock.is_empty());
        let isolated = clock.as_ref().filter(|_| mode == TimingMode::Latency).map(|clock| clock.isolated(price));
        ConfigurationCosts { isolated, latency: clock.map(LatencySamples::into_summary), ..account }
    });
    let configurations = accounts.collect();
    let runs = tables.read_rows::<RunRow>()?;
    Ok(RunCosts {
        run: run.to_owned(),
        job: record.job,
        title: resolved.job.title,
        mode,
        questions: resolved.prepared.questions,
        passages: resolved.passages,
        workers: runs.first().map_or(0, |row| row.workers),
        configurations,
        incurred,
    })
}

/// The tables of a finished run.
struct FinalTables<'a> {
    store: &'a Store,
    run: &'a str,
    tables: FinalRecord,
}

impl<'a> FinalTables<'a> {
    fn open(store: &'a Store, run: &'a str) -> Result<Self, JobError> {
        let log = Log::open(store, run)?;
        let Some(tables) = log.state().finished.clone() else {
            let reason = format!("it has no tables before it is finished; `hopeval resume {run}` goes on with it");
            return Err(JobError::Unfit { run: run.to_owned(), reason });
        };
        Ok(Self { store, run, tables })
    }

    fn open_table<R: Row>(&self) -> Result<TableReader<R>, JobError> {
        Ok(TableReader::open_final(self.store, self.run, &self.tables)?)
    }

    fn read_rows<R: Row>(&self) -> Result<Vec<R>, JobError> {
        Ok(read_final(self.store, self.run, &self.tables)?)
    }

    /// Counts of the outcomes, by configuration.
    fn outcome_counts(&self) -> Result<BTreeMap<String, OutcomeCounts>, JobError> {
        let mut counts: BTreeMap<String, OutcomeCounts> = BTreeMap::new();
        for row in self.open_table::<FinalOutcomeRow>()?.rows_from(0) {
            let row = row?;
            match counts.get_mut(&row.configuration) {
                Some(counts) => counts.add(&row),
                None => counts.entry(row.configuration.clone()).or_default().add(&row),
            }
        }
        Ok(counts)
    }

    /// Times of the outcomes, by configuration.
    fn latency_clocks(&self) -> Result<BTreeMap<String, LatencySamples>, JobError> {
        let mut clocks: BTreeMap<String, LatencySamples> = BTreeMap::new();
        for row in self.open_table::<LatencyRow>()?.rows_from(0) {
            let row = row?;
            clocks.entry(row.configuration.clone()).or_default().add(&row);
        }
        Ok(clocks)
    }
}
