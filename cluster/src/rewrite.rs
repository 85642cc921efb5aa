//! Writes the final tables of a finished run anew.

use crate::committer::committer;
use anyhow::{Result, bail};
use hopeval_jobs::run::Open;
use hopeval_jobs::tables;
use hopeval_results::Log;

/// Writes the final tables of a finished run anew, in a generation of its own.
pub(crate) fn rewrite(run: &Open, log: &mut Log) -> Result<()> {
    if log.state().total_outcomes() < run.resolved.outcomes() {
        bail!("run {} is not finished; `hopeval resume {}` goes on with it", run.id(), run.id());
    }
    let committer = committer();
    let generation = log.fence(&committer, 1, 1, &run.record.job_digest)?;
    tables::finish(run, log, generation, &committer, (1, 1), &|_| ())?;
    Ok(())
}
