//! Brings items to their workers, and ends when they are kept there.
//!
//! ```text
//!   items --exchange, by route--> Collector: take_item, .. begin_finish --ticket--> any thread
//!                                                               ^                       |
//!                                                           end_finish <--- answer -----+
//! ```
//!
//! The output has no items. Every worker holds the first timestamp until its collector has ended, so downstream the end
//! of the input means "everything is kept". A failed collector reports its error by other means, and its worker holds
//! the timestamp for good: an end would be a lie.

use crate::produce::ProductionFailure;
use crate::ticket::{Mailbox, Ticket};
use timely::ExchangeData;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::operator::Operator;

/// Takes the items of one worker. After an error it is not called again.
pub trait Collector: 'static {
    /// An item on its way.
    type Item: ExchangeData;
    /// The result of the last step.
    type Done: Send + 'static;

    /// Takes an item. Does not block.
    ///
    /// # Errors
    /// The collector failed, and the error has been reported by other means.
    fn take_item(&mut self, item: Self::Item) -> Result<(), ProductionFailure>;

    /// Begins the last step, after all items of all workers. The ticket is answered at the end of the step, at once or
    /// later, from any thread. Does not block.
    ///
    /// # Errors
    /// As [`take_item`](Self::take_item).
    fn begin_finish(&mut self, ticket: Ticket<Self::Done>) -> Result<(), ProductionFailure>;

    /// Ends the last step; `done` is `None` if its ticket was dropped.
    ///
    /// # Errors
    /// As [`take_item`](Self::take_item).
    fn end_finish(&mut self, done: Option<Self::Done>) -> Result<(), ProductionFailure>;
}

/// Brings each of `items` to the collector of the worker numbered `route(item)`, modulo the workers.
///
/// ```
/// use hopeval_operators::collect::{Collector, collect};
/// use hopeval_operators::produce::ProductionFailure;
/// use hopeval_operators::ticket::Ticket;
/// use std::sync::mpsc::{Sender, channel};
/// use timely::dataflow::operators::{Probe, ToStream};
///
/// /// Keeps numbers, and hands them over when all are there.
/// struct Numbers(Vec<u64>, Sender<Vec<u64>>);
///
/// impl Collector for Numbers {
///     type Item = u64;
///     type Done = ();
///     fn take_item(&mut self, number: u64) -> Result<(), ProductionFailure> {
///         self.0.push(number);
///         Ok(())
///     }
///     fn begin_finish(&mut self, ticket: Ticket<()>) -> Result<(), ProductionFailure> {
///         let (numbers, kept) = (std::mem::take(&mut self.0), self.1.clone());
///         std::thread::spawn(move || {
///             kept.send(numbers).unwrap();
///             ticket.answer(());
///         });
///         Ok(())
///     }
///     fn end_finish(&mut self, done: Option<()>) -> Result<(), ProductionFailure> {
///         done.ok_or(ProductionFailure)
///     }
/// }
///
/// timely::execute_directly(|worker| {
///     let (sender, kept) = channel();
///     let probe = worker.dataflow::<u64, _, _>(|scope| {
///         let numbers = (1..=3u64).to_stream(scope).container::<Vec<_>>();
///         collect(numbers, |_| 0, Numbers(Vec::new(), sender)).probe().0
///     });
///     while !probe.done() {
///         worker.step_or_park(None);
///     }
///     assert_eq!(kept.try_recv(), Ok(vec![1, 2, 3]), "the end of the stream says that they are kept");
/// });
/// ```
pub fn collect<'scope, C: Collector>(
    items: Stream<'scope, u64, Vec<C::Item>>,
    route: impl Fn(&C::Item) -> usize + 'static,
    collector: C,
) -> Stream<'scope, u64, Vec<()>> {
    let scope = items.scope();
    let route = Exchange::new(move |item: &C::Item| route(item) as u64);
    items.unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(route, "collect", move |capability, info| {
        let mailbox = Mailbox::new(scope.worker().sync_activator_for(info.address.to_vec()));
        let (mut collector, mut capability, mut finishing) = (Some(collector), Some(capability), false);
        move |(input, frontier), _| {
            input.for_each(|_, batch| {
                batch.drain(..).for_each(|item| step_collector(&mut collector, |held| held.take_item(item)))
            });
            if frontier.is_empty() && !finishing {
                finishing = true;
                step_collector(&mut collector, |held| held.begin_finish(mailbox.new_ticket(0)));
            }
            for (_, done) in mailbox.take_answers() {
                step_collector(&mut collector, |held| held.end_finish(done));
                if collector.take().is_some() {
                    drop(capability.take());
                }
            }
        }
    })
}

/// Takes a step of a collector, and drops the collector if the step fails. Does nothing after a failure.
fn step_collector<C>(collector: &mut Option<C>, step: impl FnOnce(&mut C) -> Result<(), ProductionFailure>) {
    if collector.as_mut().is_some_and(|held| step(held).is_err()) {
        *collector = None;
    }
}

#[cfg(test)]
mod tests;
