//! `show`, `rescore`, `export`, `ls`, `gold`, `doctor`: looking at runs.

use super::PlaceArguments;
use super::evaluate::OutputArguments;
use crate::committer::committer;
use crate::print;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hopeval_cluster::{doctor as facts, exit};
use hopeval_corpus::PassageId;
use hopeval_jobs::export::{self as exporting, ExportFormat};
use hopeval_jobs::replicates::spreads;
use hopeval_jobs::run::{Open, Resolved};
use hopeval_jobs::{gold as editing, show as showing, tables};
use hopeval_results::tables::QuestionRow;
use hopeval_results::{Log, RunRecord};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The run's id, or the beginning of it, or `latest`.
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    output: OutputArguments,
    /// Shows the transcript of this question instead, with --json one document a line; may be repeated.
    #[arg(long = "question", value_name = "ID")]
    questions: Vec<String>,
    /// Of this configuration; of all when left out.
    #[arg(long, requires = "questions")]
    configuration: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RescoreArguments {
    /// The run's id, or the beginning of it, or `latest`.
    #[arg(default_value = "latest")]
    run: String,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
    /// Writes the final tables anew; the run must be finished.
    #[arg(long)]
    write: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The run's id, or the beginning of it, or `latest`.
    run: String,
    /// trec, hotpotqa, 2wikimultihopqa, musique or csv.
    #[arg(long)]
    format: ExportFormat,
    /// The configuration.
    #[arg(long)]
    configuration: String,
    /// Where to [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RequestsArguments {
    /// The run's id, or the beginning of it, or `latest`.
    #[arg(default_value = "latest")]
    run: String,
}

#[derive(Debug, Args)]
pub(crate) struct LsArguments {
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GoldCommand {
    /// Takes the gold of the questions in a file of the dataset's format, and corrects every figure.
    Apply {
        /// The run's id, or the beginning of it, or `latest`.
        run: String,
        /// Some or all of the run's questions, edited.
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

fn open(places: &PlaceArguments, run: &str) -> Result<Open> {
    let places = places.open_existing()?;
    let run = hopeval_results::run::resolve(&places.store, run)?;
    Ok(Open::open(&places, &run, &|_, _| ())?)
}

pub(crate) fn show(places: &PlaceArguments, arguments: ShowArguments) -> Result<u8> {
    let run = open(places, &arguments.run)?;
    if arguments.questions.is_empty() {
        arguments.output.print(&run)?;
    } else {
        transcripts(&run, &arguments)?;
    }
    Ok(exit::DONE)
}

fn transcripts(run: &Open, arguments: &ShowArguments) -> Result<()> {
    let names = run.names();
    if let Some(wanted) = &arguments.configuration
        && !names.contains(wanted)
    {
        bail!("no configuration `{wanted}`; the run has {}", names.join(", "));
    }
    let wanted = |name: &String| arguments.configuration.as_ref().is_none_or(|wanted| wanted == name);
    let corpus = &run.company.catalogue.corpus;
    let title = |passage: hopeval_methods::PassageId| {
        let passage = PassageId(passage.0);
        if corpus.contains(passage) { corpus.title(passage).to_owned() } else { String::new() }
    };
    for question in with_ids(run, &arguments.questions)? {
        for (position, _) in names.iter().enumerate().filter(|(_, name)| wanted(name)) {
            let transcript = tables::transcript(run, position as u32, &question)?;
            if arguments.output.json {
                print::line(&serde_json::to_string(&showing::transcript_document(run, &transcript))?);
            } else {
                print::line(transcript.display(&title).to_string().trim_end());
                print::line("");
            }
        }
    }
    Ok(())
}

/// A run's questions with these ids, in the order of the ids.
fn with_ids(run: &Open, ids: &[String]) -> Result<Vec<QuestionRow>> {
    let log = Log::open(&run.places.store, run.id())?;
    let mut found = BTreeMap::new();
    for row in run.questions(&log, 0)? {
        let row = row?;
        if ids.contains(&row.id) {
            found.insert(row.id.clone(), row);
            if found.len() == ids.len() {
                break;
            }
        }
    }
    let with_id =
        |id: &String| found.get(id).cloned().with_context(|| format!("no question `{id}` in run {}", run.id()));
    ids.iter().map(with_id).collect()
}

pub(crate) fn rescore(places: &PlaceArguments, arguments: RescoreArguments) -> Result<u8> {
    let run = open(places, &arguments.run)?;
    let mut log = Log::open(&run.places.store, run.id())?;
    if arguments.write {
        rewrite(&run, &mut log)?;
    }
    let state = log.state();
    let measures = tables::measures(&run, &log)?;
    let shown = showing::Shown {
        finished: state.finished.is_some(),
        outcomes: state.total_outcomes(),
        expected: run.resolved.outcomes(),
        commits: state.commits.len() as u64,
        replicates: spreads(&run.resolved.configurations, &measures),
        measures,
        costs: Vec::new(),
    };
    if arguments.json {
        print::line(&serde_json::to_string(&showing::document(&run, &shown))?);
    } else {
        print::line(print::measures(&run, &shown, &print::Choice::default()).trim_end());
    }
    Ok(exit::DONE)
}

/// Writes the final tables of a finished run anew, in a generation of its own.
fn rewrite(run: &Open, log: &mut Log) -> Result<()> {
    if log.state().total_outcomes() < run.resolved.outcomes() {
        bail!("run {} is not finished; `hopeval resume {}` goes on with it", run.id(), run.id());
    }
    let committer = committer();
    let generation = log.fence(&committer, 1, 1, &run.record.job_digest)?;
    tables::finish(run, log, generation, &committer, (1, 1), &|_| ())?;
    Ok(())
}

pub(crate) fn export(places: &PlaceArguments, arguments: ExportArguments) -> Result<u8> {
    let run = open(places, &arguments.run)?;
    let log = Log::open(&run.places.store, run.id())?;
    let rows = match &arguments.out {
        None => {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            let rows = exporting::export(&run, &log, &arguments.configuration, arguments.format, &mut out)?;
            out.flush()?;
            rows
        }
        Some(path) => {
            let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            let mut out = std::io::BufWriter::new(file);
            let rows = exporting::export(&run, &log, &arguments.configuration, arguments.format, &mut out)?;
            out.flush().with_context(|| format!("cannot write {}", path.display()))?;
            rows
        }
    };
    print::note(&format!("{rows} questions of {}", arguments.configuration));
    Ok(exit::DONE)
}

pub(crate) fn requests(places: &PlaceArguments, arguments: RequestsArguments) -> Result<u8> {
    let run = open(places, &arguments.run)?;
    let log = Log::open(&run.places.store, run.id())?;
    let table = tables::requests(&run, &log)?;
    print::line(&format!("{}: {} requests", run.places.store.full_name(&table.path), table.rows));
    Ok(exit::DONE)
}

/// Job, state, outcomes, outcomes expected and generations of a run.
fn listed(store: &hopeval_results::Store, run: &str) -> Result<(String, &'static str, u64, u64, u64)> {
    let record = RunRecord::load(store, run)?;
    let log = Log::open(store, run)?;
    let resolved: Option<Resolved> = serde_json::from_value(record.settings).ok();
    let expected = resolved.map_or(0, |resolved| resolved.outcomes());
    let state = if log.state().finished.is_some() { "finished" } else { "not finished" };
    Ok((record.job, state, log.state().total_outcomes(), expected, log.state().generation))
}

pub(crate) fn ls(places: &PlaceArguments, arguments: LsArguments) -> Result<u8> {
    let places = places.open_existing()?;
    let mut rows = Vec::new();
    for run in hopeval_results::run::list(&places.store)? {
        match listed(&places.store, &run) {
            Ok((job, state, outcomes, expected, generations)) => {
                rows.push((run, job, state, outcomes, expected, generations));
            }
            // One run that another version wrote does not hide the others.
            Err(error) => {
                print::note(&format!("warning: {error:#}"));
                rows.push((run, String::new(), "not readable", 0, 0, 0));
            }
        }
    }
    let journal = hopeval_results::journal::summary(&places.store)?;
    if arguments.json {
        let runs: Vec<_> = rows
            .iter()
            .map(|(run, job, state, outcomes, expected, generations)| {
                serde_json::json!({"run": run, "job": job, "state": state, "outcomes": outcomes, "expected": expected, "generations": generations})
            })
            .collect();
        let document = serde_json::json!({"runs": runs, "journal": {"segments": journal.segments, "entries": journal.entries, "bytes": journal.bytes}});
        print::line(&document.to_string());
        return Ok(exit::DONE);
    }
    let header = ["run", "job", "state", "outcomes", "generations"];
    let body = rows.into_iter().map(|(run, job, state, outcomes, expected, generations)| {
        vec![run, job, state.to_owned(), format!("{outcomes} of {expected}"), generations.to_string()]
    });
    print::line(&print::markdown(&header, body));
    print::line(&format!(
        "journal: {} segments, {} entries, {} bytes",
        journal.segments, journal.entries, journal.bytes
    ));
    Ok(exit::DONE)
}

pub(crate) fn gold(places: &PlaceArguments, command: GoldCommand) -> Result<u8> {
    let GoldCommand::Apply { run, file } = command;
    let run = open(places, &run)?;
    let applied = editing::apply(&run, &file, &committer())?;
    print::note(&format!("{} questions read, gold of {} changed", applied.questions, applied.changed));
    let mut log = Log::open(&run.places.store, run.id())?;
    // Also when an earlier edit was interrupted before its tables were written.
    if log.state().lacks_gold() {
        rewrite(&run, &mut log)?;
    }
    Ok(exit::DONE)
}

pub(crate) fn doctor(places: &PlaceArguments, arguments: DoctorArguments) -> Result<u8> {
    let opened = places.open();
    let probe = || match &opened {
        Ok(places) => {
            let name = format!("doctor/{}", committer());
            let put = places.store.put(&name, b"hopeval".to_vec().into());
            put.and_then(|()| places.store.delete(&name)).map_err(|error| error.to_string())
        }
        Err(error) => Err(format!("{error:#}")),
    };
    let folder = opened.as_ref().ok().and_then(|places| places.store.local_path());
    let subject = facts::Subject { store: &places.store, folder, probe: &probe, is_set: &facts::env_is_set };
    let report = facts::examine(&subject);
    if arguments.json {
        let fact = |fact: &facts::Fact| {
            let health = format!("{:?}", fact.health).to_lowercase();
            serde_json::json!({"name": fact.name, "found": fact.found, "health": health, "note": fact.note})
        };
        print::line(&serde_json::to_string(&report.facts.iter().map(fact).collect::<Vec<_>>())?);
    } else {
        print::line(&report.to_string());
    }
    Ok(if report.health() == facts::Health::Broken { exit::USAGE } else { exit::DONE })
}
