//! Makes a stream of what every worker computes in the background, a window of pieces at a time.
//!
//! ```text
//!   notices, of all workers --complete--> start --> Production --begin--> any thread
//!                                                       ^                     |
//!                                                     window                ticket
//!                                                       +------- end ---------+----> items
//! ```
//!
//! Nothing begins before everyone's notices are there, so that all workers decide alike what is to be done and for whom.
//! All items have the first time there is, which a worker holds until its last piece has ended: downstream, the end of
//! the input says that everything is there. A production that fails says so by other means, and its worker's time is
//! held for good: an end would be a lie.

use crate::ticket::{Mailbox, Ticket};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::operator::Operator;

/// What one worker makes, piece by piece.
pub trait Production: 'static {
    /// What a piece ends with.
    type Done: Send + 'static;
    /// What it becomes.
    type Item: 'static;

    /// Whether every piece has begun.
    fn is_over(&self) -> bool;

    /// Begins the next piece, which ends when the ticket is answered, from any thread. Does not block.
    fn begin(&mut self, ticket: Ticket<Self::Done>);

    /// What an ended piece gives; `None` is that of a ticket that was dropped.
    ///
    /// # Errors
    /// It failed, and whoever must know has been told: nothing more is begun here, and the stream does not end.
    fn end(&mut self, done: Option<Self::Done>, items: &mut Vec<Self::Item>) -> Result<(), Failed>;
}

/// A production that cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// Makes what `start` says, once all `notices` are there; at most `window` pieces are under way.
///
/// ```
/// use hopeval_operators::produce::{Failed, Production, produce};
/// use hopeval_operators::ticket::Ticket;
/// use timely::dataflow::operators::{Capture, ToStream, capture::Extract};
///
/// /// Squares of what was noticed.
/// struct Squares(Vec<u64>);
///
/// impl Production for Squares {
///     type Done = u64;
///     type Item = u64;
///     fn is_over(&self) -> bool {
///         self.0.is_empty()
///     }
///     fn begin(&mut self, ticket: Ticket<u64>) {
///         let number = self.0.pop().unwrap();
///         std::thread::spawn(move || ticket.answer(number * number));
///     }
///     fn end(&mut self, done: Option<u64>, items: &mut Vec<u64>) -> Result<(), Failed> {
///         items.push(done.ok_or(Failed)?);
///         Ok(())
///     }
/// }
///
/// let captured = timely::execute_directly(|worker| {
///     worker.dataflow::<u64, _, _>(|scope| {
///         let numbers = (1..=10u64).to_stream(scope).container::<Vec<_>>();
///         produce(numbers, 3, Squares).capture()
///     })
/// });
/// let mut squares: Vec<u64> = captured.extract().into_iter().flat_map(|(_, squares)| squares).collect();
/// squares.sort_unstable();
/// assert_eq!(squares, (1..=10).map(|n| n * n).collect::<Vec<u64>>());
/// ```
pub fn produce<'scope, N: 'static, P: Production>(
    notices: Stream<'scope, u64, Vec<N>>,
    window: usize,
    start: impl FnOnce(Vec<N>) -> P + 'static,
) -> Stream<'scope, u64, Vec<P::Item>> {
    let scope = notices.scope();
    notices.unary_frontier::<CapacityContainerBuilder<Vec<P::Item>>, _, _, _>(
        Pipeline,
        "produce",
        move |capability, info| {
            let mailbox = Mailbox::new(scope.worker().sync_activator_for(info.address.to_vec()));
            let (mut noticed, mut start, mut production) = (Vec::new(), Some(start), None);
            let (mut capability, mut open, mut failed) = (Some(capability), 0, false);
            move |(input, frontier), output| {
                input.for_each(|_, batch| noticed.append(batch));
                if frontier.is_empty()
                    && let Some(start) = start.take()
                {
                    production = Some(start(std::mem::take(&mut noticed)));
                }
                let (Some(production), Some(held)) = (&mut production, &capability) else { return };
                let mut items = Vec::new();
                // What comes after this look wakes the worker, also what is answered at once below.
                for (_, done) in mailbox.answers() {
                    open -= 1;
                    failed |= production.end(done, &mut items).is_err();
                }
                if !items.is_empty() {
                    output.session(held).give_container(&mut items);
                }
                while !failed && open < window && !production.is_over() {
                    production.begin(mailbox.ticket(0));
                    open += 1;
                }
                if !failed && open == 0 {
                    capability = None;
                }
            }
        },
    )
}

#[cfg(test)]
mod tests;
