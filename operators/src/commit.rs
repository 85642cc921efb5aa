//! Tells one worker about complete and durable cohorts.
//!
//! Receipts of durable writes and updates of the live table come from all workers to worker 0. When the frontiers of
//! both have passed some cohorts, the [`Committer`] gets them, with all receipts so far and the table at that cohort.

use crate::tally::{TallyTable, TallyUpdate};
use differential_dataflow::ExchangeData;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

/// Commits cohorts, on worker 0.
pub trait Committer: 'static {
    /// News of a durable write.
    type Receipt;
    /// The key of a tally.
    type Key;
    /// Its changes.
    type Change;

    /// Reports that all cohorts below `complete` are complete and durable ([`u64::MAX`]: all cohorts). `receipts` have
    /// come since the last call. Does not block.
    fn complete(&mut self, complete: u64, receipts: Vec<Self::Receipt>, table: &TallyTable<Self::Key, Self::Change>);
}

/// An update of the tallies that a committer gets.
type UpdateFor<C> = TallyUpdate<<C as Committer>::Key, <C as Committer>::Change>;

/// Drives `committer` on worker 0.
///
/// ```
/// use hopeval_operators::commit::{Committer, commit};
/// use hopeval_operators::tally::{TallyChange, TallyTable, TallyUpdate};
/// use std::sync::mpsc::{Sender, channel};
/// use timely::dataflow::operators::{Input, ToStream};
///
/// /// Sends the parts of each commit.
/// struct CommitSender(Sender<(u64, Vec<String>)>);
///
/// impl Committer for CommitSender {
///     type Receipt = String;
///     type Key = u8;
///     type Change = TallyChange;
///     fn complete(&mut self, complete: u64, receipts: Vec<String>, _: &TallyTable<u8, TallyChange>) {
///         self.0.send((complete, receipts)).unwrap();
///     }
/// }
///
/// timely::execute_directly(|worker| {
///     let (commits, log) = channel();
///     let mut durable = worker.dataflow::<u64, _, _>(|scope| {
///         let (durable, receipts) = scope.new_input::<Vec<String>>();
///         let live = std::iter::empty::<TallyUpdate<u8, TallyChange>>().to_stream(scope).container::<Vec<_>>();
///         commit(receipts, live, TallyTable::default(), CommitSender(commits));
///         durable
///     });
///     durable.send("part 0".to_owned());
///     durable.advance_to(2);
///     (0..3).for_each(|_| drop(worker.step()));
///     assert_eq!(log.recv(), Ok((2, vec!["part 0".to_owned()])), "cohorts 0 and 1 are complete");
///     durable.send("part 1".to_owned());
///     durable.close();
///     (0..3).for_each(|_| drop(worker.step()));
///     assert_eq!(log.recv(), Ok((u64::MAX, vec!["part 1".to_owned()])), "and so are all others");
/// });
/// ```
pub fn commit<'scope, C>(
    receipts: Stream<'scope, u64, Vec<C::Receipt>>,
    live: Stream<'scope, u64, Vec<UpdateFor<C>>>,
    mut table: TallyTable<C::Key, C::Change>,
    mut committer: C,
) where
    C: Committer,
    C::Receipt: serde::Serialize + for<'a> serde::Deserialize<'a> + Send + Clone + 'static,
    C::Key: ExchangeData,
    C::Change: ExchangeData,
{
    let scope = receipts.scope();
    let mut builder = OperatorBuilder::new("commit".to_owned(), scope);
    let mut receipts = builder.new_input(receipts, Exchange::new(|_: &C::Receipt| 0));
    let mut live = builder.new_input(live, Exchange::new(|_: &UpdateFor<C>| 0));
    let here = scope.index() == 0;
    builder.build(move |_| {
        let (mut arrived, mut complete) = (Vec::new(), 0u64);
        move |frontiers| {
            receipts.for_each(|_, batch| arrived.append(batch));
            live.for_each(|_, batch| table.take_updates(batch));
            let passed = |i: usize| frontiers[i].frontier().first().copied().unwrap_or(u64::MAX);
            let now = passed(0).min(passed(1));
            if here && now > complete {
                complete = now;
                table.apply_below(complete);
                committer.complete(complete, std::mem::take(&mut arrived), &table);
            }
        }
    });
}

#[cfg(test)]
mod tests;
