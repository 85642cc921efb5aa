//! Final tables of a run: committed outcomes, judged and written in one order by one writer.
//!
//! `outcomes`, `scores` and `measures` are byte-identical for the same job, whatever the workers, crashes and restarts:
//! they are sorted by (configuration, dataset index), summed in that order, and hold no run, time or measured cost.

use crate::error::JobError;
use crate::host::{Needs, outcome_row, question as machine_question, read_texts};
use crate::judge::{Answerable, is_ok};
use crate::ledger::{Note, Spending};
use crate::recall::Recall;
use crate::record::Record;
use crate::run::Open;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_measures::{Scratch, aggregate};
use hopeval_methods::transcript::Transcript;
use hopeval_results::journal::scan_segment;
use hopeval_results::log::{Body, Final, FinalTable};
use hopeval_results::tables::{
    CallRow, ConfigurationRow, CostRow, FinalOutcomeRow, LatencyRow, MeasureRow, OutcomeRow, QuestionRow, RequestRow,
    RunRow, ScoreRow, TableWriter, outcomes,
};
use hopeval_results::{Log, layout};
use std::collections::BTreeMap;

/// Sums of one measure over one stratum of one configuration.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    n: u64,
    ok: u64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, value: f64, ok: bool) {
        self.n += 1;
        self.ok += u64::from(ok);
        self.sum += value;
        self.squares += value * value;
    }
}

/// A measure's mean with its error, as tables and `show` have it.
pub fn measure_row(names: (&str, &str, &str, &str, &str, &str), n: u64, ok: u64, sum: f64, squares: f64) -> MeasureRow {
    let (configuration, stratum, measure, version, profile, context_mode) = names;
    let count = n as f64;
    let value = (n > 0).then(|| sum / count);
    // The standard error of a mean by the central limit theorem, with n - 1.
    let stderr = (n > 1).then(|| ((squares - sum * sum / count).max(0.0) / (count - 1.0) / count).sqrt());
    let interval = value.zip(stderr).map(|(mean, stderr)| aggregate::normal(mean, stderr));
    MeasureRow {
        configuration: configuration.to_owned(),
        stratum: stratum.to_owned(),
        measure: measure.to_owned(),
        version: version.to_owned(),
        profile: profile.to_owned(),
        context_mode: context_mode.to_owned(),
        value,
        stderr,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        n,
        coverage: (n > 0).then(|| ok as f64 / count),
    }
}

/// What a finished run holds, in short.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Outcomes whose status is not ok.
    pub failed: u64,
    /// All outcomes.
    pub outcomes: u64,
    /// The tables.
    pub tables: Vec<FinalTable>,
}

/// Takes an outcome with the gold that judges it and the values of all measures.
type Each<'a> = &'a mut dyn FnMut(&Answerable, &OutcomeRow, &[Option<f64>]) -> Result<(), JobError>;

/// Judges all committed outcomes and hands them on in final order.
///
/// # Errors
/// The questions, a part or an edit of gold cannot be read.
pub fn judged(run: &Open, log: &Log, each: Each<'_>) -> Result<(), JobError> {
    let edits = crate::gold::edits(&run.places.store, log)?;
    let mut gold = GoldReader::new(run, log)?;
    let (mut scratch, mut values) = (Scratch::default(), Vec::new());
    let (configurations, chunk) = (run.resolved.configurations.len(), run.resolved.chunk);
    for outcome in outcomes::in_final_order(&run.places.store, run.id(), log.state(), configurations, chunk) {
        let mut outcome = outcome?;
        let question = gold.of(outcome.index)?;
        if let Some(edit) = edits.get(&outcome.index)
            && run.company.methods[outcome.configuration as usize].reads_gold()
        {
            outcome = drive_again(run, outcome.configuration, edit)?;
        }
        run.judge.score(question, &outcome, &mut scratch, &mut values);
        each(question, &outcome, &values)?;
    }
    Ok(())
}

/// Questions whose gold is held in memory; more are read again for every configuration.
const HELD: u64 = 1 << 15;

/// Gives the gold of questions in the order of final tables: all of them for one configuration, then for the next.
pub struct GoldReader<'a> {
    run: &'a Open,
    log: &'a Log,
    held: Vec<Answerable>,
    rows: Option<Box<dyn Iterator<Item = Result<QuestionRow, JobError>> + 'a>>,
    current: Option<Answerable>,
}

impl<'a> GoldReader<'a> {
    /// For the questions of a run, with the edits that `log` knows.
    ///
    /// # Errors
    /// The questions cannot be read.
    pub fn new(run: &'a Open, log: &'a Log) -> Result<Self, JobError> {
        let mut held = Vec::new();
        if run.resolved.prepared.questions <= HELD {
            for row in run.questions(log, 0)? {
                held.push(run.judge.answerable(&row?));
            }
        }
        Ok(Self { run, log, held, rows: None, current: None })
    }

    /// The gold of the question at position `index`; cheap as long as positions rise.
    ///
    /// # Errors
    /// The questions cannot be read, or end before `index`.
    pub fn of(&mut self, index: u64) -> Result<&Answerable, JobError> {
        if !self.held.is_empty() {
            return self.held.get(index as usize).ok_or_else(|| self.absent(index));
        }
        if self.current.as_ref().is_some_and(|current| current.index > index) {
            self.rows = None;
        }
        while self.current.as_ref().is_none_or(|current| current.index != index) {
            let rows = match &mut self.rows {
                Some(rows) => rows,
                None => self.rows.insert(Box::new(self.run.questions(self.log, index)?)),
            };
            let row = rows.next().transpose()?;
            self.current = Some(self.run.judge.answerable(&row.ok_or_else(|| self.absent(index))?));
        }
        self.current.as_ref().ok_or_else(|| self.absent(index))
    }

    fn absent(&self, index: u64) -> JobError {
        JobError::Unfit { run: self.run.id().to_owned(), reason: format!("its questions end before position {index}") }
    }
}

/// Drives one question of one configuration here and now, with the services of this process.
///
/// # Errors
/// A request that these services do not answer.
pub fn drive_again(run: &Open, configuration: u32, question: &QuestionRow) -> Result<OutcomeRow, JobError> {
    let transcript = transcript(run, configuration, question)?;
    let mut needs = Needs::default();
    for round in &transcript.rounds {
        round.requests.iter().zip(&round.responses).for_each(|(request, response)| needs.add(request, response));
    }
    let rounds = transcript.rounds.len() as u32;
    Ok(outcome_row(configuration, question, transcript.outcome, rounds, needs, None))
}

/// The transcript of one question under one configuration, driven again.
///
/// # Errors
/// A request that these services do not answer.
pub fn transcript(run: &Open, configuration: u32, question: &QuestionRow) -> Result<Transcript, JobError> {
    let method = run.company.methods[configuration as usize].as_ref();
    let name = &run.resolved.configurations[configuration as usize].name;
    let catalogue = &run.company.catalogue;
    // What a model said is recalled: computing it again may take long, or not be possible here.
    let recall = catalogue.needs_models(method).then(|| Recall::open(run)).transpose()?;
    let mut answer = |request: &hopeval_methods::Request| {
        let recalled = recall.as_ref().and_then(|recall| recall.answer(request));
        let mut response = recalled.unwrap_or_else(|| catalogue.answer(request));
        if request.wants_text() {
            read_texts(catalogue, &mut response);
        }
        Some(response)
    };
    let mut question = machine_question(question);
    if !method.reads_gold() {
        question.gold.clear();
        question.answers.clear();
    }
    Transcript::replay(method, name, &question, &mut answer)
        .map_err(|missing| JobError::Unfit { run: run.id().to_owned(), reason: missing.to_string() })
}

fn names_of(corpus: &Corpus) -> impl Fn(u32) -> String + '_ {
    |id| corpus.id(PassageId(id)).to_owned()
}

/// Means of all measures of the outcomes that `log` has committed, without writing anything.
///
/// # Errors
/// As [`judged`].
pub fn measures(run: &Open, log: &Log) -> Result<Vec<MeasureRow>, JobError> {
    let mut board = Board::new(run);
    judged(run, log, &mut |question, outcome, values| {
        board.add(run, question, outcome, values);
        Ok(())
    })?;
    Ok(board.rows(run))
}

/// Sums of all configurations, strata and measures.
struct Board {
    sums: Vec<Sums>,
    strata: usize,
    measures: usize,
}

impl Board {
    fn new(run: &Open) -> Self {
        let (strata, measures) = (run.judge.strata().len(), run.judge.set().names().len());
        Self { sums: vec![Sums::default(); run.resolved.configurations.len() * strata * measures], strata, measures }
    }

    fn add(&mut self, run: &Open, question: &Answerable, outcome: &OutcomeRow, values: &[Option<f64>]) {
        let ok = is_ok(outcome);
        for &stratum in run.judge.strata_of(question) {
            let base = (outcome.configuration as usize * self.strata + usize::from(stratum)) * self.measures;
            for (sums, value) in self.sums[base..].iter_mut().zip(values) {
                if let Some(value) = value {
                    sums.add(*value, ok);
                }
            }
        }
    }

    fn rows(&self, run: &Open) -> Vec<MeasureRow> {
        let set = run.judge.set();
        let versions: Vec<_> = set.versions().collect();
        let profile = set.profile().to_string();
        let mut rows = Vec::new();
        for (c, configuration) in run.resolved.configurations.iter().enumerate() {
            let mode = run.company.methods[c].context_mode().name();
            for (s, stratum) in run.judge.strata().iter().enumerate() {
                for (m, measure) in set.names().iter().enumerate() {
                    let sums = self.sums[(c * self.strata + s) * self.measures + m];
                    let names = (
                        configuration.name.as_str(),
                        stratum.as_str(),
                        measure.as_str(),
                        versions[m],
                        profile.as_str(),
                        mode,
                    );
                    rows.push(measure_row(names, sums.n, sums.ok, sums.sum, sums.squares));
                }
            }
        }
        rows
    }
}

/// Writes the final tables of a run whose chunks are all committed and the record that makes them count, and publishes
/// them. `mesh` is the last generation's processes and workers.
///
/// # Errors
/// Chunks that are not committed; a part cannot be read, a table cannot be written, a later generation has begun.
pub fn finish(
    run: &Open,
    log: &mut Log,
    generation: u64,
    committer: &str,
    mesh: (u32, u32),
    report: &dyn Fn(u64),
) -> Result<Finished, JobError> {
    let store = &run.places.store;
    let id = run.id();
    let (committed, expected) = (log.state().total_outcomes(), run.resolved.outcomes());
    if committed != expected {
        let reason = format!("{committed} of its {expected} outcomes are committed, so it is not finished");
        return Err(JobError::Unfit { run: id.to_owned(), reason });
    }
    let corpus = &run.company.catalogue.corpus;
    let name_of = names_of(corpus);
    let configurations = run.names();
    let set = run.judge.set();
    let versions: Vec<String> = set.versions().map(|version| format!("{} {version}", set.profile())).collect();
    // A name of their own: whoever writes tables of this run at the same time, or will, has another generation.
    let records = log.state().next;
    let place = |table: &str| layout::written_table(id, generation, records, table);
    let mut outcome_table = TableWriter::<FinalOutcomeRow>::new(store, &place("outcomes"))?;
    let mut score_table = TableWriter::<ScoreRow>::new(store, &place("scores"))?;
    let mut latency_table = TableWriter::<LatencyRow>::new(store, &place("latencies"))?;
    let mut board = Board::new(run);
    let mut attributed: BTreeMap<(u32, String, String), (CallRow, f64)> = BTreeMap::new();
    let (mut failed, mut done) = (0u64, 0u64);
    judged(run, log, &mut |question, outcome, values| {
        board.add(run, question, outcome, values);
        failed += u64::from(!is_ok(outcome));
        done += 1;
        if done % 4096 == 0 {
            report(done);
        }
        let configuration = &configurations[outcome.configuration as usize];
        for ((measure, version), value) in set.names().iter().zip(&versions).zip(values) {
            score_table.push(ScoreRow {
                configuration: configuration.clone(),
                index: outcome.index,
                question: outcome.question.clone(),
                measure: measure.clone(),
                version: version.clone(),
                gold_digest: question.gold_digest.clone(),
                value: *value,
            })?;
        }
        for call in &outcome.calls {
            let key = (outcome.configuration, call.service.clone(), call.kind.clone());
            let (sum, _) = attributed.entry(key).or_insert_with(|| {
                let (service, kind) = (call.service.clone(), call.kind.clone());
                (CallRow { service, kind, cut: Some(0), ..CallRow::default() }, 0.0)
            });
            sum.calls += call.calls;
            sum.prompt_tokens += call.prompt_tokens;
            sum.completion_tokens += call.completion_tokens;
            sum.scored_tokens += call.scored_tokens;
            sum.operations += call.operations;
            // Of whoever did not count, it is not known.
            sum.cut = sum.cut.zip(call.cut).map(|(sum, more)| sum + more);
        }
        if let Some(timing) = &outcome.timing {
            latency_table.push(LatencyRow {
                configuration: configuration.clone(),
                index: outcome.index,
                service_s: timing.service_s,
                queue_s: timing.queue_s,
                wall_s: timing.wall_s,
                mode: Some(run.resolved.job.run.mode.name().to_owned()),
                device_s: outcome.device_s,
            })?;
        }
        outcome_table.push(outcome.clone().into_final(configuration, &name_of))?;
        Ok(())
    })?;
    let mut tables = vec![outcome_table.finish()?, score_table.finish()?, latency_table.finish()?];
    tables.push(write(store, &place("measures"), board.rows(run))?);
    tables.push(write(store, &place("costs"), costs(run, log, &attributed))?);
    tables.push(write(store, &place("configurations"), configuration_rows(run))?);
    let state = log.state();
    let (gold_edit, golds) = (state.golds.last().map_or(0, |gold| gold.edit), state.golds.len() as u64);
    let run_row = RunRow {
        run: id.to_owned(),
        job: run.record.job.clone(),
        job_digest: run.record.job_digest.clone(),
        settings: run.record.settings.to_string(),
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_ms: run.record.created_ms,
        finished_ms: crate::journal::now_ms(),
        generations: state.generation,
        workers: mesh.1,
        processes: mesh.0,
        dataset: run.resolved.format().name().to_owned(),
        dataset_digest: run.resolved.dataset_digest.clone(),
        corpus: Some(corpus.info().settings.name.clone()),
        corpus_digest: Some(run.resolved.corpus_digest.clone()),
        passages: Some(run.resolved.passages),
        questions: run.resolved.prepared.questions,
        quarantined: run.resolved.prepared.quarantined,
        configurations: configurations.len() as u32,
        outcomes: done,
        failed,
        chunk_size: run.resolved.chunk,
        gold_edit,
    };
    tables.push(write(store, &place("runs"), vec![run_row])?);
    let body = Body::Final(Final { tables: tables.clone(), gold_edit, golds, live: serde_json::Value::Null });
    log.append(generation, committer, body)?;
    // An edit that came while the tables were written found the run unfinished, so nobody else will write them again.
    // It is known now; whoever edits gold later finds the run finished.
    if log.state().lacks_gold() {
        return finish(run, log, generation, committer, mesh, report);
    }
    crate::publish::publish(store, log)?;
    Ok(Finished { failed, outcomes: done, tables })
}

fn write<R: hopeval_results::tables::Row>(
    store: &hopeval_results::Store,
    path: &str,
    rows: Vec<R>,
) -> Result<FinalTable, JobError> {
    Ok(hopeval_results::tables::write_table(store, path, rows)?)
}

fn configuration_rows(run: &Open) -> Vec<ConfigurationRow> {
    let rows = run.resolved.configurations.iter().zip(&run.company.methods).enumerate();
    rows.map(|(position, (configuration, method))| ConfigurationRow {
        position: position as u32,
        configuration: configuration.name.clone(),
        method: configuration.kind.clone(),
        method_version: method.version(),
        parameters: configuration.parameters.to_string(),
        context_mode: method.context_mode().name().to_owned(),
        answers: method.answers(),
        services: method.services().iter().map(|used| format!("{}={}", used.parameter, used.service)).collect(),
        prompt_origin: method.wording().map(|wording| wording.origin.to_owned()),
        prompt_digest: method.wording().map(|wording| blake3::hash(wording.text.as_bytes()).to_hex().to_string()),
        replicate: configuration.replicate.map(|replicate| replicate.to_string()),
        control: configuration.control.clone(),
    })
    .collect()
}

/// Writes the table of journalled requests in the segments of the run's commits, and returns where it is.
///
/// # Errors
/// A segment cannot be read, the table cannot be written.
pub fn requests(run: &Open, log: &Log) -> Result<FinalTable, JobError> {
    let store = &run.places.store;
    let mut table = TableWriter::<RequestRow>::new(store, &layout::final_table(run.id(), "requests"))?;
    for segment in log.state().segments() {
        for entry in scan_segment(store, &segment)? {
            let Some(record) = Record::read(&entry.value) else { continue };
            table.push(RequestRow {
                run: run.id().to_owned(),
                service: record.service,
                kind: record.kind.name().to_owned(),
                key: entry.key.to_string(),
                bucket: u32::from(entry.bucket),
                segment: segment.clone(),
                bytes: u64::from(entry.stored),
            })?;
        }
    }
    Ok(table.finish()?)
}

/// What services did over all valid commits.
pub fn incurred(log: &Log) -> BTreeMap<String, Spending> {
    let mut sums: BTreeMap<String, Spending> = BTreeMap::new();
    for commit in &log.state().commits {
        let note: Note = serde_json::from_value(commit.live.clone()).unwrap_or_default();
        for spent in note.spent {
            sums.entry(spent.service.clone()).or_insert_with(|| Spending::none(&spent.service)).add(&spent);
        }
    }
    sums
}

/// Attributed costs of each configuration, then what the run incurred.
fn costs(run: &Open, log: &Log, attributed: &BTreeMap<(u32, String, String), (CallRow, f64)>) -> Vec<CostRow> {
    let spent = incurred(log);
    // Unshared work at the run's measured rates; unknown where nothing was computed in this run.
    let device_s = |call: &CallRow| Some(spent.get(&call.service)?.device_rate()? * call.operations as f64);
    let energy_j = |call: &CallRow| Some(spent.get(&call.service)?.energy_rate()? * call.operations as f64);
    let service_s = |call: &CallRow| {
        let spent = spent.get(&call.service)?;
        // A model's work is measured by its operations, a retriever's by its queries.
        if spent.device_s().is_some() {
            return device_s(call);
        }
        let rate = spent.service_us as f64 / 1e6 / spent.computed as f64;
        (spent.computed > 0).then_some(rate * call.calls as f64)
    };
    let price = run.resolved.job.run.price_per_device_hour;
    let money = |device_s: Option<f64>| Some(device_s? * price? / 3600.0);
    let names = run.names();
    let mut rows: Vec<CostRow> = attributed
        .iter()
        .map(|((configuration, service, kind), (call, _))| CostRow {
            configuration: Some(names[*configuration as usize].clone()),
            service: service.clone(),
            kind: kind.clone(),
            requests: call.calls,
            prompt_tokens: call.prompt_tokens,
            completion_tokens: call.completion_tokens,
            scored_tokens: call.scored_tokens,
            operations: call.operations,
            cut: call.cut,
            service_s: service_s(call),
            device_s: device_s(call),
            money: money(device_s(call)),
            energy_j: energy_j(call),
            ..CostRow::default()
        })
        .collect();
    for (service, spending) in &spent {
        let of_service = || attributed.iter().filter(|((_, name, _), _)| name == service);
        let kinds: std::collections::BTreeSet<&str> = of_service().map(|((_, _, kind), _)| kind.as_str()).collect();
        let kind = kinds.into_iter().collect::<Vec<_>>().join("+");
        let requests = of_service().map(|(_, (call, _))| call.calls).sum();
        rows.push(CostRow { kind, requests, money: money(spending.device_s()), ..incurred_row(spending) });
    }
    rows
}

/// What a run spent on a service, as far as the service itself knows.
pub fn incurred_row(spending: &Spending) -> CostRow {
    let model = &spending.model;
    CostRow {
        service: spending.service.clone(),
        requests: spending.requests,
        unique: Some(spending.unique),
        computed: Some(spending.computed),
        prompt_tokens: model.prompt_tokens,
        completion_tokens: model.completion_tokens,
        scored_tokens: model.scored_tokens,
        operations: model.operations,
        computed_tokens: Some(model.computed_tokens).filter(|&tokens| tokens > 0),
        cut: Some(model.cut),
        service_s: Some(spending.service_us as f64 / 1e6),
        device_s: spending.device_s(),
        energy_j: spending.energy_j(),
        ..CostRow::default()
    }
}
