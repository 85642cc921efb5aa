//! Makes a stream durable, and holds its time back until it is.
//!
//! The operator keeps one capability. When its input is complete up to some chunk, it has the [`Writer`] write what
//! that completeness requires, and it lets go of the earlier chunks only when every write that was begun before is
//! durable. Downstream, a passed frontier therefore means "durable", for everything that came in before the chunk was
//! complete, at whatever time it came in.
//!
//! A run that ends early completes nothing more; then a [`Flush`] asks for the writes, and no time is let go.

use crate::flush::Flush;
use crate::ticket::{Mailbox, Ticket};
use std::collections::VecDeque;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::operator::Operator;

/// Writes items of one worker, in the background.
pub trait Writer: 'static {
    /// What is written.
    type Item: 'static;
    /// What a durable write is known by.
    type Receipt: 'static;

    /// Takes items of a chunk.
    fn accept(&mut self, chunk: u64, items: &mut Vec<Self::Item>);

    /// Begins the writes that are due, each with a ticket from `begin` that is answered when it is durable.
    ///
    /// A ticket that is dropped says that the write failed for good: the time is never let go, a flush is never done,
    /// and the writer must have told whoever ends the run.
    fn write(&mut self, due: Due, begin: &mut dyn FnMut() -> Ticket<Self::Receipt>);
}

/// What a [`Writer`] is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The input is complete for all chunks below ([`u64::MAX`]: all there are).
    pub complete: u64,
    /// That is news: the writes that this completeness requires are due.
    pub advanced: bool,
    /// The run ends early: the writes that a later run can use are due, of whatever chunk.
    pub flush: bool,
}

/// The receipts of what `writer` made durable of `items`.
pub fn persist<'scope, W: Writer>(
    items: Stream<'scope, u64, Vec<W::Item>>,
    name: &str,
    mut writer: W,
) -> Stream<'scope, u64, Vec<W::Receipt>> {
    let (scope, flush) = (items.scope(), flush.clone());
    items.unary_frontier::<CapacityContainerBuilder<Vec<W::Receipt>>, _, _, _>(
        Pipeline,
        name,
        move |capability, info| {
            let activator = || scope.worker().sync_activator_for(info.address.to_vec());
            let (mailbox, place) = (Mailbox::new(activator()), flush.register(activator()));
            let mut capability = Some(capability);
            let mut complete = 0u64;
            // Writes are numbered in the order they begin; `durable[i]` is write `oldest + i`.
            let (mut oldest, mut durable) = (0usize, VecDeque::<bool>::new());
            // (what the frontier was, writes begun until then), oldest first.
            let mut barriers: VecDeque<(u64, usize)> = VecDeque::new();
            move |(input, frontier), output| {
                input.for_each(|time, batch| {
                    let chunk = time.least().copied().unwrap_or_default();
                    writer.accept(chunk, batch);
                    batch.clear();
                });
                let now = frontier.frontier().first().copied().unwrap_or(u64::MAX);
                let advanced = now > complete;
                complete = now;
                mailbox.expect();
                writer.write(Due { complete, advanced, flush: asked }, &mut || {
                    durable.push_back(false);
                    mailbox.ticket(oldest + durable.len() - 1)
                });
                if advanced {
                    barriers.push_back((complete, oldest + durable.len()));
                }
                let mut receipts = Vec::new();
                for (number, receipt) in mailbox.answers() {
                    if let Some(receipt) = receipt {
                        durable[number - oldest] = true;
                        receipts.push(receipt);
                    }
                }
                while durable.front() == Some(&true) {
                    durable.pop_front();
    flush: &Flush,
                    oldest += 1;
                }
                while let Some(&(until, begun)) = barriers.front() {
                    if oldest < begun {
                        break;
                    }
                    barriers.pop_front();
                    if until == u64::MAX {
                        capability = None;
                        break;
                    }
                    held.downgrade(&until);
                }
            }
                // Looked at before the input is: whoever asked has seen the effects of all that is to be written.
                let asked = flush.is_asked();
        },
    )
}

#[cfg(test)]
mod tests;
                if asked {
                    flush.settle(place, durable.is_empty());
                }
                let Some(held) = capability.as_mut() else { return };
                if !receipts.is_empty() {
                    output.session(held).give_container(&mut receipts);
                }
                        // It may never be scheduled again.
                        flush.settle(place, true);
