//! One generation of a run in one process: the shared state of its workers, and the steps of its life.

use super::commits::{CommitParts, CommitThreadHandle};
use super::corrections::Corrector;
use super::demand::RequestDemand;
use super::feed::{FeedControl, QuestionFeed, QuestionShare};
use super::open::OpenRun;
use super::outcome_counters::OutcomeCounters;
use super::outcome_writer::part_pause;
use super::progress::{ProcessUsage, ProgressProbe};
use super::rehearsal::{REHEARSED, RehearsedRounds};
use super::render::{LeaderParts, WorkerBacklogs, WorkerParts, render};
use super::writes::WriterId;
use super::{edits, evaluation, leftovers};
use crate::error::JobError;
use crate::fault::RunFault;
use crate::mode::TimingMode;
use crate::services::answer_index::AnswerIndex;
use crate::services::dense::build::IndexBuild;
use crate::services::journal_sums::{AnswerSums, JournalSums};
use crate::services::service::WaitingBatch;
use crate::services::usage::service_counters;
use crate::spending::{SpendingFaults, SpendingLedger, SpendingRun};
use crate::thread_start::start_thread;
use crate::waker::OperatorWaker;
use hopeval_endpoint::SpentAmounts;
use hopeval_methods::ServiceName;
use hopeval_operators::OperatorCounters;
use hopeval_operators::flush::Flush;
use hopeval_operators::gate::Gate;
use hopeval_results::{Log, RunRecord, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use timely::worker::Worker;

/// One generation of a run in one process: the shared state of its workers.
pub struct Generation {
    /// The run.
    pub run: OpenRun,
    /// Its number.
    pub number: u64,
    /// Cohorts committed by earlier generations.
    pub committed: BTreeSet<u64>,
    /// Segments preferred over others with the same keys.
    pub preferred: BTreeSet<String>,
    /// Counters of this process.
    pub counters: Arc<OperatorCounters>,
    /// Usage of the services, for each worker of this process.
    pub usage: ProcessUsage,
    /// Requests of this process's machines, by round.
    pub demand: Arc<RequestDemand>,
    /// Counters of its outcomes.
    pub outcome_counters: Arc<OutcomeCounters>,
    /// Lets work begin, until the run is to stop early.
    pub gate: Gate,
    /// Requests the write of everything computed, when the run stops early.
    flush: Flush,
    /// Writes begun and not yet durable.
    pub open_writes: Arc<AtomicUsize>,
    /// The first error.
    pub fault: RunFault,
    /// The error for which the run leaves once everything computed is durable.
    pub leave: RunFault,
    /// Its spending, in process 0 of a run with endpoints.
    spending: Option<SpendingLedger>,
    /// Progress of the dense indexes, which are made first.
    pub building: Arc<IndexBuild>,
    log: Log,
    leader_parts: Mutex<Option<LeaderParts>>,
}

/// Begins a generation: fences the log. For process 0.
///
/// # Errors
/// The store; a log of another version.
pub fn fence_log(
    store: &Store,
    record: &RunRecord,
    committer: &str,
    processes: usize,
    workers: usize,
) -> Result<u64, JobError> {
    let mut log = Log::open(store, &record.run)?;
    let total = (processes * workers) as u32;
    let generation = log.append_fence(committer, processes as u32, total, &record.job_digest)?;
    let state = log.state();
    leftovers::clear_staging(store, &record.run, generation, state.next)?;
    if let Some(edit) = state.golds.iter().map(|gold| gold.edit).max() {
        leftovers::clear_gold(store, &record.run, edit)?;
    }
    Ok(generation)
}

impl Generation {
    /// Joins generation `number` of a run with open services. Process 0 leads: it passes its committer and gets the
    /// committing thread.
    ///
    /// # Errors
    /// The log or the committed outcomes cannot be read, or the generation is over already.
    pub fn join(
        run: OpenRun,
        number: u64,
        committer: Option<&str>,
    ) -> Result<(Self, Option<CommitThreadHandle>), JobError> {
        let log = Log::open(&run.places.store, run.id())?;
        if log.state().generation != number {
            return Err(JobError::Over { run: run.id().to_owned(), number, latest: log.state().generation });
        }
        let (fault, leave) = (RunFault::default(), RunFault::default());
        let open_writes: Arc<AtomicUsize> = Arc::default();
        let (mut leader_parts, mut commit_thread, mut spending) = (None, None, None);
        if let Some(committer) = committer {
            spending = open_spending(&run, number, SpendingFaults { fault: fault.clone(), leave: leave.clone() })?;
            let (leader, thread) = lead_run(&run, &log, number, committer, &fault, &open_writes)?;
            (leader_parts, commit_thread) = (Some(leader), Some(thread));
        }
        let generation = Self {
            committed: log.state().committed.keys().copied().collect(),
            preferred: log.state().committed_segments(),
            run,
            number,
            counters: Arc::default(),
            usage: Arc::default(),
            demand: Arc::default(),
            outcome_counters: Arc::default(),
            building: Arc::new(IndexBuild::new(&fault)),
            gate: Gate::default(),
            flush: Flush::default(),
            open_writes,
            fault,
            leave,
            spending,
            log,
            leader_parts: Mutex::new(leader_parts),
        };
        tracing::info!(run = generation.run.id(), generation = number, "the run is open");
        Ok((generation, commit_thread))
    }

    /// Outcomes committed by earlier generations.
    pub fn outcomes_before(&self) -> u64 {
        self.log.state().total_outcomes()
    }

    /// Reads how far this process is with its part of the generation, from any thread.
    ///
    /// # Errors
    /// The run was opened without its services.
    pub fn progress_probe(&self) -> Result<ProgressProbe, JobError> {
        let catalogue = &self.run.configurations()?.catalogue;
        let journalled =
            |name: &Arc<str>| catalogue.info(&ServiceName(Arc::clone(name))).is_some_and(|info| info.journalled);
        let mut services = catalogue.services().clone();
        services.retain(|name, _| journalled(name));
        Ok(ProgressProbe {
            counters: Arc::clone(&self.counters),
            usage: Arc::clone(&self.usage),
            demand: Arc::clone(&self.demand),
            services,
        })
    }

    /// Rehearses some of the questions in a thread of its own, for an estimate of the requests to come. Sends one
    /// result; none if the run drains, and none if it is timed for latency, which other work would disturb.
    ///
    /// # Errors
    /// The questions cannot be read; the thread cannot be started.
    pub fn rehearse(&self) -> Result<Receiver<RehearsedRounds>, JobError> {
        let (sender, receiver) = channel();
        if self.run.resolved.job.run.mode == TimingMode::Latency {
            return Ok(receiver);
        }
        let (cohort_size, committed) = (self.run.resolved.cohort_size, self.committed.clone());
        let questions = self.run.questions_from(&self.log, self.first_open())?;
        let (configurations, gate) = (Arc::clone(self.run.configurations()?), self.gate.clone());
        let rehearse = move || {
            let mut rehearsed = RehearsedRounds::default();
            // An unreadable question is reported by the worker that reads it.
            let open = questions.flatten().filter(|row| !committed.contains(&(row.index / cohort_size)));
            for row in open.take(REHEARSED) {
                if gate.is_closed() {
                    return;
                }
                rehearsed.drive_question(&configurations, &row);
            }
            // Nobody waits for it if the command has ended.
            drop(sender.send(rehearsed));
        };
        start_thread("rehearsal", rehearse)?;
        Ok(receiver)
    }

    /// Makes missing indexes of the services, together with all workers. A process that stops meanwhile has nothing to
    /// drain. Heartbeats are not counted: a long passage, or copying the file to a disk, is no stall, and a process may
    /// be silent before its first step.
    ///
    /// # Errors
    /// An index cannot be made here. The other workers wait: the process must end.
    pub fn make_indexes(&self, worker: &mut Worker) -> Result<(), JobError> {
        self.run.configurations()?.catalogue.make_indexes(worker, &self.building)
    }

    /// Builds this worker's dataflow, once [`Generation::make_indexes`] has come back.
    ///
    /// # Errors
    /// The journal or the questions cannot be read, a thread cannot be started. Nothing of this worker runs then.
    pub fn build_dataflow(&self, worker: &mut Worker) -> Result<(), JobError> {
        let (index, workers) = (worker.index(), worker.peers());
        let store = self.run.places.store.clone();
        let answer_index = AnswerIndex::open(&store, self.run.id(), index, workers, &self.preferred)?;
        let usage = service_counters(self.run.configurations()?.catalogue.infos().map(|(name, _)| name));
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&usage));
        let leader =
            if index == 0 { self.leader_parts.lock().unwrap_or_else(PoisonError::into_inner).take() } else { None };
        let waker = OperatorWaker::default();
        let backlogs = WorkerBacklogs::new(&waker);
        let full = vec![backlogs.journal.clone(), backlogs.outcomes.clone()];
        let control = FeedControl { waker, gate: self.gate.clone(), backlogs: full };
        let parts = WorkerParts {
            writer_id: WriterId { run: self.run.id().to_owned(), generation: self.number, worker: index as u32 },
            configurations: Arc::clone(self.run.configurations()?),
            evaluator: Arc::clone(&self.run.evaluator),
            feed: self.question_feed(index as u64, workers as u64, control)?,
            answer_index,
            counters: Arc::clone(&self.counters),
            usage,
            demand: Arc::clone(&self.demand),
            outcome_counters: Arc::clone(&self.outcome_counters),
            in_flight: self.run.resolved.in_flight(),
            part_pause: part_pause(self.run.resolved.job.run.chunk),
            batch: self.run.resolved.job.run.batch,
            mode: self.run.resolved.job.run.mode,
            gate: self.gate.clone(),
            backlogs,
            flush: self.flush.clone(),
            open_writes: Arc::clone(&self.open_writes),
            fault: self.fault.clone(),
            spending: self.spending.clone(),
            leader,
            store,
        };
        render(worker, parts)
    }

    /// The questions of one worker: every `workers`-th, without the committed ones. If each question is timed, one
    /// worker has them all: each request is answered by its owner, and the other workers ask nothing.
    fn question_feed(&self, index: u64, workers: u64, control: FeedControl) -> Result<QuestionFeed, JobError> {
        let resolved = &self.run.resolved;
        let share = QuestionShare {
            index,
            askers: if resolved.job.run.mode == TimingMode::Latency { 1 } else { workers },
            cohort_size: resolved.cohort_size,
            committed: self.committed.clone(),
        };
        let questions = self.run.questions_from(&self.log, self.first_open())?;
        share.start_reading(questions, control, self.fault.clone())
    }

    /// Completes the batch files of the services, once all workers are done: for process 0.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn close_batches(&self) -> Result<Vec<WaitingBatch>, JobError> {
        self.run.configurations()?.catalogue.close_batches()
    }

    /// The position of the first question that is not committed; beyond all questions if there is none.
    fn first_open(&self) -> u64 {
        let resolved = &self.run.resolved;
        let first_open = (0..resolved.cohort_count()).find(|cohort| !self.committed.contains(cohort));
        first_open.unwrap_or(u64::MAX).saturating_mul(resolved.cohort_size)
    }

    /// Ends this process's part early: no further question is admitted, no machine is stepped, and no service begins a
    /// batch.
    pub fn drain(&self) {
        tracing::info!(under_way = self.gate.under_way(), "draining");
        self.gate.close();
    }

    /// Whether the services of this process have answered every request that they had begun when the run began to
    /// drain. It stays so.
    pub fn is_quiet(&self) -> bool {
        self.gate.is_quiet()
    }

    /// Requests the write of everything computed here. Called when all processes are quiet.
    pub fn flush(&self) {
        self.flush.ask();
        self.spending.iter().for_each(SpendingLedger::flush);
    }

    /// Notes exactly what was spent, once all questions are answered, and waits until that is durable.
    pub fn note_spending(&self) {
        self.spending.iter().for_each(SpendingLedger::wait_for_flush);
    }

    /// Whether everything computed here is durable, after [`Generation::flush`].
    pub fn is_flushed(&self) -> bool {
        self.flush.is_done()
            && self.open_writes.load(Ordering::SeqCst) == 0
            && self.spending.as_ref().is_none_or(SpendingLedger::is_flushed)
    }
}

/// Opens the spending of a run with endpoints. What earlier generations have spent is summed from the journal.
fn open_spending(run: &OpenRun, number: u64, faults: SpendingFaults) -> Result<Option<SpendingLedger>, JobError> {
    let job = &run.resolved.job;
    let paid = job.service.iter().filter(|(_, service)| service.settings().is_paid());
    let mut counted: BTreeMap<String, SpentAmounts> =
        paid.map(|(name, _)| (name.clone(), SpentAmounts::default())).collect();
    if counted.is_empty() {
        return Ok(None);
    }
    let store = &run.places.store;
    if number > 1 {
        let sums = JournalSums::read(store, run.id(), &mut |_| ())?;
        for (name, spent) in &mut counted {
            *spent = sums.services.get(name).map_or_else(SpentAmounts::default, AnswerSums::spent_amounts);
        }
    }
    let currency = job.service.values().find_map(|service| Some(service.settings().price()?.currency.clone()));
    let spent =
        SpendingRun { run: run.id(), generation: number, counted, cap: job.run.cap, raised: run.raised_cap, currency };
    SpendingLedger::open(store, &spent, faults).map(Some)
}

/// Prepares the additional work of worker 0: commits, and corrections of the live figures.
fn lead_run(
    run: &OpenRun,
    log: &Log,
    number: u64,
    committer: &str,
    fault: &RunFault,
    open_writes: &Arc<AtomicUsize>,
) -> Result<(LeaderParts, CommitThreadHandle), JobError> {
    let before = evaluation::live_tallies(run, log)?;
    let before = before.into_iter().map(|(group, tally)| (vec![group], tally)).collect();
    let store = &run.places.store;
    let (sender, corrections) = channel();
    let waker = OperatorWaker::default();
    let corrector = Corrector {
        store: store.clone(),
        evaluator: Arc::clone(&run.evaluator),
        questions: run.record.questions_check().cloned(),
        cohort_size: run.resolved.cohort_size,
        before: edits::read_edits(store, log)?,
        seen: log.state().golds.len(),
        applied: BTreeMap::new(),
        waiting: BTreeMap::new(),
        sender,
        waker: waker.clone(),
    };
    let resolved = run.resolved.clone();
    let commit_parts = CommitParts {
        store: store.clone(),
        log: log.clone(),
        generation: number,
        committer: committer.to_owned(),
        expected: Arc::new(move |cohort| resolved.outcomes_of(cohort)),
        fault: fault.clone(),
        corrector,
        open_writes: Arc::clone(open_writes),
    };
    let (committer, thread) = commit_parts.open()?;
    Ok((LeaderParts { committer, before, corrections, waker }, thread))
}

#[cfg(test)]
mod tests;
