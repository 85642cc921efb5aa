//! Feeds a worker its share of the questions. A thread reads them from the run's table.

use crate::error::JobError;
use crate::fault::RunFault;
use crate::thread_start::start_thread;
use crate::waker::OperatorWaker;
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
        gate: Gate,
        fault: RunFault,
    ) -> Result<QuestionFeed, JobError> {
        let (sender, receiver) = sync_channel(BATCHES);
        let waker = OperatorWaker::default();
        let feed = QuestionFeed::new(receiver, waker.clone(), gate);
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

/// Receives questions from a reading thread, in order.
pub struct QuestionFeed {
    receiver: Receiver<Vec<(u64, QuestionRow)>>,
    ready: std::vec::IntoIter<(u64, QuestionRow)>,
    waker: OperatorWaker,
    gate: Gate,
}

impl QuestionFeed {
    /// Reads from `receiver`. The sender must call `waker` after each send and after dropping its end. Once `gate` is
    /// closed, further questions stay out, and the feed never reports its end.
    pub fn new(receiver: Receiver<Vec<(u64, QuestionRow)>>, waker: OperatorWaker, gate: Gate) -> Self {
        Self { receiver, ready: Vec::new().into_iter(), waker, gate }
    }
}

impl Feed for QuestionFeed {
    type Question = QuestionRow;

    fn poll(&mut self) -> FeedPoll<QuestionRow> {
        loop {
            if self.gate.is_closed() {
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
        self.waker.set_activator(activator);
    }
}
