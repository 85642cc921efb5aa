//! `store`: checks the files of a store.

use super::options::PlaceArguments;
use crate::print;
use anyhow::Result;
use clap::Subcommand;
use hopeval_cluster::exit;
use hopeval_results::verify::verify_store;

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Reads every file of the store and compares it with the size and the digest that were written.
    Verify {
        /// Only this run: its id or the beginning of it, its job, `latest`, or `latest~1` [default: all runs, journal
        /// and selections].
        run: Option<String>,
        /// Prints one JSON document.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn store(places: &PlaceArguments, command: StoreCommand) -> Result<u8> {
    let StoreCommand::Verify { run, json } = command;
    let store = places.open_existing()?.store;
    let run = run.map(|run| hopeval_results::run::resolve_run(&store, &run)).transpose()?;
    let found = verify_store(&store, run.as_deref())?;
    for error in &found.damage {
        print::note(&format!("error: {error}"));
    }
    for run in &found.unchecked_runs {
        print::note(&format!("note: run {run} is of an earlier version, and some of its files carry no checks"));
    }
    if json {
        print::line(&serde_json::to_string(&found)?);
    } else {
        print::line(&format!(
            "{} runs; {} files compared, {} bytes; {} without checks; {} that no run uses; {} damaged",
            found.runs,
            found.compared,
            found.bytes,
            found.unchecked,
            found.unnamed,
            found.damage.len()
        ));
    }
    Ok(if found.damage.is_empty() { exit::DONE } else { exit::USAGE })
}
