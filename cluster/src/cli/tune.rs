//! `tune`: runs the searches of a job's `[tune]`, one after the other, and commits what they choose.

use super::PlaceArguments;
use super::evaluate::{JobArguments, MeshArguments, complete};
use super::stages::Stages;
use crate::print;
use crate::process::Interrupts;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::Notice;
use hopeval_jobs::Job;
use hopeval_jobs::choices::selection::Ranked;
use hopeval_jobs::run::{self, Open, Places};
use hopeval_jobs::tune::search::{Committed, Search};
use hopeval_results::layout;
use serde_json::{Value, json};
use std::path::PathBuf;

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

/// Candidates that a table shows: the paper's (table A1) has ten.
const SHOWN: usize = 10;

pub(crate) fn tune(places: &PlaceArguments, arguments: TuneArguments) -> Result<u8> {
    let job = arguments.job.load()?;
    let names: Vec<&str> = job.tune.iter().flat_map(|tune| &tune.select).map(|select| select.name.as_str()).collect();
    if names.is_empty() {
        bail!("job `{}` has nothing to choose: a search is a table [[tune.select]]", job.name);
    }
    if let Some(unknown) = arguments.only.iter().find(|only| !names.contains(&only.as_str())) {
        bail!("no search for `{unknown}`; the job has {}", names.join(", "));
    }
    if arguments.mesh.is_one_of_several() {
        bail!("--process: `tune` starts its processes itself, as --processes says");
    }
    arguments.mesh.check()?;
    let opened = places.open_to_compute()?;
    let interrupts = Interrupts::install(Notice::Print)?;
    let mut documents = Vec::new();
    for (step, name) in names.iter().enumerate() {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|only| only == name) {
            continue;
        }
        if interrupts.signals().draining() {
            print::note("interrupted between two searches; the same command goes on from there");
            return Ok(exit::RESUMABLE);
        }
        let Found { search, run, committed } = match search(places, &opened, &job, step, &arguments, &interrupts)? {
            Ok(found) => found,
            Err(code) => return Ok(code),
        };
        let object = opened.store.full_name(&layout::selection(name));
        if arguments.json {
            documents.push(document(&search, &run, &committed, &object));
        } else {
            show(&search, &run, &committed, &object);
        }
    }
    if arguments.json {
        print::line(&serde_json::to_string(&json!({"job": job.name, "selections": documents}))?);
    }
    Ok(exit::DONE)
}

/// A search that came to its end.
struct Found {
    search: Search,
    run: Open,
    committed: Committed,
}

/// Runs one search; an exit code if it ended otherwise than with a selection.
fn search(
    place: &PlaceArguments,
    places: &Places,
    job: &Job,
    step: usize,
    arguments: &TuneArguments,
    interrupts: &Interrupts,
) -> Result<Result<Found, u8>> {
    let progress = Stages::new();
    let report = |stage: &str, done: u64| progress.tick(stage, done);
    let quarantine = arguments.quarantine.as_deref();
    let search = Search::prepare(job, step, quarantine.is_some(), places, &report)?;
    let run = run::make(&search.job, places, quarantine, &report)?;
    let code = complete(place, places, &run, &arguments.mesh, interrupts, &progress)?;
    progress.clear();
    if code == exit::FAILED_QUESTIONS {
        print::note(
            "hint: nothing was chosen from a run with so many failures; `run.allowed_failed` says how many may be",
        );
    }
    if code != exit::DONE {
        return Ok(Err(code));
    }
    let run = Open::open(places, &run, &|_, _| ())?;
    let committed = search.commit(&run)?;
    Ok(Ok(Found { search, run, committed }))
}

fn show(search: &Search, run: &Open, committed: &Committed, object: &str) {
    let Committed { selection, new } = committed;
    let mut heading = format!(
        "selection {}: `{}` by {} over {} questions, run {}",
        selection.name,
        selection.parameter,
        selection.measure,
        selection.sample.len(),
        run.id()
    );
    if let Some(generated) = &search.generated {
        heading.push_str(&format!(
            "\n{} draws gave {} different candidates; {} left a blank empty; {} were not in the journal",
            generated.draws, generated.candidates, generated.empty, generated.computed
        ));
    }
    print::line(&format!("{heading}\n"));
    let rows = selection.candidates.iter().take(SHOWN).enumerate().map(|(n, candidate)| {
        let draws = if candidate.draws == 0 { "–".to_owned() } else { candidate.draws.to_string() };
        vec![(n + 1).to_string(), figure(candidate), candidate.n.to_string(), draws, text(&candidate.value)]
    });
    print::line(&print::markdown(&["rank", &selection.measure, "n", "draws", "candidate"], rows));
    let more = selection.candidates.len().saturating_sub(SHOWN);
    if more > 0 {
        print::line(&format!("and {more} more"));
    }
    let when = if *new { "committed" } else { "was committed before" };
    print::line(&format!("\n{when}: {object}\n"));
}

fn figure(candidate: &Ranked) -> String {
    match (candidate.score, candidate.stderr) {
        (Some(score), Some(stderr)) => format!("{score:.4} ± {stderr:.4}"),
        (Some(score), None) => format!("{score:.4}"),
        _ => "–".to_owned(),
    }
}

/// A value on one line of a table.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned).replace('|', "\\|")
}

fn document(search: &Search, run: &Open, committed: &Committed, object: &str) -> Value {
    let Committed { selection, new } = committed;
    let generated = search.generated.map(|generated| {
        json!({"draws": generated.draws, "candidates": generated.candidates, "empty": generated.empty,
               "computed": generated.computed})
    });
    json!({
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
    })
}
