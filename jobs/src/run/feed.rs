//! Feeds a worker its share of the questions, which a thread reads from the run's table.

use super::drain::Gate;
use crate::error::JobError;
use crate::fault::Fault;
use crate::waker::Waker;
use hopeval_operators::admit::{Feed, Poll};
use hopeval_results::tables::QuestionRow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use timely::scheduling::SyncActivator;

/// Questions that the reading thread sends at once.
const BATCH: usize = 64;

/// Batches that wait at most.
const BATCHES: usize = 4;

/// The questions that belong to one worker.
pub(super) struct Share {
    /// The worker.
    pub(super) index: u64,
    /// Every so many questions one belongs to it.
    pub(super) askers: u64,
    /// Questions of a chunk.
    pub(super) chunk_size: u64,
    /// Chunks that are committed.
    pub(super) committed: BTreeSet<u64>,
}

impl Share {
    /// Reads the share from `questions` in a thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn read(
        self,
        questions: impl Iterator<Item = Result<QuestionRow, JobError>> + Send + 'static,
        gate: Arc<Gate>,
        fault: Fault,
    ) -> std::io::Result<Channel> {
        let (sender, receiver) = sync_channel(BATCHES);
        let waker = Waker::default();
        let feed = Channel::new(receiver, waker.clone(), gate);
        let read = move || match self.send(questions, &sender, &waker) {
            Ok(()) => {
                drop(sender);
                waker.wake();
            }
            // The channel stays open, so the end is never taken for the dataset's.
            Err(error) => {
                fault.report(error);
                std::mem::forget(sender);
            }
        };
        std::thread::Builder::new().name("questions".into()).spawn(read)?;
        Ok(feed)
    }

    /// Sends the share, until nobody reads it any more.
    fn send(
        &self,
        questions: impl Iterator<Item = Result<QuestionRow, JobError>>,
        sender: &SyncSender<Vec<(u64, QuestionRow)>>,
        waker: &Waker,
    ) -> Result<(), JobError> {
        let mut batch = Vec::new();
        for row in questions {
            let row = row?;
            let chunk = row.index / self.chunk_size;
            if row.index % self.askers == self.index && !self.committed.contains(&chunk) {
                batch.push((chunk, row));
                if batch.len() == BATCH {
                    if sender.send(std::mem::take(&mut batch)).is_err() {
                        return Ok(());
                    }
                    waker.wake();
                }
            }
        }
        if !batch.is_empty() {
            // An error says that the worker is gone.
            drop(sender.send(batch));
        }
        Ok(())
    }
}

/// Questions that a reading thread sends, in order.
pub struct Channel {
    receiver: Receiver<Vec<(u64, QuestionRow)>>,
    ready: std::vec::IntoIter<(u64, QuestionRow)>,
    waker: Waker,
    gate: Arc<Gate>,
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
