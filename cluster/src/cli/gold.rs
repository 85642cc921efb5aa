//! `gold`: edits of a run's gold.

use super::options::PlaceArguments;
use crate::committer::new_committer_id;
use crate::print;
use crate::rewrite::rewrite_tables;
use anyhow::Result;
use clap::Subcommand;
use hopeval_cluster::exit;
use hopeval_jobs::run::gold as editing;
use hopeval_results::Log;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum GoldCommand {
    /// Takes the gold of the questions in a file of the dataset's format, and corrects every figure.
    Apply {
        /// The run: its id or the beginning of it, its job, `latest`, or `latest~1`.
        run: String,
        /// Some or all of the run's questions, edited.
        file: PathBuf,
    },
}

pub(crate) fn gold(places: &PlaceArguments, command: GoldCommand) -> Result<u8> {
    let GoldCommand::Apply { run, file } = command;
    let run = places.open_run(&run)?;
    let applied = editing::apply_edit(&run, &file, &new_committer_id())?;
    print::note(&format!("{} questions read, gold of {} changed", applied.questions, applied.changed));
    let mut log = Log::open(&run.places.store, run.id())?;
    // Also when an earlier edit was interrupted before its tables were written.
    if log.state().lacks_gold() {
        rewrite_tables(&run, &mut log)?;
    }
    Ok(exit::DONE)
}
