//! Ends a run in process 0: waits for the last commit and writes the final tables.

use super::Process;
use super::early_end::EarlyEnd;
use super::join::CommitThread;
use anyhow::{Context, Result, anyhow};
use hopeval_jobs::report::tables;
use hopeval_jobs::run::generation::Generation;

impl Process<'_> {
    /// Returns the numbers of failed outcomes and of all outcomes.
    pub(super) fn finish_run(
        &self,
        generation: &Generation,
        thread: CommitThread,
        early: &EarlyEnd,
    ) -> Result<(u64, u64)> {
        (self.report)("last commit", 0);
        let CommitThread { handle, committer } = thread;
        let log = handle.join().map_err(|_| anyhow!("the committing thread panicked"))?;
        generation.note_spending();
        if let Some(error) = generation.fault.take() {
            early.exit_with_fault(&error);
        }
        let mut log = log.context("the committing thread ended without its log")?;
        let processes = self.membership.hosts.len();
        let mesh = (processes as u32, (processes * self.membership.workers) as u32);
        (self.report)("tables", 0);
        let finished = tables::finish(&generation.run, &mut log, generation.number, &committer, mesh, &self.report)
            .unwrap_or_else(|error| early.exit_with_fault(&error));
        tracing::info!(outcomes = finished.outcomes, failed = finished.failed, "the tables are written");
        Ok((finished.failed, finished.outcomes))
    }
}
