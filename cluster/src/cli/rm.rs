//! `rm`: removes runs.

use super::options::PlaceArguments;
use super::tables::{UNKNOWN, markdown_table};
use crate::print;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_results::removal::{RemovableRun, RunProgress, find_removable, remove_run};
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct RmArguments {
    /// The runs: an id or the beginning of one, a job (its latest run), `latest`, or `latest~1`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Removes them; without this, only says what would be removed.
    #[arg(long)]
    yes: bool,
    /// Also removes runs that are not finished. No process may be working on them.
    #[arg(long)]
    unfinished: bool,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn remove_runs(places: &PlaceArguments, arguments: RmArguments) -> Result<u8> {
    let store = places.open_existing()?.store;
    // All are found before the first is removed.
    let mut found: Vec<RemovableRun> = Vec::new();
    for name in &arguments.runs {
        let run = find_removable(&store, name)?;
        if !found.contains(&run) {
            found.push(run);
        }
    }
    if let Some(run) = found.iter().find(|run| run.progress != RunProgress::Finished && !arguments.unfinished) {
        bail!(
            "run {} is {}: a process may be working on it\nhint: end it, and remove the run with --unfinished",
            run.run,
            run.progress.name()
        );
    }
    if arguments.yes {
        for run in &found {
            remove_run(&store, &run.run)?;
        }
    }
    if arguments.json {
        print::line(&json!({"removed": arguments.yes, "runs": found}).to_string());
        return Ok(exit::DONE);
    }
    let bytes: u64 = found.iter().map(|run| run.bytes).sum();
    let rows = found.into_iter().map(|run| {
        let job = run.job.unwrap_or_else(|| UNKNOWN.to_owned());
        vec![run.run, job, run.progress.name().to_owned(), run.files.to_string(), run.bytes.to_string()]
    });
    print::line(&markdown_table(&["run", "job", "state", "files", "bytes"], rows));
    print::line(&match arguments.yes {
        true => format!("removed: {bytes} bytes; `hopeval gc` says what no run needs any more"),
        false => format!("would be removed: {bytes} bytes; nothing is without --yes"),
    });
    Ok(exit::DONE)
}
