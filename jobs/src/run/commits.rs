//! Commits complete cohorts: worker 0's committer, and the one thread appending to the log.

use super::commit_queue::{CommitQueue, QueueLook, ReadyCohorts};
use super::live_table::LiveTable;
use super::writes::{CommitNote, Receipt, WrittenPart};
use crate::error::JobError;
use crate::fault::RunFault;
use crate::run::corrections::Corrector;
use crate::run::evaluator::{GroupTally, TallyGroup, tallies_by_key};
use crate::services::usage::ServiceUsage;
use crate::thread_start::start_thread;
use hopeval_operators::commit::Committer;
use hopeval_operators::tally::TallyTable;
use hopeval_results::log::{CohortCommit, Commit, RecordBody};
use hopeval_results::{Log, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Hands complete cohorts to the committing thread.
pub struct CohortCommitter {
    /// The number of outcomes of each complete cohort.
    expected: Arc<dyn Fn(u64) -> u64 + Send + Sync>,
    /// Outcomes received so far of each incomplete cohort.
    waiting: BTreeMap<u64, u64>,
    /// Outcomes of each incomplete cohort that a later generation must make: their requests wait for files of results.
    left: BTreeMap<u64, u64>,
    /// Whether some cohort was left to a later generation.
    leaves: bool,
    /// Parts holding uncommitted cohorts, with their cohorts.
    parts: Vec<(WrittenPart, Vec<u64>)>,
    ready: ReadyCohorts,
    queue: CommitQueue,
    /// Whether an error has ended it.
    failed: bool,
    fault: RunFault,
    run: String,
    /// Writes begun and not yet durable.
    open: Arc<AtomicUsize>,
}

/// Interval between writes of the live table while commits wait. It is always written after the last waiting commit.
const LIVE_EVERY: Duration = Duration::from_secs(1);

/// The committing thread of process 0. It returns the log when everything is committed.
pub type CommitThreadHandle = JoinHandle<Option<Log>>;

/// Everything needed to commit the cohorts of one generation.
pub struct CommitParts {
    /// The run's store.
    pub store: Store,
    /// Its log.
    pub log: Log,
    /// The generation.
    pub generation: u64,
    /// The committer's id.
    pub committer: String,
    /// The number of outcomes of each complete cohort.
    pub expected: Arc<dyn Fn(u64) -> u64 + Send + Sync>,
    /// Receives the error that ends the run.
    pub fault: RunFault,
    /// Corrects the live figures after edits of gold.
    pub corrector: Corrector,
    /// Writes begun and not yet durable.
    pub open_writes: Arc<AtomicUsize>,
}

impl CommitParts {
    /// Opens the committer for worker 0 and the committing thread. The thread ends when the committer is dropped or has
    /// seen the end, and returns the log.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn open(self) -> Result<(CohortCommitter, CommitThreadHandle), JobError> {
        let queue = CommitQueue::default();
        let committer = CohortCommitter {
            expected: self.expected,
            waiting: BTreeMap::new(),
            left: BTreeMap::new(),
            leaves: false,
            parts: Vec::new(),
            ready: ReadyCohorts::default(),
            queue: queue.clone(),
            failed: false,
            fault: self.fault.clone(),
            run: self.log.run().to_owned(),
            open: Arc::clone(&self.open_writes),
        };
        let writer = CommitWriter {
            store: self.store,
            log: self.log,
            generation: self.generation,
            committer: self.committer,
            fault: self.fault,
            golds: self.corrector.seen as u64,
            corrector: self.corrector,
            open: self.open_writes,
        };
        let thread = start_thread("commits", move || writer.write_commits(&queue))?;
        Ok((committer, thread))
    }
}

impl CohortCommitter {
    fn take_receipts(&mut self, receipts: Vec<Receipt>) {
        for receipt in receipts {
            match receipt {
                Receipt::Segment { name } => self.ready.segments.push(name),
                Receipt::Part { part, cohorts, waiting, used } => {
                    if let Some(part) = part {
                        self.parts.push((part, cohorts.iter().map(|&(cohort, _)| cohort).collect()));
                    }
                    used.into_iter().for_each(|(service, usage)| self.ready.usage.add(&service, usage));
                    for (cohort, outcomes) in cohorts {
                        *self.waiting.entry(cohort).or_default() += outcomes;
                    }
                    for (cohort, outcomes) in waiting {
                        *self.left.entry(cohort).or_default() += outcomes;
                        self.waiting.entry(cohort).or_default();
                    }
                }
            }
        }
    }
}

impl Committer for CohortCommitter {
    type Receipt = Receipt;
    type Key = TallyGroup;
    type Change = GroupTally;

    fn complete(&mut self, complete: u64, receipts: Vec<Receipt>, table: &TallyTable<TallyGroup, GroupTally>) {
        self.take_receipts(receipts);
        let later = self.waiting.split_off(&complete);
        for (cohort, outcomes) in std::mem::replace(&mut self.waiting, later) {
            let (expected, left) = ((self.expected)(cohort), self.left.remove(&cohort).unwrap_or(0));
            if outcomes + left != expected {
                let reason = format!("cohort {cohort} has {outcomes} outcomes instead of {expected}: this is a bug");
                self.fault.report(JobError::Unfit { run: self.run.clone(), reason });
                self.failed = true;
                return;
            }
            self.leaves |= left > 0;
            if left == 0 {
                self.ready.cohorts.push(CohortCommit { cohort, outcomes });
            }
        }
        // A part may arrive before other parts of its cohorts, and may hold cohorts completed later. Every commit that
        // needs the part names it.
        self.parts.retain(|(part, cohorts)| {
            if cohorts.iter().any(|cohort| self.ready.cohorts.iter().any(|ready| ready.cohort == *cohort)) {
                self.ready.parts.push(part.clone());
            }
            cohorts.iter().any(|&cohort| cohort >= complete)
        });
        let last = complete == u64::MAX;
        if self.ready.cohorts.is_empty() && (!last || self.ready.usage.0.is_empty()) {
            return;
        }
        // Cohorts that are left have tallies, too. Readers then add the committed parts up.
        self.ready.tallies = (!self.leaves).then(|| tallies_by_key(table.tallies()));
        let ready = std::mem::take(&mut self.ready);
        if !self.failed {
            self.open.fetch_add(1, SeqCst);
            self.queue.push(ready);
        }
    }
}

impl Drop for CohortCommitter {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// The committing thread: appends commits to the log.
struct CommitWriter {
    store: Store,
    log: Log,
    generation: u64,
    committer: String,
    fault: RunFault,
    corrector: Corrector,
    /// Edits of gold known at the generation's start.
    golds: u64,
    open: Arc<AtomicUsize>,
}

/// Interval between looks at the log while nothing is committed, for edits of gold and for a later generation.
const EDITS_EVERY: Duration = Duration::from_secs(1);

impl CommitWriter {
    fn write_commits(mut self, queue: &CommitQueue) -> Option<Log> {
        match self.commit_until_closed(queue) {
            Ok(()) => Some(self.log),
            Err(error) => {
                self.fault.report(error);
                None
            }
        }
    }

    fn commit_until_closed(&mut self, queue: &CommitQueue) -> Result<(), JobError> {
        let mut shown: Option<Instant> = None;
        loop {
            let (ready, more) = match queue.take_next(EDITS_EVERY) {
                QueueLook::Ready(ready, more) => (ready, more),
                QueueLook::Nothing => {
                    self.log.refresh()?;
                    // A process that was taken for dead must not compute for hours what it may not commit.
                    self.log.check_generation(self.generation)?;
                    self.corrector.handle_edits(&self.log, &[])?;
                    continue;
                }
                QueueLook::Closed => return Ok(()),
            };
            // The last known commit is always shown, to keep the live table up to date.
            let show = !more || shown.is_none_or(|shown| shown.elapsed() >= LIVE_EVERY);
            if show {
                shown = Some(Instant::now());
            }
            let (committed, commits) = (ready.cohorts.clone(), ready.commits);
            self.append_commit(ready, show)?;
            self.open.fetch_sub(commits, SeqCst);
            self.corrector.handle_edits(&self.log, &committed)?;
        }
    }

    fn append_commit(&mut self, ready: ReadyCohorts, show: bool) -> Result<(), JobError> {
        let run = self.log.run().to_owned();
        let unwritable = |source| JobError::Stored { what: "a commit", run: run.clone(), source };
        let spent = ready.usage.0.into_iter().map(|(service, usage)| ServiceUsage { service, usage });
        let note = CommitNote { spent: spent.collect() };
        let live = serde_json::to_value(note).map_err(unwritable)?;
        let parts = ready.parts.iter().map(|part| part.name.clone()).collect();
        let checks = ready.parts.into_iter().map(|part| (part.name, part.check)).collect();
        let commit = Commit { cohorts: ready.cohorts, parts, segments: ready.segments, live, checks };
        self.log.append(self.generation, &self.committer, RecordBody::Commit(commit))?;
        let outcomes = self.log.state().total_outcomes();
        tracing::info!(generation = self.generation, outcomes, "committed");
        if let Some(tallies) = ready.tallies.filter(|_| show) {
            let state = self.log.state();
            let table = LiveTable {
                commits: state.commits.len() as u64,
                outcomes: state.total_outcomes(),
                golds: self.golds,
                tallies,
            };
            // Readers do without it: they add the parts up.
            if let Err(error) = table.store(&self.store, &run) {
                tracing::warn!("the live figures are not updated: {error}");
            }
        }
        Ok(())
    }
}
