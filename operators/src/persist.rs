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
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::operator::Operator;
use timely::scheduling::SyncActivator;

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

/// One worker's writes: which are durable, and which time waits for them.
struct Persister<W: Writer> {
    writer: W,
    mailbox: Mailbox<W::Receipt>,
    flush: Flush,
    /// This operator's number at `flush`.
    place: usize,
    /// The input is complete for all chunks below.
    complete: u64,
    /// The first write that is not known to be durable, or not all writes before it. Writes are numbered as they begin.
    oldest: usize,
    /// Whether write `oldest + i` is durable.
    durable: VecDeque<bool>,
    /// (complete up to, writes begun until then), oldest first.
    barriers: VecDeque<(u64, usize)>,
}

impl<W: Writer> Persister<W> {
    fn new(writer: W, flush: Flush, activator: impl Fn() -> SyncActivator) -> Self {
        let (mailbox, place) = (Mailbox::new(activator()), flush.register(activator()));
        let (durable, barriers) = (VecDeque::new(), VecDeque::new());
        Self { writer, mailbox, flush, place, complete: 0, oldest: 0, durable, barriers }
    }

    /// Begins the writes that are due, and notes what must be durable before chunks below `complete` are let go.
    fn write(&mut self, complete: u64, flush: bool) {
        let Self { writer, mailbox, oldest, durable, .. } = self;
        let advanced = complete > self.complete;
        self.complete = complete;
        mailbox.will_read();
        writer.write(Due { complete, advanced, flush }, &mut || {
            durable.push_back(false);
            mailbox.ticket(*oldest + durable.len() - 1)
        });
        if advanced {
            self.barriers.push_back((complete, *oldest + durable.len()));
        }
    }

    /// The receipts of the writes that have become durable.
    fn receipts(&mut self) -> Vec<W::Receipt> {
        let mut receipts = Vec::new();
        for (number, receipt) in self.mailbox.answers() {
            if let Some(receipt) = receipt {
                self.durable[number - self.oldest] = true;
                receipts.push(receipt);
            }
        }
        while self.durable.front() == Some(&true) {
            self.durable.pop_front();
            self.oldest += 1;
        }
        receipts
    }

    /// Lets go of the chunks that need no write any more.
    fn let_go(&mut self, capability: &mut Option<Capability<u64>>) {
        while let Some(&(until, begun)) = self.barriers.front()
            && self.oldest >= begun
        {
            self.barriers.pop_front();
            if until == u64::MAX {
                *capability = None;
                // It may never be scheduled again.
                return self.flush.settle(self.place, true);
            }
            if let Some(held) = capability {
                held.downgrade(&until);
            }
        }
    }
}

/// The receipts of what `writer` made durable of `items`.
///
/// ```
/// use hopeval_operators::flush::Flush;
/// use hopeval_operators::persist::{Due, Writer, persist};
/// use hopeval_operators::ticket::Ticket;
/// use std::sync::mpsc::{Sender, channel};
/// use timely::dataflow::operators::{Input, Probe};
///
/// /// Hands what has gathered to a disk, whenever a chunk is complete.
/// struct Pages(Vec<char>, Sender<(Vec<char>, Ticket<usize>)>);
///
/// impl Writer for Pages {
///     type Item = char;
///     type Receipt = usize;
///     fn accept(&mut self, _chunk: u64, items: &mut Vec<char>) {
///         self.0.append(items);
///     }
///     fn write(&mut self, due: Due, begin: &mut dyn FnMut() -> Ticket<usize>) {
///         if (due.advanced || due.flush) && !self.0.is_empty() {
///             self.1.send((std::mem::take(&mut self.0), begin())).unwrap();
///         }
///     }
/// }
///
/// timely::execute_directly(|worker| {
///     let (writes, disk) = channel();
///     let (mut input, durable) = worker.dataflow(|scope| {
///         let (input, items) = scope.new_input::<Vec<char>>();
///         let receipts = persist(items, "pages", Pages(Vec::new(), writes), &Flush::default());
///         (input, receipts.probe().0)
///     });
///     input.send('a');
///     input.send('b');
///     input.advance_to(1);
///     (0..3).for_each(|_| drop(worker.step()));
///     let (page, ticket) = disk.recv().unwrap();
///     assert_eq!(page, ['a', 'b']);
///     assert!(durable.less_than(&1), "the chunk is complete, and not durable");
///     ticket.answer(page.len());
///     (0..3).for_each(|_| drop(worker.step()));
///     assert!(!durable.less_than(&1));
/// });
/// ```
pub fn persist<'scope, W: Writer>(
    items: Stream<'scope, u64, Vec<W::Item>>,
    name: &str,
    writer: W,
    flush: &Flush,
) -> Stream<'scope, u64, Vec<W::Receipt>> {
    let (scope, flush) = (items.scope(), flush.clone());
    items.unary_frontier::<CapacityContainerBuilder<Vec<W::Receipt>>, _, _, _>(
        Pipeline,
        name,
        move |capability, info| {
            let activator = || scope.worker().sync_activator_for(info.address.to_vec());
            let mut persister = Persister::new(writer, flush, activator);
            let mut capability = Some(capability);
            move |(input, frontier), output| {
                // Looked at before the input is: whoever asked has seen the effects of all that is to be written.
                let asked = persister.flush.is_asked();
                input.for_each(|time, batch| {
                    persister.writer.accept(time.least().copied().unwrap_or_default(), batch);
                    batch.clear();
                });
                persister.write(frontier.frontier().first().copied().unwrap_or(u64::MAX), asked);
                let mut receipts = persister.receipts();
                if asked {
                    persister.flush.settle(persister.place, persister.durable.is_empty());
                }
                let Some(held) = &capability else { return };
                if !receipts.is_empty() {
                    output.session(held).give_container(&mut receipts);
                }
                persister.let_go(&mut capability);
            }
        },
    )
}

#[cfg(test)]
mod tests;
