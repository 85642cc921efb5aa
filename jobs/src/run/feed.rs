//! Feeds a worker its share of the questions. A thread reads them from the run's table.
//!
//! While the worker's writers have much to write, no question is handed out.

use crate::error::JobError;
use crate::fault::RunFault;
use crate::thread_start::start_thread;
use crate::waker::OperatorWaker;
use crate::write_backlog::WriteBacklog;
use hopeval_operators::admit::{Feed, FeedPoll};
use hopeval_operators::gate::Gate;
use hopeval_results::tables::QuestionRow;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use timely::scheduling::SyncActivator;

/// Questions sent at once by the reading thread.
const BATCH: usize = 64;

/// Most waiting batches.
const BATCHES: usize = 4;

/// The questions of one worker.
pub(super) struct QuestionShare {
    /// The worker.
    pub(super) index: u64,
    /// The number of workers that share the questions: one question in `askers` belongs to this worker.
    pub(super) askers: u64,
    /// Questions of a cohort.
    pub(super) cohort_size: u64,
    /// Committed cohorts.
    pub(super) committed: BTreeSet<u64>,
}

impl QuestionShare {
    /// Reads the share from `questions` in a thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start_reading(
        self,
        questions: impl Iterator<Item = Result<QuestionRow, JobError>> + Send + 'static,
        control: FeedControl,
        fault: RunFault,
    ) -> Result<QuestionFeed, JobError> {
        let (sender, receiver) = sync_channel(BATCHES);
        let waker = control.waker.clone();
        let feed = QuestionFeed::new(receiver, control);
        let read = move || match self.send(questions, &sender, &waker) {
            Ok(()) => {
                drop(sender);
                waker.wake();
            }
            // The channel stays open: a closed one would mean the end of the dataset.
            Err(error) => {
                fault.report(error);
                std::mem::forget(sender);
            }
        };
        start_thread("questions", read)?;
        Ok(feed)
    }

    /// Sends the share, or stops early if the receiver is gone.
    fn send(
        &self,
        questions: impl Iterator<Item = Result<QuestionRow, JobError>>,
        sender: &SyncSender<Vec<(u64, QuestionRow)>>,
        waker: &OperatorWaker,
    ) -> Result<(), JobError> {
        let mut batch = Vec::new();
        for row in questions {
            let row = row?;
            let cohort = row.index / self.cohort_size;
            if row.index % self.askers == self.index && !self.committed.contains(&cohort) {
                batch.push((cohort, row));
                if batch.len() == BATCH {
                    if sender.send(std::mem::take(&mut batch)).is_err() {
                        return Ok(());
                    }
                    waker.wake();
                }
            }
        }
        if !batch.is_empty() {
            // An error means the worker is gone.
            drop(sender.send(batch));
        }
        Ok(())
    }
}

/// Decides when a feed hands out questions.
#[derive(Clone)]
pub struct FeedControl {
    /// Wakes the admission.
    pub waker: OperatorWaker,
    /// Once it is closed, further questions stay out, and the feed never reports its end.
    pub gate: Gate,
    /// While one of them is full, further questions wait. Each wakes the admission.
    pub backlogs: Vec<WriteBacklog>,
}

/// Receives questions from a reading thread, in order.
pub struct QuestionFeed {
    receiver: Receiver<Vec<(u64, QuestionRow)>>,
    ready: std::vec::IntoIter<(u64, QuestionRow)>,
    control: FeedControl,
}

impl QuestionFeed {
    /// Reads from `receiver`. The sender must call the waker after each send and after dropping its end.
    pub fn new(receiver: Receiver<Vec<(u64, QuestionRow)>>, control: FeedControl) -> Self {
        Self { receiver, ready: Vec::new().into_iter(), control }
    }
}

impl Feed for QuestionFeed {
    type Question = QuestionRow;

    fn poll(&mut self) -> FeedPoll<QuestionRow> {
        loop {
            // A backlog with room again wakes the admission.
            if self.control.gate.is_closed() || self.control.backlogs.iter().any(WriteBacklog::is_full) {
                return FeedPoll::Pending;
            }
            if !self.ready.as_slice().is_empty() {
                return match self.ready.next() {
                    Some((cohort, question)) => FeedPoll::Ready { cohort, question },
                    None => FeedPoll::Pending,
                };
            }
            match self.receiver.try_recv() {
                Ok(batch) => self.ready = batch.into_iter(),
                Err(TryRecvError::Empty) => return FeedPoll::Pending,
                Err(TryRecvError::Disconnected) => return FeedPoll::Finished,
            }
        }
    }

    fn wake_with(&mut self, activator: SyncActivator) {
        self.control.waker.set_activator(activator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_operators::OperatorCounters;
    use hopeval_operators::admit::{Credits, admit};
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use timely::dataflow::operators::Inspect;
    use timely::worker::Worker;

    fn settle(worker: &mut Worker) {
        for _ in 0..20 {
            worker.step();
        }
    }

    #[test]
    fn a_full_backlog_admits_nothing_and_wakes_the_admission_when_there_is_room() {
        const QUESTIONS: u64 = 5;
        const PATIENCE: Duration = Duration::from_secs(60);
        timely::execute_directly(|worker| {
            let (sender, receiver) = sync_channel(1);
            let batch = (0..QUESTIONS).map(|index| (0, QuestionRow { index, ..QuestionRow::default() })).collect();
            sender.send(batch).expect("there is room");
            let waker = OperatorWaker::default();
            let backlog = WriteBacklog::new("outcomes", 3, &waker);
            let control = FeedControl { waker, gate: Gate::default(), backlogs: vec![backlog.clone()] };
            let feed = QuestionFeed::new(receiver, control);
            let (credits, counters) = (Credits::new(2), Arc::new(OperatorCounters::default()));
            let admitted = Rc::new(RefCell::new(Vec::new()));
            let log = Rc::clone(&admitted);
            worker.dataflow(|scope| {
                admit(scope, feed, &credits, &counters).inspect(move |row| log.borrow_mut().push(row.index));
            });
            let writes: Vec<_> = (0..3).map(|_| backlog.begin_write(1)).collect();
            settle(worker);
            assert!(admitted.borrow().is_empty(), "the writers have three outcomes to write");
            // From the writer's thread. Nothing else activates the admission.
            std::thread::spawn(move || drop(writes));
            let since = Instant::now();
            while admitted.borrow().len() < 2 {
                assert!(since.elapsed() < PATIENCE, "the admission sleeps for ever");
                worker.step_or_park(Some(PATIENCE));
            }
            let write = backlog.begin_write(3);
            credits.give_back(2);
            settle(worker);
            assert_eq!(*admitted.borrow(), [0, 1], "a credit alone admits nothing");
            drop(write);
            settle(worker);
            assert_eq!(*admitted.borrow(), [0, 1, 2, 3]);
            drop(sender);
            credits.give_back(4);
            settle(worker);
        });
    }
}
