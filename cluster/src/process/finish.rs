//! Ends a run in process 0: waits for the last commit, completes batch files, and writes the final tables.

use super::early_end::EarlyEnd;
use super::join::CommitThread;
use super::{Process, ProcessEnd};
use anyhow::{Context, Result, anyhow};
use hopeval_jobs::report::tables;
use hopeval_jobs::run::generation::Generation;

impl Process<'_> {
    /// Returns when the final tables are written, or when the run has to wait for answers to batch files.
    pub(super) fn finish_run(
        &self,
        generation: &Generation,
        thread: CommitThread,
        early: &EarlyEnd,
    ) -> Result<ProcessEnd> {
        let run = generation.run.id().to_owned();
        (self.report)("last commit", 0);
        let CommitThread { handle, committer } = thread;
        let log = handle.join().map_err(|_| anyhow!("the committing thread panicked"))?;
        generation.note_spending();
        if let Some(error) = generation.fault.take() {
            early.exit_with_fault(&error);
        }
        let mut log = log.context("the committing thread ended without its log")?;
        let batches = generation.close_batches().unwrap_or_else(|error| early.exit_with_fault(&error));
        if batches.iter().any(|batch| batch.waiting > 0) {
            tracing::info!(outcomes = log.state().total_outcomes(), "the run waits for answers to batch files");
            return Ok(ProcessEnd { run, outcomes: None, batches });
        }
        let processes = self.membership.hosts.len();
        let mesh = (processes as u32, (processes * self.membership.workers) as u32);
        (self.report)("tables", 0);
        let finished = tables::finish(&generation.run, &mut log, generation.number, &committer, mesh, &self.report)
            .unwrap_or_else(|error| early.exit_with_fault(&error));
        tracing::info!(outcomes = finished.outcomes, failed = finished.failed, "the tables are written");
        Ok(ProcessEnd { run, outcomes: Some((finished.failed, finished.outcomes)), batches })
    }
}
