//! What a question of a finished run needed and took, by configuration: means over the run's tables.
//!
//! Three costs that are never mixed (see [`CostRow`]): *attributed*, a configuration's work as if nothing were shared, at the
//! run's measured rates; *incurred*, what the run spent; and *isolated*, measured where one question was in flight at a time,
//! which only a run of the mode `latency` has. Energy is attributed and incurred. What is not known is none, never 0.

use crate::error::JobError;
use crate::mode::Mode;
use crate::run::judge::OK;
use crate::run::settings::Resolved;
use hopeval_methods::Kind;
use hopeval_results::tables::{
    ConfigurationRow, CostRow, FinalOutcomeRow, LatencyRow, RunRow, TableReader, read_table,
};
use hopeval_results::{Log, RunRecord, Store, layout};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The accounts of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Accounting {
    /// The run.
    pub run: String,
    /// Its job.
    pub job: String,
    /// What stands above its tables.
    pub title: Option<String>,
    /// What it was timed for.
    pub mode: Mode,
    /// Questions.
    pub questions: u64,
    /// Passages of the corpus.
    pub passages: u64,
    /// Workers that it ended with.
    pub workers: u32,
    /// Its configurations, in the job's order.
    pub configurations: Vec<Account>,
    /// What the run spent, by service.
    #[serde(skip)]
    pub incurred: Vec<CostRow>,
}

/// The account of a configuration. Means are over its outcomes, failed ones too.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// The configuration.
    pub configuration: String,
    /// The method's kind.
    pub method: String,
    /// What it is a control of.
    pub control: Option<String>,
    /// Where its passages come from.
    pub context_mode: String,
    /// Outcomes.
    pub n: u64,
    /// Share of them that did not fail.
    pub coverage: Option<f64>,
    /// Parameters of the models that it asks, each service once; none where it asks no model, or the run's record does not say.
    pub parameters: Option<u64>,
    /// Rounds of the method's own loop.
    pub iterations: Option<f64>,
    /// Rounds of requests.
    pub rounds: Option<f64>,
    /// Passages that retrievers gave, repeats included.
    pub passages_retrieved: Option<f64>,
    /// Different passages that the outcome ranks.
    pub passages_kept: Option<f64>,
    /// What was asked, by service and kind.
    pub calls: Vec<Calls>,
    /// Sums over `calls`.
    pub attributed: Attributed,
    /// What one question took alone; none in the mode `throughput`.
    pub isolated: Option<Isolated>,
    /// How long it took in this run; none where that was not measured.
    pub latency: Option<Latency>,
}

/// Requests of one kind to one service: means over questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Calls {
    /// The service.
    pub service: String,
    /// The kind.
    pub kind: String,
    /// Requests.
    pub calls: f64,
    /// Tokens of their prompts.
    pub prompt_tokens: f64,
    /// Tokens that were generated.
    pub completion_tokens: f64,
    /// Tokens that were scored.
    pub scored_tokens: f64,
    /// Operations, as the service counts them.
    pub operations: f64,
    /// Of the requests those whose texts were cut to fit; none in runs of earlier versions.
    pub cut: Option<f64>,
    /// Seconds of the service, at the run's measured rate.
    pub service_s: Option<f64>,
    /// Seconds of the device, at the run's measured rate.
    pub device_s: Option<f64>,
    /// Joules that the device uses, at the run's measured rate; none where nothing counted them.
    pub energy_j: Option<f64>,
}

/// What a question needs without sharing, at the run's measured rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Attributed {
    /// Tokens of prompts.
    pub prompt_tokens: f64,
    /// Tokens that were generated.
    pub completion_tokens: f64,
    /// Tokens that were scored.
    pub scored_tokens: f64,
    /// Operations of models.
    pub operations: f64,
    /// Seconds of all services; none if the rate of one is not known. Look-ups in the mapped corpus are not counted.
    pub service_s: Option<f64>,
    /// Seconds of devices; none if no model is asked, or the rate of one is not known.
    pub device_s: Option<f64>,
    /// Money for devices; none where no price is known, and as `device_s`.
    pub money: Option<f64>,
    /// Joules that devices use; none where one of them does not count, and as `device_s`.
    pub energy_j: Option<f64>,
}

/// What a question took alone, in seconds: means over questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Isolated {
    /// From the first request to the outcome.
    pub wall_s: f64,
    /// Of devices; none where none was used.
    pub device_s: Option<f64>,
    /// Share of the time that devices were at work; of a CPU, of what its processors could have worked.
    pub device_use: Option<f64>,
    /// Money for devices; none where no price is known.
    pub money: Option<f64>,
}

/// Latencies of a configuration's questions, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Outcomes whose time was measured.
    pub n: u64,
    /// Critical path: for each round the longest of its requests' service times.
    pub service: Times,
    /// Waiting of the requests on the critical path.
    pub queue: Times,
    /// From the first request to the outcome.
    pub wall: Times,
}

/// A distribution of times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// The mean.
    pub mean: f64,
    /// The median; as the others by nearest rank, so that each is a time that was measured.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Times {
    /// Of at least one time.
    fn of(mut times: Vec<f64>) -> Self {
        let n = times.len();
        let mean = times.iter().sum::<f64>() / n as f64;
        times.sort_by(f64::total_cmp);
        let rank = |percent: usize| times[(n * percent).div_ceil(100).clamp(1, n) - 1];
        Self { mean, p50: rank(50), p90: rank(90), p99: rank(99) }
    }
}

impl Account {
    /// Requests of a kind, of all services.
    pub fn calls_of(&self, kind: Kind) -> f64 {
        total(self.calls.iter().filter(|calls| calls.kind == kind.name()).map(|calls| calls.calls))
    }
}

/// Reads the accounts of a finished run. Neither its corpus nor its models are needed.
///
/// # Errors
/// A run that is not finished; its record or a table cannot be read.
pub fn accounting(store: &Store, run: &str) -> Result<Accounting, JobError> {
    let record = RunRecord::load(store, run)?;
    let resolved: Resolved = serde_json::from_value(record.settings).map_err(|source| JobError::Stored {
        what: "the settings",
        run: run.to_owned(),
        source,
    })?;
    let log = Log::open(store, run)?;
    let Some(finished) = &log.state().finished else {
        let reason = format!("it has no tables before it is finished; `hopeval resume {run}` goes on with it");
        return Err(JobError::Unfit { run: run.to_owned(), reason });
    };
    let place =
        |table: &str| finished.path_of(table).map_or_else(|| layout::final_table(run, table), ToOwned::to_owned);
    let configurations = read_table::<ConfigurationRow>(store, &place("configurations"))?;
    let (attributed, incurred): (Vec<CostRow>, Vec<CostRow>) =
        read_table::<CostRow>(store, &place("costs"))?.into_iter().partition(|row| row.configuration.is_some());
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for row in TableReader::<FinalOutcomeRow>::open(store, &place("outcomes"))?.rows_from(0) {
        let row = row?;
        match counts.get_mut(&row.configuration) {
            Some(counts) => counts.add(&row),
            None => counts.entry(row.configuration.clone()).or_default().add(&row),
        }
    }
    let mut clocks: BTreeMap<String, Clock> = BTreeMap::new();
    for row in TableReader::<LatencyRow>::open(store, &place("latencies"))?.rows_from(0) {
        let row = row?;
        clocks.entry(row.configuration.clone()).or_default().add(&row);
    }
    let (mode, price) = (resolved.job.run.mode, resolved.job.run.price_per_device_hour);
    let accounts = configurations.into_iter().map(|configuration| {
        let name = configuration.configuration.clone();
        let counts = counts.remove(&name).unwrap_or_default();
        let rows = attributed.iter().filter(|row| row.configuration.as_deref() == Some(&name));
        let account = counts.account(configuration, &resolved.parameters, rows);
        let clock = clocks.remove(&name).filter(|clock| !clock.wall.is_empty());
        let isolated = clock.as_ref().filter(|_| mode == Mode::Latency).map(|clock| clock.isolated(price));
        Account { isolated, latency: clock.map(Clock::latency), ..account }
    });
    let configurations = accounts.collect();
    let runs = read_table::<RunRow>(store, &place("runs"))?;
    Ok(Accounting {
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

/// Sums over a configuration's outcomes.
#[derive(Default)]
struct Counts {
    n: u64,
    ok: u64,
    iterations: u64,
    rounds: u64,
    /// None if an outcome does not say.
    retrieved: Option<u64>,
    kept: u64,
}

impl Counts {
    fn add(&mut self, row: &FinalOutcomeRow) {
        let before = if self.n == 0 { Some(0) } else { self.retrieved };
        self.retrieved = before.zip(row.retrieved).map(|(sum, more)| sum + more);
        self.n += 1;
        self.ok += u64::from(row.status == OK);
        self.iterations += u64::from(row.iterations);
        self.rounds += u64::from(row.rounds);
        self.kept += row.ranked.len() as u64;
    }

    fn account<'a>(
        &self,
        configuration: ConfigurationRow,
        parameters: &BTreeMap<String, u64>,
        costs: impl Iterator<Item = &'a CostRow>,
    ) -> Account {
        let n = self.n as f64;
        let mean = |sum: u64| (self.n > 0).then(|| sum as f64 / n);
        let of_question = |sum: u64| mean(sum).unwrap_or(0.0);
        let each = |sum: Option<f64>| sum.filter(|_| self.n > 0).map(|sum| sum / n);
        let costs: Vec<&CostRow> = costs.collect();
        let calls = costs.iter().map(|row| Calls {
            service: row.service.clone(),
            kind: row.kind.clone(),
            calls: of_question(row.requests),
            prompt_tokens: of_question(row.prompt_tokens),
            completion_tokens: of_question(row.completion_tokens),
            scored_tokens: of_question(row.scored_tokens),
            operations: of_question(row.operations),
            cut: row.cut.and_then(mean),
            service_s: each(row.service_s),
            device_s: each(row.device_s),
            energy_j: each(row.energy_j),
        });
        let calls: Vec<Calls> = calls.collect();
        let sum = |of: fn(&Calls) -> f64| total(calls.iter().map(of));
        let computed = costs.iter().filter(|row| !is_look_up(row));
        // Whoever has tokens asked a model.
        let of_models = |row: &&&CostRow| row.prompt_tokens + row.completion_tokens + row.scored_tokens > 0;
        let on_devices =
            |of: fn(&CostRow) -> Option<f64>| each(known_sum(costs.iter().filter(of_models).map(|row| of(row))));
        let attributed = Attributed {
            prompt_tokens: sum(|calls| calls.prompt_tokens),
            completion_tokens: sum(|calls| calls.completion_tokens),
            scored_tokens: sum(|calls| calls.scored_tokens),
            operations: sum(|calls| calls.operations),
            service_s: each(known_sum(computed.map(|row| row.service_s))),
            device_s: on_devices(|row| row.device_s),
            money: on_devices(|row| row.money),
            energy_j: on_devices(|row| row.energy_j),
        };
        // A service that several parameters name is one model.
        let services: BTreeSet<&str> =
            configuration.services.iter().filter_map(|used| Some(used.split_once('=')?.1)).collect();
        let models: Vec<u64> = services.into_iter().filter_map(|service| parameters.get(service).copied()).collect();
        Account {
            configuration: configuration.configuration,
            method: configuration.method,
            control: configuration.control,
            context_mode: configuration.context_mode,
            n: self.n,
            coverage: mean(self.ok),
            parameters: (!models.is_empty()).then(|| models.iter().sum()),
            iterations: mean(self.iterations),
            rounds: mean(self.rounds),
            passages_retrieved: self.retrieved.and_then(mean),
            passages_kept: mean(self.kept),
            calls,
            attributed,
            isolated: None,
            latency: None,
        }
    }
}

/// Whether these requests were looked up in the mapped corpus: nothing computes, and nothing is timed.
fn is_look_up(row: &CostRow) -> bool {
    [Kind::Passages, Kind::Links].iter().any(|kind| kind.name() == row.kind)
}

/// The sum, which is 0 of nothing: that of the standard library is -0.
fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, next| sum + next)
}

/// The sum, if there is something to sum and all of it is known.
fn known_sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.reduce(|sum, next| Some(sum? + next?)).flatten()
}

/// Times of a configuration's outcomes, in seconds.
#[derive(Default)]
struct Clock {
    service: Vec<f64>,
    queue: Vec<f64>,
    wall: Vec<f64>,
    device_s: Option<f64>,
}

impl Clock {
    fn add(&mut self, row: &LatencyRow) {
        self.service.push(row.service_s);
        self.queue.push(row.queue_s);
        self.wall.push(row.wall_s);
        if let Some(seconds) = row.device_s {
            *self.device_s.get_or_insert(0.0) += seconds;
        }
    }

    /// `price` is that of a device's hour.
    fn isolated(&self, price: Option<f64>) -> Isolated {
        let (n, wall) = (self.wall.len() as f64, self.wall.iter().sum::<f64>());
        let device_use = self.device_s.filter(|_| wall > 0.0).map(|device_s| device_s / wall);
        let device_s = self.device_s.map(|sum| sum / n);
        let money = device_s.zip(price).map(|(seconds, price)| seconds * price / 3600.0);
        Isolated { wall_s: wall / n, device_s, device_use, money }
    }

    fn latency(self) -> Latency {
        Latency {
            n: self.wall.len() as u64,
            service: Times::of(self.service),
            queue: Times::of(self.queue),
            wall: Times::of(self.wall),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = Times::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(times, Times { mean: 50.5, p50: 50.0, p90: 90.0, p99: 99.0 });
        assert_eq!(Times::of(vec![2.0]), Times { mean: 2.0, p50: 2.0, p90: 2.0, p99: 2.0 });
        assert_eq!(Times::of(vec![3.0, 1.0, 2.0]).p90, 3.0);
    }

    #[test]
    fn a_sum_of_what_is_not_known_is_not_known() {
        assert_eq!(known_sum([Some(1.0), Some(2.0)].into_iter()), Some(3.0));
        assert_eq!(known_sum([Some(1.0), None, Some(2.0)].into_iter()), None);
        assert_eq!(known_sum([].into_iter()), None);
    }

    fn row(kind: &str, tokens: u64, service_s: Option<f64>, device_s: Option<f64>) -> CostRow {
        CostRow {
            service: format!("of_{kind}"),
            kind: kind.to_owned(),
            requests: 6,
            prompt_tokens: tokens,
            service_s,
            device_s,
            ..CostRow::default()
        }
    }

    fn counts(rows: &[FinalOutcomeRow]) -> Counts {
        let mut counts = Counts::default();
        rows.iter().for_each(|row| counts.add(row));
        counts
    }

    #[test]
    fn means_are_over_all_outcomes_and_nulls_stay_null() {
        let outcome = |status: &str, retrieved| FinalOutcomeRow {
            status: status.to_owned(),
            ranked: vec![1, 2, 3],
            iterations: 2,
            rounds: 5,
            retrieved,
            ..FinalOutcomeRow::default()
        };
        let two = counts(&[outcome("ok", Some(10)), outcome("timeout", Some(4))]);
        let configuration = ConfigurationRow {
            services: vec!["scorer=t5".to_owned(), "again=t5".to_owned(), "retriever=bm25".to_owned()],
            ..ConfigurationRow::default()
        };
        let parameters = BTreeMap::from([("t5".to_owned(), 70), ("other".to_owned(), 9)]);
        let rows =
            [row("score", 40, Some(3.0), Some(2.0)), row("retrieve", 0, Some(1.0), None), row("links", 0, None, None)];
        let account = two.account(configuration.clone(), &parameters, rows.iter());
        assert_eq!((account.n, account.coverage, account.parameters), (2, Some(0.5), Some(70)));
        assert_eq!(
            (account.iterations, account.passages_retrieved, account.passages_kept),
            (Some(2.0), Some(7.0), Some(3.0))
        );
        assert_eq!((account.calls_of(Kind::Score), account.calls_of(Kind::Read)), (3.0, 0.0));
        assert!(account.calls_of(Kind::Read).is_sign_positive());
        let Attributed { prompt_tokens, service_s, device_s, money, energy_j, .. } = account.attributed;
        assert_eq!((prompt_tokens, service_s, device_s, money), (20.0, Some(2.0), Some(1.0), None));
        assert_eq!((energy_j, account.calls[0].energy_j), (None, None));

        // All answers of the scorer were in the journal: what they take is not known.
        let journalled = [row("score", 40, None, None), row("retrieve", 0, Some(1.0), None)];
        let account = two.account(configuration.clone(), &BTreeMap::new(), journalled.iter());
        assert_eq!((account.attributed.service_s, account.attributed.device_s, account.parameters), (None, None, None));
        let earlier = counts(&[outcome("ok", Some(10)), outcome("ok", None)]);
        assert_eq!(earlier.account(configuration, &parameters, [].iter()).passages_retrieved, None);
    }

    #[test]
    fn joules_of_a_question_are_those_of_its_models_if_all_are_counted() {
        let two = counts(&[FinalOutcomeRow::default(), FinalOutcomeRow::default()]);
        let counted = |kind, joules| CostRow { energy_j: joules, ..row(kind, 40, Some(3.0), Some(2.0)) };
        // A retriever has no device.
        let search = row("retrieve", 0, Some(1.0), None);
        let joules = |rows: &[CostRow]| {
            let account = two.account(ConfigurationRow::default(), &BTreeMap::new(), rows.iter());
            (account.calls.iter().map(|calls| calls.energy_j).collect::<Vec<_>>(), account.attributed.energy_j)
        };
        let rows = [counted("score", Some(600.0)), counted("read", Some(50.0)), search.clone()];
        assert_eq!(joules(&rows), (vec![Some(300.0), Some(25.0), None], Some(325.0)));
        // One model on the CPU, where nothing counts.
        let rows = [counted("score", Some(600.0)), counted("read", None), search];
        assert_eq!(joules(&rows), (vec![Some(300.0), None, None], None));
    }

    #[test]
    fn a_device_s_share_is_of_the_time_of_all_questions() {
        let mut clock = Clock::default();
        for (wall_s, device_s) in [(2.0, Some(1.0)), (2.0, None)] {
            clock.add(&LatencyRow { wall_s, device_s, ..LatencyRow::default() });
        }
        let expected = Isolated { wall_s: 2.0, device_s: Some(0.5), device_use: Some(0.25), money: None };
        assert_eq!(clock.isolated(None), expected);
        assert_eq!(clock.isolated(Some(7200.0)), Isolated { money: Some(1.0), ..expected });
        assert_eq!(clock.latency().n, 2);
    }
}
