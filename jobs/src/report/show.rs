//! Shows a run, finished or running: its measures, its costs, and the transcripts of its questions.

use crate::error::JobError;
use crate::report::compare;
use crate::report::costs::{incurred_row, incurred_usage};
use crate::report::measure_means::{measure_row, ranked_short, with_interval};
use crate::report::paid::PaidSums;
use crate::report::replicates::{ReplicateSpread, replicate_spreads};
use crate::run::evaluation::live_tallies;
use crate::run::evaluator::tallies_by_key;
use crate::run::live_table::LiveTable;
use crate::run::open::OpenRun;
use hopeval_corpus::PassageId;
use hopeval_measures::aggregate::ValueRange;
use hopeval_methods::Answer;
use hopeval_methods::transcript::Transcript;
use hopeval_results::tables::{CostRow, MeasureRow, read_final};
use hopeval_results::{Log, RunNote, Store, layout};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The present figures of a run.
#[derive(Clone, Debug)]
pub struct RunFigures {
    /// A person's note on the run.
    pub note: Option<String>,
    /// Whether its tables are final.
    pub finished: bool,
    /// Outcomes included in the figures.
    pub outcomes: u64,
    /// Outcomes of the complete run.
    pub expected: u64,
    /// Commits included in the figures.
    pub commits: u64,
    /// Means.
    pub measures: Vec<MeasureRow>,
    /// Means over replicates.
    pub replicates: Vec<ReplicateSpread>,
    /// Costs; only incurred ones for an unfinished run.
    pub costs: Vec<CostRow>,
}

/// Live means come from sums in fixed point, and differ from the final means by less than 1 / `LIVE_DIGITS`. They are
/// rounded to multiples of it.
const LIVE_DIGITS: f64 = 1e9;

/// The run's note. One that cannot be read is told, and hides no figure.
pub fn readable_note(store: &Store, run: &str) -> Option<String> {
    RunNote::load(store, run)
        .unwrap_or_else(|error| {
            tracing::warn!(%error, "the run's note is left out; `hopeval note RUN \"\"` removes it");
            None
        })
        .map(|note| note.text)
}

/// Reads the present figures of `run`.
///
/// # Errors
/// The log, a table or the live table cannot be read.
pub fn read_figures(run: &OpenRun) -> Result<RunFigures, JobError> {
    let store = &run.places.store;
    let note = readable_note(store, run.id());
    let log = Log::open(store, run.id())?;
    let state = log.state();
    let expected = run.resolved.outcome_count();
    if let Some(finished) = &state.finished {
        // The table named by the log. Others may have changed its published copy.
        let measures = completed_rows(run, read_final::<MeasureRow>(store, run.id(), finished)?);
        let mut replicates = replicate_spreads(&run.resolved.configurations, &measures);
        compare::fill_intervals(run, &log, &mut replicates)?;
        return Ok(RunFigures {
            note,
            finished: true,
            outcomes: state.total_outcomes(),
            expected,
            commits: state.commits.len() as u64,
            measures,
            replicates,
            costs: read_final::<CostRow>(store, run.id(), finished)?,
        });
    }
    let live = LiveTable::load(store, run.id())?.unwrap_or_default();
    // The process may have ended between a commit and its live table, and gold may have been edited since it began.
    let (commits, golds) = (state.commits.len() as u64, state.golds.len() as u64);
    let live = if (live.commits, live.golds) == (commits, golds) {
        live
    } else {
        let tallies = tallies_by_key(&live_tallies(run, &log)?);
        LiveTable { commits, outcomes: state.total_outcomes(), golds, tallies }
    };
    let measures = live_measures(run, &live);
    let costs = live_costs(run, &log)?;
    let replicates = replicate_spreads(&run.resolved.configurations, &measures);
    Ok(RunFigures {
        note,
        finished: false,
        outcomes: live.outcomes,
        expected,
        commits: live.commits,
        measures,
        replicates,
        costs,
    })
}

/// The costs of an unfinished run, as far as commits and the journal say them.
fn live_costs(run: &OpenRun, log: &Log) -> Result<Vec<CostRow>, JobError> {
    let mut usages = incurred_usage(log);
    let Some(paid) = PaidSums::read(&run.places.store, run.id(), &run.resolved.job)? else {
        return Ok(usages.iter().map(|(service, usage)| incurred_row(service, usage)).collect());
    };
    // Before the first commit no service is in one.
    for service in paid.services() {
        usages.entry(service.to_owned()).or_default();
    }
    Ok(usages.iter().map(|(service, usage)| paid.complete_row(incurred_row(service, usage))).collect())
}

/// Rows of a final table. Those of earlier versions have other intervals and no marks, so both are made here.
fn completed_rows(run: &OpenRun, rows: Vec<MeasureRow>) -> Vec<MeasureRow> {
    let set = run.evaluator.measure_set();
    let measures: BTreeMap<&str, (usize, ValueRange)> =
        set.names().iter().map(String::as_str).zip(set.ranges().enumerate()).collect();
    let names = run.resolved.configurations.iter().map(|configuration| configuration.name.as_str());
    let positions: BTreeMap<&str, usize> = names.zip(0..).collect();
    let complete = |row: MeasureRow| {
        let Some(&(measure, range)) = measures.get(row.measure.as_str()) else { return row };
        let position = positions.get(row.configuration.as_str());
        let ranked = position.and_then(|&configuration| ranked_short(run, configuration, measure));
        MeasureRow { ranked, ..with_interval(row, range) }
    };
    rows.into_iter().map(complete).collect()
}

fn live_measures(run: &OpenRun, live: &LiveTable) -> Vec<MeasureRow> {
    let set = run.evaluator.measure_set();
    let (versions, ranges): (Vec<_>, Vec<_>) = set.versions().zip(set.ranges()).unzip();
    let profile = set.profile().to_string();
    let rounded = |value: f64| (value * LIVE_DIGITS).round() / LIVE_DIGITS;
    live.tallies
        .iter()
        .map(|&(key, (n, ok, sum, squares))| {
            let configuration = &run.resolved.configurations[key.configuration as usize].name;
            let mode = run.methods[key.configuration as usize].context_mode().name();
            let measure = usize::from(key.measure);
            let stratum = &run.evaluator.strata()[key.stratum as usize];
            let names = (
                configuration.as_str(),
                stratum.as_str(),
                set.names()[measure].as_str(),
                versions[measure],
                profile.as_str(),
                mode,
            );
            let unscaled = |fixed: i128| hopeval_measures::FixedPoint(fixed).to_f64();
            let sums = (unscaled(sum), unscaled(squares));
            let mut row = measure_row(names, ranges[measure], (n as u64, ok as u64), sums);
            for value in [&mut row.value, &mut row.stderr, &mut row.low, &mut row.high] {
                *value = value.map(rounded);
            }
            row.ranked = ranked_short(run, key.configuration as usize, measure);
            row
        })
        .collect()
}

/// The kind of request of a row; not yet known in an unfinished run.
fn known_kind(row: &CostRow) -> Option<&str> {
    Some(row.kind.as_str()).filter(|kind| !kind.is_empty())
}

/// A row of costs in the `--json` document.
pub fn cost_document(row: &CostRow) -> Value {
    json!({"configuration": row.configuration, "service": row.service, "kind": known_kind(row),
           "requests": row.requests, "unique": row.unique, "computed": row.computed, "prompt_tokens": row.prompt_tokens,
           "completion_tokens": row.completion_tokens, "scored_tokens": row.scored_tokens,
           "operations": row.operations, "computed_tokens": row.computed_tokens, "cut": row.cut,
           "service_s": row.service_s, "device_s": row.device_s, "money": row.money,
           "energy_j": row.energy_j, "step": row.step, "attempts": row.attempts,
           "cached_prompt_tokens": row.cached_prompt_tokens, "reasoning_tokens": row.reasoning_tokens,
           "currency": row.currency, "unanswered_money": row.unanswered_money, "models": row.models,
           "unpriced": row.unpriced})
}

/// The `--json` document of a run.
pub fn figures_document(run: &OpenRun, shown: &RunFigures) -> Value {
    let measures: Vec<Value> = shown
        .measures
        .iter()
        .map(|row| {
            json!({"configuration": row.configuration, "stratum": row.stratum, "measure": row.measure,
                   "value": row.value, "stderr": row.stderr, "low": row.low, "high": row.high, "n": row.n,
                   "coverage": row.coverage,
                   "context_mode": row.context_mode, "ranked": row.ranked})
        })
        .collect();
    let cost: Vec<Value> = shown.costs.iter().map(cost_document).collect();
    let out = run.places.store.full_name(&layout::run_folder(run.id()));
    let mut document = json!({
        "run": run.id(),
        "job": run.record.job,
        "out": out,
        "finished": shown.finished,
        "outcomes": shown.outcomes,
        "questions": run.resolved.prepared.questions,
        "quarantined": run.resolved.prepared.quarantined,
        "left_out": run.resolved.prepared.left_out,
        "links": run.resolved.links,
        "measures": measures,
        "replicates": shown.replicates,
        "cost": cost,
    });
    // Only runs with a note have it.
    if let Some(note) = &shown.note {
        document["note"] = json!(note);
    }
    // Only runs that leave such questions out have it.
    if run.resolved.prepared.without_gold > 0 {
        document["without_gold"] = json!(run.resolved.prepared.without_gold);
    }
    if run.resolved.prepared.kept_without_gold > 0 {
        document["kept_without_gold"] = json!(run.resolved.prepared.kept_without_gold);
    }
    // Only runs with outcomes of other systems have it.
    let rankings = &run.resolved.prepared.rankings;
    if !rankings.is_empty() {
        document["rankings"] = json!(rankings);
    }
    // Only runs whose sweeps have raced have it.
    let methods = run.resolved.job.method.iter();
    let races: Vec<Value> = methods
        .filter_map(|(method, entry)| {
            let (race, raced) = (entry.race.as_ref()?, entry.raced.as_ref()?);
            Some(json!({"method": method, "measure": race.measure, "rungs": raced.race.rungs,
                        "stopped": raced.stopped}))
        })
        .collect();
    if !races.is_empty() {
        document["races"] = json!(races);
    }
    document
}

/// The `--json` document of a transcript: every round with its requests and responses, the outcome, and the named
/// passages, by their numbers in the corpus.
///
/// # Errors
/// The run's corpus cannot be opened.
pub fn transcript_document(run: &OpenRun, transcript: &Transcript) -> Result<Value, JobError> {
    let Transcript { question, configuration, rounds, outcome } = transcript;
    let corpus = &run.configurations()?.catalogue.corpus;
    // A machine knows only passages from its question and from responses.
    let given = question.candidates.iter().chain(question.gold.iter().flatten()).copied();
    let told = rounds.iter().flat_map(|round| &round.responses).flat_map(|response| &response.result);
    let named = given.chain(told.flat_map(Answer::passages)).map(|passage| PassageId(passage.0));
    let passages: BTreeMap<u32, Value> = named
        .filter(|&passage| corpus.contains(passage))
        .map(|passage| (passage.0, json!({"id": corpus.id(passage), "title": corpus.title(passage)})))
        .collect();
    Ok(json!({
        "run": run.id(),
        "question": question,
        "configuration": configuration,
        "rounds": rounds,
        "outcome": outcome,
        "passages": passages,
    }))
}
