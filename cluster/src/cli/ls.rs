//! `ls`: the runs of a store, and its journal.

use super::options::PlaceArguments;
use super::tables::markdown_table;
use crate::print;
use anyhow::{Error, Result};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::run::settings::ResolvedSettings;
use hopeval_results::log::finished_generation;
use hopeval_results::{Log, RunRecord, Store, parallel};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(crate) struct LsArguments {
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

/// A run in the list.
#[derive(Debug, Default)]
struct ListedRun {
    run: String,
    job: String,
    state: &'static str,
    outcomes: u64,
    expected: u64,
    generations: u64,
}

impl ListedRun {
    fn read_run(store: &Store, run: &str) -> Result<Self> {
        let record = RunRecord::load(store, run)?;
        let resolved: Option<ResolvedSettings> = serde_json::from_value(record.settings).ok();
        let expected = resolved.map_or(0, |resolved| resolved.outcome_count());
        let listed = Self { run: run.to_owned(), job: record.job, expected, ..Self::default() };
        // Tables are written of all outcomes alone.
        if let Some(generations) = finished_generation(store, run)? {
            return Ok(Self { state: "finished", outcomes: expected, generations, ..listed });
        }
        let log = Log::open(store, run)?;
        let state = log.state();
        Ok(Self {
            state: if state.finished.is_some() { "finished" } else { "not finished" },
            outcomes: state.total_outcomes(),
            generations: state.generation,
            ..listed
        })
    }

    /// The entry of an unreadable run, as of another version: such a run does not hide the others.
    fn not_readable(run: &str, error: &Error) -> Self {
        print::note(&format!("warning: {error:#}"));
        Self { run: run.to_owned(), state: "not readable", ..Self::default() }
    }

    fn document(&self) -> Value {
        let Self { run, job, state, outcomes, expected, generations } = self;
        json!({
            "run": run, "job": job, "state": state, "outcomes": outcomes, "expected": expected,
            "generations": generations,
        })
    }

    fn row(self) -> Vec<String> {
        let outcomes = format!("{} of {}", self.outcomes, self.expected);
        vec![self.run, self.job, self.state.to_owned(), outcomes, self.generations.to_string()]
    }
}

pub(crate) fn list_runs(places: &PlaceArguments, arguments: LsArguments) -> Result<u8> {
    let store = places.open_existing()?.store;
    let listed =
        |run: &String| ListedRun::read_run(&store, run).unwrap_or_else(|error| ListedRun::not_readable(run, &error));
    let runs = parallel::map(&hopeval_results::run::list_runs(&store)?, listed);
    let journal = hopeval_results::journal::journal_summary(&store)?;
    let (segments, entries, bytes) = (journal.segments, journal.entries, journal.bytes);
    for error in &journal.damaged {
        print::note(&format!("warning: {error}; its answers are computed again"));
    }
    if arguments.json {
        let runs: Vec<Value> = runs.iter().map(ListedRun::document).collect();
        let journal = json!({"segments": segments, "entries": entries, "bytes": bytes, "damaged": journal.damaged});
        print::line(&json!({"runs": runs, "journal": journal}).to_string());
        return Ok(exit::DONE);
    }
    let header = ["run", "job", "state", "outcomes", "generations"];
    print::line(&markdown_table(&header, runs.into_iter().map(ListedRun::row)));
    print::line(&format!("journal: {segments} segments, {entries} entries, {bytes} bytes"));
    Ok(exit::DONE)
}
