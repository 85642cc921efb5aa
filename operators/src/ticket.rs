//! Tickets: the promise of exactly one answer, kept even by a service that panics.
//!
//! A lost answer would leave a capability open for ever, and the dataflow would never end. Therefore a [`Ticket`]
//! dropped without an answer informs the operator.

use crate::gate::WorkGuard;
use crate::notifier::Notifier;
use crate::own_looks::OwnLooks;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use timely::scheduling::SyncActivator;

/// An answer on its way to the operator.
pub(crate) struct PostedAnswer<T> {
    /// The slot of its request.
    pub(crate) slot: usize,
    /// The answer; `None` if the ticket was dropped.
    pub(crate) answer: Option<T>,
    /// Its work, which the operator drops once it has sent the answer.
    pub(crate) work: Option<WorkGuard>,
    /// Whether it can wait for a look that the operator has announced.
    can_wait: bool,
}

/// The channel to one operator, shared by its tickets.
struct AnswerChannel<T> {
    sender: Sender<PostedAnswer<T>>,
    notifier: Notifier,
}

/// The operator's end of the channel: receives the answers.
pub(crate) struct Mailbox<T> {
    channel: Arc<AnswerChannel<T>>,
    receiver: Receiver<PostedAnswer<T>>,
}

/// The right and duty to answer one request.
pub struct Ticket<T> {
    slot: usize,
    channel: Option<Arc<AnswerChannel<T>>>,
    work: Option<WorkGuard>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(activator: SyncActivator) -> Self {
        let (sender, receiver) = channel();
        Self { channel: Arc::new(AnswerChannel { sender, notifier: Notifier::with_activator(activator) }), receiver }
    }

    pub(crate) fn new_ticket(&self, slot: usize) -> Ticket<T> {
        Ticket { slot, channel: Some(Arc::clone(&self.channel)), work: None }
    }

    /// Announces a call of [`take_answers`](Self::take_answers) in this activation. Until then, answers need not wake
    /// the worker.
    pub(crate) fn will_read(&self) {
        self.channel.notifier.mute();
    }

    /// The answers posted so far; `None` for a dropped ticket.
    pub(crate) fn take_answers(&self) -> impl Iterator<Item = (usize, Option<T>)> {
        self.posted().map(|posted| (posted.slot, posted.answer))
    }

    /// The same, each with its work. After answers that can wait, the operator looks again by itself.
    pub(crate) fn take_posted(&self, looks: &mut OwnLooks) -> Vec<PostedAnswer<T>> {
        looks.begin(&self.channel.notifier);
        let posted: Vec<_> = self.posted().collect();
        if posted.iter().any(|posted| posted.can_wait) {
            looks.announce(&self.channel.notifier);
        }
        posted
    }

    fn posted(&self) -> impl Iterator<Item = PostedAnswer<T>> {
        self.channel.notifier.rearm();
        self.receiver.try_iter()
    }
}

impl<T> Ticket<T> {
    /// Marks the request as under way: `work` is dropped when the operator has sent the answer.
    pub fn set_work(&mut self, work: WorkGuard) {
        self.work = Some(work);
    }

    /// Answers, and wakes the worker.
    pub fn answer(mut self, answer: T) {
        if let Some(channel) = self.post_answer(Some(answer), false) {
            channel.notifier.notify();
        }
    }

    /// Answers, and wakes the worker unless it will look by itself within milliseconds. For answers that took long and
    /// come one by one from elsewhere: a look for each costs the worker more than the answer does.
    pub fn answer_soon(mut self, answer: T) {
        if let Some(channel) = self.post_answer(Some(answer), true) {
            channel.notifier.notify_soon();
        }
    }

    /// Answers a whole batch, and then wakes each of its workers once.
    pub fn answer_all(batch: impl IntoIterator<Item = (Ticket<T>, T)>) {
        let mut pending = PendingNotifications(Vec::new());
        for (mut ticket, answer) in batch {
            if let Some(channel) = ticket.post_answer(Some(answer), false)
                && !pending.0.iter().any(|other| Arc::ptr_eq(other, &channel))
            {
                pending.0.push(channel);
            }
        }
    }

    /// Posts the answer, and returns the channel if its operator must be woken.
    fn post_answer(&mut self, answer: Option<T>, can_wait: bool) -> Option<Arc<AnswerChannel<T>>> {
        // A send fails only if the operator is gone, and then nobody waits.
        let posted = PostedAnswer { slot: self.slot, answer, work: self.work.take(), can_wait };
        self.channel.take().filter(|channel| channel.sender.send(posted).is_ok())
    }
}

/// Tickets without a dataflow, and their answers: for tests of code that answers tickets.
pub struct TicketBox<T>(Mailbox<T>);

impl<T> Default for TicketBox<T> {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self(Mailbox { channel: Arc::new(AnswerChannel { sender, notifier: Notifier::default() }), receiver })
    }
}

impl<T> TicketBox<T> {
    /// The ticket numbered `slot`.
    pub fn new_ticket(&self, slot: usize) -> Ticket<T> {
        self.0.new_ticket(slot)
    }

    /// Waits for `n` answers, each with its ticket's number; `None` for a dropped ticket.
    ///
    /// # Errors
    /// Fewer answers came within `patience`.
    pub fn wait_for(&self, n: usize, patience: Duration) -> Result<Vec<(usize, Option<T>)>, RecvTimeoutError> {
        let answers = (0..n).map(|_| self.0.receiver.recv_timeout(patience));
        answers.map(|posted| posted.map(|PostedAnswer { slot, answer, .. }| (slot, answer))).collect()
    }
}

/// The operators to notify at the end, even if the computation of the batch panics.
struct PendingNotifications<T>(Vec<Arc<AnswerChannel<T>>>);

impl<T> Drop for PendingNotifications<T> {
    fn drop(&mut self) {
        self.0.iter().for_each(|channel| channel.notifier.notify());
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Some(channel) = self.post_answer(None, false) {
            channel.notifier.notify();
        }
    }
}

/// Reusable slots for waiting values.
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> usize {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(value);
                slot
            }
            None => {
                self.slots.push(Some(value));
                self.slots.len() - 1
            }
        }
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.slots.get_mut(slot).and_then(Option::as_mut)
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Option<T> {
        let value = self.slots.get_mut(slot).and_then(Option::take);
        if value.is_some() {
            self.free.push(slot);
        }
        value
    }
}

#[cfg(test)]
mod tests;
