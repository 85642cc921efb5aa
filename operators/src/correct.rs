//! Lets corrections into a stream of changes during a run.
//!
//! A correction (gold was edited, so new scores replace old ones) is known outside the dataflow, to the reader of the
//! log. It enters at the frontier of complete and durable cohorts, and never holds that frontier back.

use std::sync::mpsc::Receiver;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::operator::Operator;
use timely::scheduling::SyncActivator;

/// The changes received from `corrections`, at the frontier of `after`, until `after` ends.
///
/// `wake_with` gets the activator to wake after each send. Corrections after the end are ignored: the final figures are
/// computed from outcomes and gold, not from this stream.
///
/// ```
/// use hopeval_operators::correct::correct;
/// use std::{cell::RefCell, rc::Rc, sync::mpsc::channel};
/// use timely::dataflow::operators::{Input, Inspect};
///
/// timely::execute_directly(|worker| {
///     let (sender, corrections) = channel();
///     let corrected = Rc::new(RefCell::new(Vec::new()));
///     let log = Rc::clone(&corrected);
///     let mut after = worker.dataflow::<u64, _, _>(|scope| {
///         let (after, receipts) = scope.new_input::<Vec<()>>();
///         let corrected = correct(receipts, corrections, |_| ());
///         corrected.inspect(move |change| log.borrow_mut().push(*change));
///         after
///     });
///     // A score of 1 becomes one of 0, in fixed point.
///     sender.send(vec![("em", (0, 0, -1000, -1000))]).unwrap();
///     after.advance_to(8);
///     (0..3).for_each(|_| drop(worker.step()));
///     assert_eq!(*corrected.borrow(), [("em", (0, 0, -1000, -1000))]);
/// });
/// ```
pub fn correct<'scope, R: Clone + 'static, C: 'static>(
    after: Stream<'scope, u64, Vec<R>>,
    corrections: Receiver<Vec<C>>,
    wake_with: impl FnOnce(SyncActivator) + 'static,
) -> Stream<'scope, u64, Vec<C>> {
    let scope = after.scope();
    after.unary_frontier::<CapacityContainerBuilder<Vec<C>>, _, _, _>(Pipeline, "correct", move |capability, info| {
        wake_with(scope.worker().sync_activator_for(info.address.to_vec()));
        let mut capability = Some(capability);
        move |(input, frontier), output| {
            input.for_each(|_, batch| batch.clear());
            let Some(held) = capability.as_mut() else { return };
            while let Ok(mut changes) = corrections.try_recv() {
                output.session(held).give_container(&mut changes);
            }
            match frontier.frontier().first() {
                Some(complete) => held.downgrade(complete),
                None => capability = None,
            }
        }
    })
}

#[cfg(test)]
mod tests;
