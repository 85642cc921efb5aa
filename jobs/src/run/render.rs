//! Renders a run as a dataflow on one worker: the graph of its operators.

use crate::error::JobError;
use crate::fault::RunFault;
use crate::mode::TimingMode;
use crate::run::commits::CohortCommitter;
use crate::run::demand::RequestDemand;
use crate::run::evaluator::{GroupTally, OutcomeEvaluator, TallyGroup};
use crate::run::feed::QuestionFeed;
use crate::run::journal_writer::{self, JournalWriter};
use crate::run::machines::{MachineOpener, RunConfigurations};
use crate::run::outcome::MachineEnd;
use crate::run::outcome_counters::OutcomeCounters;
use crate::run::outcome_writer::{self, OutcomeWriter};
use crate::run::writes::{Receipt, WriteCounts, WriterId};
use crate::services::answer_index::AnswerIndex;
use crate::services::dense::shards::ShardedSearch;
use crate::services::dispatcher::{DispatcherParts, ServiceDispatcher, ServingOptions};
use crate::services::usage::ServiceCounters;
use crate::spending::SpendingLedger;
use crate::waker::OperatorWaker;
use crate::write_backlog::WriteBacklog;
use hopeval_measures::MeasureBuffers;
use hopeval_operators::OperatorCounters;
use hopeval_operators::admit::{Credits, admit};
use hopeval_operators::commit::commit;
use hopeval_operators::correct::correct;
use hopeval_operators::drive::drive;
use hopeval_operators::flush::Flush;
use hopeval_operators::gate::Gate;
use hopeval_operators::persist::persist;
use hopeval_operators::scatter::scatter;
use hopeval_operators::serve::serve;
use hopeval_operators::tally::{KeyedChange, TallyTable, tally};
use hopeval_results::Store;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::operators::{Concat, ConnectLoop, Enter, Leave, LoopVariable, ToStream};
use timely::worker::Worker;

/// The parts of one worker's dataflow.
pub struct WorkerParts {
    /// The store for outcomes and journal.
    pub store: Store,
    /// The writer's identity.
    pub writer_id: WriterId,
    /// Configurations and services.
    pub configurations: Arc<RunConfigurations>,
    /// The evaluator of outcomes.
    pub evaluator: Arc<OutcomeEvaluator>,
    /// This worker's questions.
    pub feed: QuestionFeed,
    /// This worker's keys of the journal.
    pub answer_index: AnswerIndex,
    /// Counters of the process.
    pub counters: Arc<OperatorCounters>,
    /// Usage of this worker's services.
    pub usage: ServiceCounters,
    /// Requests of the process's machines, by round.
    pub demand: Arc<RequestDemand>,
    /// Counters of its outcomes.
    pub outcome_counters: Arc<OutcomeCounters>,
    /// Questions in flight.
    pub in_flight: usize,
    /// The least time from one part of outcomes to the next.
    pub part_pause: Duration,
    /// Most requests of a batch.
    pub batch: usize,
    /// Timed for throughput or latency.
    pub mode: TimingMode,
    /// Lets work begin, until the run ends early.
    pub gate: Gate,
    /// Records and outcomes of this worker that are not durable yet.
    pub backlogs: WorkerBacklogs,
    /// Requests the write of everything computed, when the run ends early.
    pub flush: Flush,
    /// Writes begun and not yet durable.
    pub open_writes: Arc<AtomicUsize>,
    /// The first error.
    pub fault: RunFault,
    /// Permits spending; `None` where no service costs money.
    pub spending: Option<SpendingLedger>,
    /// Additional parts of worker 0.
    pub leader: Option<LeaderParts>,
}

/// What one worker has handed to its writers.
#[derive(Clone)]
pub struct WorkerBacklogs {
    /// Segments of the journal, in bytes.
    pub journal: WriteBacklog,
    /// Parts of outcomes, in outcomes.
    pub outcomes: WriteBacklog,
}

impl WorkerBacklogs {
    /// Empty backlogs, which wake `admission`.
    pub fn new(admission: &OperatorWaker) -> Self {
        Self {
            journal: WriteBacklog::new("journal", journal_writer::MOST_UNDER_WAY, admission),
            outcomes: WriteBacklog::new("outcomes", outcome_writer::MOST_UNDER_WAY, admission),
        }
    }
}

/// Additional parts of worker 0: commits and corrections.
pub struct LeaderParts {
    /// Commits complete cohorts.
    pub committer: CohortCommitter,
    /// Tallies of the cohorts committed by earlier generations.
    pub before: Vec<KeyedChange<TallyGroup, GroupTally>>,
    /// Corrections of the tallies while the run is running.
    pub corrections: Receiver<Vec<KeyedChange<TallyGroup, GroupTally>>>,
    /// Woken after each correction.
    pub waker: OperatorWaker,
}

/// Builds the dataflow of `parts` on `worker`.
///
/// # Errors
/// A thread cannot be started; then there is no dataflow.
pub fn render(worker: &mut Worker, parts: WorkerParts) -> Result<(), JobError> {
    let credits = Credits::new(parts.in_flight);
    let catalogue = &parts.configurations.catalogue;
    let sharded = ShardedSearch::open(catalogue.services(), worker.index(), worker.peers())?;
    let inlet = sharded.as_ref().map(|sharded| &sharded.inlet);
    let options = ServingOptions { batch: parts.batch, mode: parts.mode, worker: worker.index() };
    let shared = DispatcherParts {
        answer_index: parts.answer_index.clone(),
        usage: &parts.usage,
        fault: &parts.fault,
        gate: &parts.gate,
        journal_backlog: &parts.backlogs.journal,
        spending: parts.spending.as_ref(),
        inlet,
    };
    let dispatcher = ServiceDispatcher::open(catalogue, shared, options)?;
    let journal_writer = JournalWriter::new(
        &parts.store,
        parts.writer_id.clone(),
        parts.answer_index,
        WriteCounts { open: Arc::clone(&parts.open_writes), backlog: parts.backlogs.journal.clone() },
        parts.fault.clone(),
        catalogue.remote_services(),
    )?;
    let counts = WriteCounts { open: parts.open_writes, backlog: parts.backlogs.outcomes };
    let (usage, fault) = (&parts.usage, parts.fault.clone());
    let outcome_writer = OutcomeWriter::new(&parts.store, parts.writer_id, usage, counts, fault, parts.part_pause)?;
    let (committer, before, corrections, waker) = match parts.leader {
        Some(leader) => (Some(leader.committer), leader.before, leader.corrections, leader.waker),
        None => (None, Vec::new(), channel().1, OperatorWaker::default()),
    };
    worker.dataflow::<u64, _, _>(|scope| {
        let questions = admit(scope, parts.feed, &credits, &parts.counters);
        let (evaluator, counted) = (Arc::clone(&parts.evaluator), parts.outcome_counters);
        let opener = MachineOpener::new(parts.configurations, evaluator, parts.mode, parts.demand, counted);
        let (outcomes, records) = scope.iterative::<u32, _, _>(|inner| {
            let (handle, replies) = inner.loop_variable::<Vec<_>>(1);
            let (requests, outcomes) =
                drive(questions.enter(inner), replies, opener, &credits, &parts.counters, &parts.gate);
            let (replies, records) = serve(requests, dispatcher, &parts.counters);
            replies.connect_loop(handle);
            (outcomes.leave(scope), records.leave(scope))
        });
        if let Some(ShardedSearch { queries, shards, .. }) = sharded {
            // While a query is under way, its question is open, and holds the time of the question's outcomes.
            scatter(outcomes.clone(), queries, shards);
        }
        let evaluator = parts.evaluator;
        let mut buffers = MeasureBuffers::default();
        let mut values = Vec::new();
        let changes = outcomes.clone().flat_map(move |end: MachineEnd| {
            let MachineEnd::Finished(finished) = end else { return None };
            evaluator.evaluate_outcome(&finished.question, &finished.row, &mut buffers, &mut values);
            Some(evaluator.tally_change(&finished.question, &finished.row, &values, 1))
        });
        let receipts = persist(outcomes, "outcomes", outcome_writer, &parts.flush);
        let receipts = receipts.concat(persist(records, "journal", journal_writer, &parts.flush));
        let corrected = correct(receipts.clone(), corrections, move |activator| waker.set_activator(activator));
        let before = before.to_stream(scope).container::<Vec<_>>();
        let live = tally(changes.concat(before).concat(corrected));
        commit(receipts, live, TallyTable::default(), WorkerCommitter(committer));
    });
    Ok(())
}

/// The committer of worker 0; other workers have `None`.
struct WorkerCommitter(Option<CohortCommitter>);

impl hopeval_operators::commit::Committer for WorkerCommitter {
    type Receipt = Receipt;
    type Key = TallyGroup;
    type Change = GroupTally;

    fn complete(&mut self, complete: u64, receipts: Vec<Receipt>, table: &TallyTable<TallyGroup, GroupTally>) {
        if let Some(committer) = &mut self.0 {
            committer.complete(complete, receipts, table);
        }
    }
}
