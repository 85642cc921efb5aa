//! `tune`: runs the searches of a job's `[tune]`, one after the other, and commits their choices. A search that is a
//! race has a run for each of its rungs, then one over the whole sample.

use super::options::{JobArguments, MeshArguments, PlaceArguments};
use super::run_sequence::RunSequence;
use super::tables::raced::rung_text;
use super::tables::selection::selection_table;
use crate::print;
use crate::process::Interrupts;
use crate::stages::CommandStages;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::DrainNotice;
use hopeval_jobs::Job;
use hopeval_jobs::job::race_record::RungRecord;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::tune::search::{CommittedSelection, ParameterSearch, SearchResult};
use hopeval_results::layout;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Args)]
pub(crate) struct TuneArguments {
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    mesh: MeshArguments,
    /// Runs the search for this selection only; may be repeated. Earlier ones that it builds on must be in the store.
    #[arg(long = "only", value_name = "NAME")]
    only: Vec<String>,
    /// Sets bad rows of the sample's files aside in this file instead of failing.
    #[arg(long, value_name = "FILE")]
    quarantine: Option<PathBuf>,
    /// Prints one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn tune(places: &PlaceArguments, arguments: TuneArguments) -> Result<u8> {
    let job = arguments.job.load()?;
    let names: Vec<&str> = job.tune.iter().flat_map(|tune| &tune.select).map(|select| select.name.as_str()).collect();
    arguments.check_options(&job.name, &names)?;
    let opened = places.open_to_compute()?;
    let interrupts = Interrupts::install(DrainNotice::Print)?;
    interrupts.end_patience(&opened.store);
    let mut documents = Vec::new();
    let sequence = RunSequence::new(places, &opened, &arguments.mesh, &interrupts, arguments.quarantine.as_deref());
    for (step, name) in names.iter().enumerate().filter(|(_, name)| arguments.runs_search(name)) {
        if let Some(code) = sequence.interrupted("searches") {
            return Ok(code);
        }
        let finished = match run_search(&sequence, (&job, arguments.job.path()), step)? {
            Ok(finished) => finished,
            Err(code) => return Ok(code),
        };
        let object = opened.store.full_name(&layout::selection_record(name));
        if arguments.json {
            documents.push(selection_document(&finished, &object));
        } else {
            print::line(&selection_table(&finished, &object));
        }
    }
    if arguments.json {
        print::line(&serde_json::to_string(&json!({"job": job.name, "selections": documents}))?);
    }
    Ok(exit::DONE)
}

impl TuneArguments {
    /// Checks the options against each other and against the job, which has searches of these names.
    fn check_options(&self, job: &str, names: &[&str]) -> Result<()> {
        if names.is_empty() {
            bail!("job `{job}` has nothing to choose: a search is a table [[tune.select]]");
        }
        if let Some(unknown) = self.only.iter().find(|only| !names.contains(&only.as_str())) {
            bail!("no search for `{unknown}`; the job has {}", names.join(", "));
        }
        if self.mesh.is_one_of_several() {
            bail!("--process: `tune` starts its processes itself, as --processes says");
        }
        self.mesh.check_options()
    }

    /// Whether the search of this name is to run.
    fn runs_search(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// A search with a committed selection.
pub(super) struct FinishedSearch {
    pub(super) search: ParameterSearch,
    /// The run over the whole sample.
    pub(super) run: OpenRun,
    pub(super) committed: CommittedSelection,
    /// The decided rungs of a race, each with its run.
    pub(super) rungs: Vec<(RungRecord, String)>,
}

/// Runs one search; an exit code if it ended without a selection.
fn run_search(sequence: &RunSequence<'_>, job: (&Job, &Path), step: usize) -> Result<Result<FinishedSearch, u8>> {
    let stages = CommandStages::new(None);
    let report = |stage: &str, done: u64| stages.tick(stage, done);
    let mut search = ParameterSearch::prepare(job, step, sequence.quarantine(), sequence.places(), &report)?;
    stages.clear();
    drop(stages);
    let mut rungs = Vec::new();
    loop {
        let run = match sequence.complete_run(&search.next_job())? {
            Ok(run) => run,
            Err(code) => return Ok(Err(code)),
        };
        match search.take_run(&run)? {
            SearchResult::Chosen(committed) => {
                return Ok(Ok(FinishedSearch { search, run, committed: *committed, rungs }));
            }
            SearchResult::Rung(rung) => {
                print::note(&rung_text(rungs.len() + 1, &rung));
                rungs.push((rung, run.id().to_owned()));
            }
        }
        if let Some(code) = sequence.interrupted("rungs") {
            return Ok(Err(code));
        }
    }
}

fn selection_document(finished: &FinishedSearch, object: &str) -> Value {
    let FinishedSearch { search, run, committed, rungs } = finished;
    let CommittedSelection { selection, new } = committed;
    let generated = search.generated.map(|generated| {
        json!({"draws": generated.draws, "candidates": generated.candidates, "empty": generated.empty,
               "computed": generated.computed})
    });
    let mut document = json!({
        "name": selection.name,
        "parameters": selection.chosen(),
        "measure": selection.measure,
        "digest": selection.digest(),
        "object": object,
        "new": new,
        "run": run.id(),
        "questions": selection.sample.len(),
        "generated": generated,
        "candidates": selection.candidates,
    });
    if selection.parameters.is_empty() {
        document["parameter"] = json!(selection.parameter);
    }
    if let Some(race) = &selection.race {
        let runs: Vec<&str> = rungs.iter().map(|(_, run)| run.as_str()).collect();
        document["race"] = json!({"rungs": race.rungs, "runs": runs});
    }
    document
}
