//! Admits questions while there are credits.
//!
//! Every worker feeds its own share of the dataset, in dataset order. A question takes a credit when it is admitted,
//! and `drive` returns the credit when all configurations of the question are done. So the number of questions in
//! flight is bounded, one slow question holds up nothing else, and memory does not grow with the size of the dataset.

use crate::counters::OperatorCounters;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::generic::operator::source;
use timely::dataflow::{Scope, Stream};
use timely::scheduling::{Activator, SyncActivator};

/// A worker's share of the dataset.
pub trait Feed: 'static {
    /// A question.
    type Question: 'static;

    /// The next question with its cohort. Cohorts never decrease.
    fn poll(&mut self) -> FeedPoll<Self::Question>;

    /// Takes the activator to wake after [`FeedPoll::Pending`]. Called once, before the first poll.
    fn wake_with(&mut self, activator: SyncActivator);
}

/// The answer of a [`Feed`] to a poll.
#[derive(Debug)]
pub enum FeedPoll<Q> {
    /// A question.
    Ready {
        /// The question's cohort.
        cohort: u64,
        /// The question.
        question: Q,
    },
    /// No question yet. The feed will wake the activator.
    Pending,
    /// The end of the feed.
    Finished,
}

/// The credits of one worker.
#[derive(Clone)]
pub struct Credits {
    free: Rc<Cell<usize>>,
    admit: Rc<RefCell<Option<Activator>>>,
}

impl Credits {
    /// Credits for `limit` questions in flight on this worker; at least one.
    pub fn new(limit: usize) -> Self {
        Self { free: Rc::new(Cell::new(limit.max(1))), admit: Rc::default() }
    }

    fn try_take(&self) -> bool {
        let free = self.free.get();
        self.free.set(free.saturating_sub(1));
        free > 0
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.free.get()
    }

    /// Gives back `n` credits and wakes the admission.
    pub fn give_back(&self, n: usize) {
        if n > 0 {
            self.free.set(self.free.get() + n);
            if let Some(activator) = self.admit.borrow().as_ref() {
                activator.activate();
            }
        }
    }
}

/// The stream of admitted questions, each at the timestamp of its cohort.
///
/// ```
/// use hopeval_operators::OperatorCounters;
/// use hopeval_operators::admit::{Credits, Feed, FeedPoll, admit};
/// use std::{cell::RefCell, ops::Range, rc::Rc, sync::Arc};
/// use timely::dataflow::operators::Inspect;
/// use timely::scheduling::SyncActivator;
///
/// /// Numbers as questions, ten of them in a cohort.
/// struct Numbers(Range<u64>);
///
/// impl Feed for Numbers {
///     type Question = u64;
///     fn poll(&mut self) -> FeedPoll<u64> {
///         self.0.next().map_or(FeedPoll::Finished, |n| FeedPoll::Ready { cohort: n / 10, question: n })
///     }
///     fn wake_with(&mut self, _: SyncActivator) {}
/// }
///
/// timely::execute_directly(|worker| {
///     let (credits, counters) = (Credits::new(2), Arc::new(OperatorCounters::default()));
///     let admitted = Rc::new(RefCell::new(Vec::new()));
///     let log = Rc::clone(&admitted);
///     worker.dataflow(|scope| {
///         admit(scope, Numbers(8..12), &credits, &counters).inspect(move |n| log.borrow_mut().push(*n));
///     });
///     (0..3).for_each(|_| drop(worker.step()));
///     assert_eq!(*admitted.borrow(), [8, 9], "two credits, two questions in flight");
///     // One of them is done.
///     credits.give_back(1);
///     (0..3).for_each(|_| drop(worker.step()));
///     assert_eq!(*admitted.borrow(), [8, 9, 10]);
///     credits.give_back(2);
///     (0..3).for_each(|_| drop(worker.step()));
///     assert_eq!(admitted.borrow().len(), 4);
/// });
/// ```
pub fn admit<'scope, F: Feed>(
    scope: Scope<'scope, u64>,
    mut feed: F,
    credits: &Credits,
    counters: &Arc<OperatorCounters>,
) -> Stream<'scope, u64, Vec<F::Question>> {
    let (credits, counters) = (credits.clone(), Arc::clone(counters));
    source::<_, CapacityContainerBuilder<Vec<F::Question>>, _, _>(scope, "admit", move |capability, info| {
        feed.wake_with(scope.worker().sync_activator_for(info.address.to_vec()));
        *credits.admit.borrow_mut() = Some(scope.activator_for(Rc::clone(&info.address)));
        let mut capability = Some(capability);
        move |output| {
            let Some(held) = capability.as_mut() else { return };
            let mut admitted = Vec::new();
            let finished = loop {
                if !credits.try_take() {
                    break false;
                }
                match feed.poll() {
                    FeedPoll::Ready { cohort, question } => {
                        if cohort > *held.time() {
                            output.session(held).give_container(&mut admitted);
                            held.downgrade(&cohort);
                        }
                        admitted.push(question);
                        OperatorCounters::add(&counters.admitted, 1);
                    }
                    FeedPoll::Pending => {
                        credits.free.set(credits.free.get() + 1);
                        break false;
                    }
                    FeedPoll::Finished => break true,
                }
            };
            if !admitted.is_empty() {
                output.session(held).give_container(&mut admitted);
            }
            if finished {
                capability = None;
            }
        }
    })
}

#[cfg(test)]
mod tests;
