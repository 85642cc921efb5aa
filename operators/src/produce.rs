//! Makes a stream of results that the workers compute in the background, a window of pieces at a time.
//!
//! ```text
//!   notices, of all workers --complete--> start --> Production --begin_piece--> any thread
//!                                                       ^                           |
//!                                                     window                      ticket
//!                                                       +-------- end_piece --------+----> items
//! ```
//!
//! Nothing begins before the notices of all workers have arrived: all workers then decide alike about the pieces and
//! their destinations. To begin a piece may be work (a passage is tokenised), so an activation begins a few, and the
//! operator activates itself for the rest: other operators of the worker run in between. All items have the first
//! timestamp. A worker holds it until its last piece has ended, so downstream the end of the input means "everything is
//! there". A failed production reports its error by other means, and its worker holds the timestamp for good: an end
//! would be a lie.

use crate::ticket::{Mailbox, Ticket};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::operator::Operator;

/// The most pieces begun in one activation.
const BEGUN_AT_ONCE: usize = 32;

/// The work of one worker, piece by piece.
pub trait Production: 'static {
    /// The result of a piece.
    type Done: Send + 'static;
    /// An item of the stream.
    type Item: 'static;

    /// True if every piece has begun.
    fn is_over(&self) -> bool;

    /// Begins the next piece. It ends when the ticket is answered, from any thread. Does not block.
    fn begin_piece(&mut self, ticket: Ticket<Self::Done>);

    /// Turns a finished piece into items. `done` is `None` if its ticket was dropped.
    ///
    /// # Errors
    /// The piece failed, and the error has been reported by other means. No further piece begins on this worker, and
    /// the stream does not end.
    fn end_piece(&mut self, done: Option<Self::Done>, items: &mut Vec<Self::Item>) -> Result<(), ProductionFailure>;
}

/// A production cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductionFailure;

/// Runs the production of `start` once all `notices` have arrived, with at most `window` pieces under way.
///
/// ```
/// use hopeval_operators::produce::{ProductionFailure, Production, produce};
/// use hopeval_operators::ticket::Ticket;
/// use timely::dataflow::operators::{Capture, ToStream, capture::Extract};
///
/// /// Squares of the notices.
/// struct Squares(Vec<u64>);
///
/// impl Production for Squares {
///     type Done = u64;
///     type Item = u64;
///     fn is_over(&self) -> bool {
///         self.0.is_empty()
///     }
///     fn begin_piece(&mut self, ticket: Ticket<u64>) {
///         let number = self.0.pop().unwrap();
///         std::thread::spawn(move || ticket.answer(number * number));
///     }
///     fn end_piece(&mut self, done: Option<u64>, items: &mut Vec<u64>) -> Result<(), ProductionFailure> {
///         items.push(done.ok_or(ProductionFailure)?);
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
            let activator = scope.activator_for(info.address);
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
                // Answers after this look wake the worker, including immediate answers to the tickets below.
                for (_, done) in mailbox.take_answers() {
                    open -= 1;
                    failed |= production.end_piece(done, &mut items).is_err();
                }
                if !items.is_empty() {
                    output.session(held).give_container(&mut items);
                }
                let may_begin = |open: usize, production: &P| !failed && open < window && !production.is_over();
                for _ in 0..BEGUN_AT_ONCE {
                    if !may_begin(open, production) {
                        break;
                    }
                    production.begin_piece(mailbox.new_ticket(0));
                    open += 1;
                }
                if may_begin(open, production) {
                    activator.activate();
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
