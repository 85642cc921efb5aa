//! Tickets: the promise of exactly one answer, kept even by a service that panics.
//!
//! A lost answer would be a capability that is never dropped, and so a dataflow that never ends. A [`Ticket`] that is
//! dropped without an answer therefore says so, and the operator hears of it.

use std::sync::mpsc::{Receiver, Sender, channel};
use timely::scheduling::SyncActivator;

/// The operator's end: where answers arrive.
pub(crate) struct Mailbox<T> {
    sender: Sender<(usize, Option<T>)>,
    receiver: Receiver<(usize, Option<T>)>,
    activator: SyncActivator,
}

/// The right and duty to answer one request.
pub struct Ticket<T> {
    slot: usize,
    sender: Option<Sender<(usize, Option<T>)>>,
    activator: SyncActivator,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(activator: SyncActivator) -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver, activator }
    }

    pub(crate) fn ticket(&self, slot: usize) -> Ticket<T> {
        Ticket { slot, sender: Some(self.sender.clone()), activator: self.activator.clone() }
    }

    /// The next answer, `None` in it if its ticket was dropped.
    pub(crate) fn take(&self) -> Option<(usize, Option<T>)> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Ticket<T> {
    /// Answers, and wakes the worker.
    pub fn answer(mut self, answer: T) {
        self.post(Some(answer));
        self.wake();
    }

    /// Answers a whole batch and wakes the worker once.
    pub fn answer_all(batch: impl IntoIterator<Item = (Ticket<T>, T)>) {
        let mut last: Option<SyncActivator> = None;
        for (mut ticket, answer) in batch {
            ticket.post(Some(answer));
            last = Some(ticket.activator.clone());
        }
        if let Some(activator) = last {
            // An error says that the worker is gone, and then nobody waits.
            let _ = activator.activate();
        }
    }

    fn post(&mut self, answer: Option<T>) -> bool {
        // A send fails only when the operator is gone, and then nobody waits.
        self.sender.take().is_some_and(|sender| sender.send((self.slot, answer)).is_ok())
    }

    fn wake(&self) {
        let _ = self.activator.activate();
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if self.post(None) {
            self.wake();
        }
    }
}

/// Slots for what waits, reused.
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
