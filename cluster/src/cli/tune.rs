//! `tune`: runs the searches of a job's `[tune]`, one after the other, and commits their choices. A search that is a
//! race has a run for each of its rungs, then one over the whole sample.

use super::options::{JobArguments, MeshArguments, PlaceArguments};
use super::session::EvaluationSession;
use super::tables::selection::{rung_text, selection_table};
use crate::print;
use crate::process::Interrupts;
use crate::stages::CommandStages;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::DrainNotice;
use hopeval_jobs::Job;
use hopeval_jobs::choices::selection::RungRecord;
use hopeval_jobs::places::Places;
use hopeval_jobs::run::make::make_run;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::spending::cap::SpendingCap;
use hopeval_jobs::tune::search::{CommittedSelection, ParameterSearch, SearchResult};
use hopeval_results::layout;
use serde_json::{Value, json};
use std::cell::Cell;
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
    let has_run = Cell::new(false);
    for (step, name) in names.iter().enumerate().filter(|(_, name)| arguments.runs_search(name)) {
        if interrupts.signals().is_draining() {
            print::note("interrupted between two searches; the same command goes on from there");
            return Ok(exit::RESUMABLE);
        }
        let host = SearchHost {
            arguments: places,
            places: &opened,
            mesh: &arguments.mesh,
            interrupts: &interrupts,
            has_run: &has_run,
        };
        let finished = match host.run_search(&job, step, arguments.quarantine.as_deref())? {
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

/// Everything needed for the runs of a search.
struct SearchHost<'a> {
    arguments: &'a PlaceArguments,
    places: &'a Places,
    mesh: &'a MeshArguments,
    interrupts: &'a Interrupts,
    /// Whether this command had a run before.
    has_run: &'a Cell<bool>,
}

impl SearchHost<'_> {
    /// Runs one search; an exit code if it ended without a selection.
    fn run_search(&self, job: &Job, step: usize, quarantine: Option<&Path>) -> Result<Result<FinishedSearch, u8>> {
        let stages = CommandStages::new(None);
        let report = |stage: &str, done: u64| stages.tick(stage, done);
        let mut search = ParameterSearch::prepare(job, step, quarantine.is_some(), self.places, &report)?;
        stages.clear();
        drop(stages);
        let mut rungs = Vec::new();
        loop {
            let run = match self.complete_run(&search.next_job(), quarantine)? {
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
            if self.interrupts.signals().is_draining() {
                print::note("interrupted between two rungs; the same command goes on from there");
                return Ok(Err(exit::RESUMABLE));
            }
        }
    }

    /// Makes a run and runs it to its end; an exit code if it ended otherwise than well.
    fn complete_run(&self, job: &Job, quarantine: Option<&Path>) -> Result<Result<OpenRun, u8>> {
        let mut mesh = self.mesh.clone();
        // In one process the address for metrics still shows the first run.
        if self.has_run.replace(true) && !mesh.supervises() && mesh.metrics.take().is_some() {
            print::note("--metrics goes on showing the first run of this command");
        }
        // Each run has its own stages.
        let session = EvaluationSession {
            arguments: self.arguments,
            places: self.places,
            mesh: &mesh,
            interrupts: self.interrupts,
            progress: CommandStages::new(None),
            progress_log: None,
            raised_cap: SpendingCap::default(),
        };
        let report = |stage: &str, done: u64| session.progress.tick(stage, done);
        let run = make_run(job, self.places, quarantine, &|_| Ok(()), &report)?;
        let code = session.complete(&run)?;
        session.progress.clear();
        if code == exit::FAILED_QUESTIONS {
            print::note(
                "hint: nothing was chosen from a run with so many failures; `run.allowed_failed` says how many may be",
            );
        }
        if code != exit::DONE {
            return Ok(Err(code));
        }
        Ok(Ok(OpenRun::open(self.places, &run, &|_, _| ())?))
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
        "parameter": selection.parameter,
        "measure": selection.measure,
        "digest": selection.digest(),
        "object": object,
        "new": new,
        "run": run.id(),
        "questions": selection.sample.len(),
        "generated": generated,
        "candidates": selection.candidates,
    });
    if let Some(race) = &selection.race {
        let runs: Vec<&str> = rungs.iter().map(|(_, run)| run.as_str()).collect();
        document["race"] = json!({"rungs": race.rungs, "runs": runs});
    }
    document
}
