//! Writes the final tables of a finished run anew.

use crate::committer::new_committer_id;
use anyhow::{Result, bail};
use hopeval_jobs::report::tables;
use hopeval_jobs::run::open::OpenRun;
use hopeval_results::Log;

/// Writes the final tables of a finished run anew, in a generation of its own.
pub(crate) fn rewrite_tables(run: &OpenRun, log: &mut Log) -> Result<()> {
    if log.state().total_outcomes() < run.resolved.outcome_count() {
        bail!("run {} is not finished; `hopeval resume {}` goes on with it", run.id(), run.id());
    }
    Ok(tables::rewrite(run, log, &new_committer_id())?)
}
