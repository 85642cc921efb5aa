//! Tells one worker when chunks are complete and durable.
//!
//! Receipts of durable writes and updates of the live table come from all workers to worker 0. When the frontier of
//! both has passed some chunks, the [`Committer`] gets them, with all receipts so far and the table as of then.

use crate::tally::{Table, Update};
use differential_dataflow::ExchangeData;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

/// What commits chunks, on worker 0.
pub trait Committer: 'static {
    /// What a durable write is known by.
    type Receipt;
    /// What tallies are kept for.
    type Key;

    /// All chunks below `complete` are complete and durable ([`u64::MAX`]: all there are). `receipts` are those that
    /// came since the last call. Does not block.
    fn complete(&mut self, complete: u64, receipts: Vec<Self::Receipt>, table: &Table<Self::Key>);
}

/// Drives `committer` on worker 0.
pub fn commit<'scope, C>(
    receipts: Stream<'scope, u64, Vec<C::Receipt>>,
    live: Stream<'scope, u64, Vec<Update<C::Key>>>,
    mut table: Table<C::Key>,
    mut committer: C,
) where
    C: Committer,
    C::Receipt: serde::Serialize + for<'a> serde::Deserialize<'a> + Send + Clone + 'static,
    C::Key: ExchangeData,
{
    let scope = receipts.scope();
    let mut builder = OperatorBuilder::new("commit".to_owned(), scope);
    let mut receipts = builder.new_input(receipts, Exchange::new(|_: &C::Receipt| 0));
    let mut live = builder.new_input(live, Exchange::new(|_: &Update<C::Key>| 0));
    let here = scope.index() == 0;
    builder.build(move |_| {
        let (mut arrived, mut complete) = (Vec::new(), 0u64);
        move |frontiers| {
            receipts.for_each(|_, batch| arrived.append(batch));
            live.for_each(|_, batch| table.take(batch));
            let passed = |i: usize| frontiers[i].frontier().first().copied().unwrap_or(u64::MAX);
            let now = passed(0).min(passed(1));
            if here && now > complete {
                complete = now;
                table.advance(complete);
                committer.complete(complete, std::mem::take(&mut arrived), &table);
            }
        }
    });
}

#[cfg(test)]
mod tests;
