//! Renders a run as a dataflow on one worker: the one file that knows both jobs and the graph of operators.

use crate::job::Mode;
use crate::run::commits::{Clerk, Receipt};
use crate::run::drain::Gate;
use crate::run::journal::{Author, Scribe, Shelf};
use crate::run::judge::{Judge, TallyKey};
use crate::run::machines::{Company, Doorman, Finished};
use crate::run::outcomes::Sink;
use crate::services::dense::shards::Spread;
use crate::services::{Books, Desk, Fault, Manner};
use hopeval_measures::Scratch;
use hopeval_operators::Counters;
use hopeval_operators::admit::{Credits, Feed, Poll, admit};
use hopeval_operators::commit::commit;
use hopeval_operators::correct::correct;
use hopeval_operators::drive::drive;
use hopeval_operators::flush::Flush;
use hopeval_operators::persist::persist;
use hopeval_operators::scatter::scatter;
use hopeval_operators::serve::serve;
use hopeval_operators::tally::{Change, Table, tally};
use hopeval_results::Store;
use hopeval_results::tables::QuestionRow;
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use timely::dataflow::operators::vec::Map;
use timely::dataflow::operators::{Concat, ConnectLoop, Enter, Leave, LoopVariable, ToStream};
use timely::scheduling::SyncActivator;
use timely::worker::Worker;

/// What one worker needs to take its part in a run.
pub struct Parts {
    /// Where everything goes.
    pub store: Store,
    /// Who writes it.
    pub author: Author,
    /// Configurations and services.
    pub company: Arc<Company>,
    /// What judges outcomes.
    pub judge: Arc<Judge>,
    /// This worker's questions.
    pub feed: Channel,
    /// This worker's keys of the journal.
    pub shelf: Shelf,
    /// Counters of the process.
    pub counters: Arc<Counters>,
    /// What this worker's services do.
    pub books: Books,
    /// Questions in flight.
    pub in_flight: usize,
    /// Most requests of a batch.
    pub batch: usize,
    /// What the run is timed for.
    pub mode: Mode,
    /// Has everything that was computed written, when the run ends early.
    pub flush: Flush,
    /// Writes that have begun and are not durable.
    pub open_writes: Arc<AtomicUsize>,
    /// The first error.
    pub fault: Fault,
    /// What worker 0 does beside the others.
    pub leading: Option<Leading>,
}

/// What worker 0 does beside the others.
pub struct Leading {
    /// Commits.
    pub clerk: Clerk,
    /// Tallies of the chunks that were committed before.
    pub before: Vec<(TallyKey, Change)>,
    /// Corrections of the tallies while the run goes on.
    pub corrections: Receiver<Vec<(TallyKey, Change)>>,
    /// Woken after each correction.
    pub waker: Waker,
}

/// Builds the dataflow of `parts` on `worker`.
pub fn render(worker: &mut Worker, parts: Parts) {
    let credits = Credits::new(parts.in_flight);
    let catalogue = &parts.company.catalogue;
    let spread = Spread::open(catalogue, worker.index(), worker.peers());
    let inlet = spread.as_ref().map(|spread| &spread.inlet);
    let manner = Manner { batch: parts.batch, mode: parts.mode, worker: worker.index() };
    let desk = Desk::open(catalogue, parts.shelf.clone(), &parts.books, manner, &parts.fault, inlet);
    let scribe = Scribe::new(
        &parts.store,
        parts.author.clone(),
        parts.shelf,
        Arc::clone(&parts.open_writes),
        parts.fault.clone(),
    );
    let sink = Sink::new(&parts.store, parts.author, &parts.books, parts.open_writes, parts.fault.clone());
    let (clerk, before, corrections, waker) = match parts.leading {
        Some(leading) => (Some(leading.clerk), leading.before, leading.corrections, leading.waker),
        None => (None, Vec::new(), channel().1, Waker::default()),
    };
    worker.dataflow::<u64, _, _>(|scope| {
        let questions = admit(scope, parts.feed, &credits, &parts.counters);
        let doorman = Doorman::new(parts.company, Arc::clone(&parts.judge), parts.mode);
        let (outcomes, records) = scope.iterative::<u32, _, _>(|inner| {
            let (handle, replies) = inner.loop_variable::<Vec<_>>(1);
            let (requests, outcomes) = drive(questions.enter(inner), replies, doorman, &credits, &parts.counters);
            let (replies, records) = serve(requests, desk, &parts.counters);
            replies.connect_loop(handle);
            (outcomes.leave(scope), records.leave(scope))
        });
        if let Some(Spread { queries, shards, .. }) = spread {
            // While a query is under way, the question that needs it is open, and holds the time of its outcomes.
            scatter(outcomes.clone(), queries, shards);
        }
        let judge = parts.judge;
        let mut scratch = Scratch::default();
        let mut values = Vec::new();
        let changes = outcomes.clone().flat_map(move |finished: Rc<Finished>| {
            judge.score(&finished.question, &finished.row, &mut scratch, &mut values);
            judge.changes(&finished.question, &finished.row, &values, 1)
        });
        let receipts = persist(outcomes, "outcomes", sink, &parts.flush);
        let receipts = receipts.concat(persist(records, "journal", scribe, &parts.flush));
        let corrected = correct(receipts.clone(), corrections, move |activator| waker.set(activator));
        let before = before.to_stream(scope).container::<Vec<_>>();
        let live = tally(changes.concat(before).concat(corrected));
        commit(receipts, live, Table::default(), Maybe(clerk));
    });
}

/// The committer, where there is one: worker 0.
struct Maybe(Option<Clerk>);

impl hopeval_operators::commit::Committer for Maybe {
    type Receipt = Receipt;
    type Key = TallyKey;

    fn complete(&mut self, complete: u64, receipts: Vec<Receipt>, table: &Table<TallyKey>) {
        if let Some(clerk) = &mut self.0 {
            clerk.complete(complete, receipts, table);
        }
    }
}

/// Questions that a reading thread sends, in order.
pub struct Channel {
    receiver: Receiver<Vec<(u64, QuestionRow)>>,
    ready: std::vec::IntoIter<(u64, QuestionRow)>,
    waker: Waker,
    gate: Arc<Gate>,
}

/// Wakes an operator from another thread, once that operator is there.
#[derive(Clone, Default)]
pub struct Waker(Arc<Mutex<Option<SyncActivator>>>);

impl Waker {
    fn set(&self, activator: SyncActivator) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(activator);
    }

    /// Wakes it.
    pub fn wake(&self) {
        if let Some(activator) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // An error says that the worker is gone, and then nobody waits.
            let _ = activator.activate();
        }
    }
}

impl Channel {
    /// Reads from `receiver`; whoever sends must call `waker` after each send and after the last. Once `gate` is
    /// closed, nothing more is admitted, and the end is not reached either.
    pub fn new(receiver: Receiver<Vec<(u64, QuestionRow)>>, waker: Waker, gate: Arc<Gate>) -> Self {
        Self { receiver, ready: Vec::new().into_iter(), waker, gate }
    }
}

impl Feed for Channel {
    type Question = QuestionRow;

    fn poll(&mut self) -> Poll<QuestionRow> {
        loop {
            if self.gate.is_closed() {
                return Poll::Pending;
            }
            if !self.ready.as_slice().is_empty() {
                return match self.gate.pass().then(|| self.ready.next()).flatten() {
                    Some((chunk, question)) => Poll::Ready { chunk, question },
                    None => Poll::Pending,
                };
            }
            match self.receiver.try_recv() {
                Ok(batch) => self.ready = batch.into_iter(),
                Err(TryRecvError::Empty) => return Poll::Pending,
                Err(TryRecvError::Disconnected) => return Poll::Finished,
            }
        }
    }

    fn wake_with(&mut self, activator: SyncActivator) {
        self.waker.set(activator);
    }
}
