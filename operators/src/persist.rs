//! Makes a stream durable, and holds its frontier back until then.
//!
//! The operator keeps one capability. When its input is complete up to some cohort, the [`DurableWriter`] writes the
//! items due for it. The operator releases the earlier cohorts only when every write begun so far is durable.
//! Downstream, a passed frontier therefore means "durable", for all items received before the cohort was complete, at
//! any timestamp.
//!
//! A write of few items costs nearly as much as one of many. So cohorts that are complete soon after others wait for
//! the writer's [`pause`](DurableWriter::pause), and are written together: a fast run makes larger writes, not more.
//!
//! A run ending early completes no more cohorts. Then a [`Flush`] asks for the writes, and releases at most the cohorts
//! that waited for a pause.

use crate::flush::Flush;
use crate::ticket::{Mailbox, Ticket};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::operator::Operator;
use timely::scheduling::SyncActivator;

/// Writes items of one worker, in the background.
pub trait DurableWriter: 'static {
    /// An item to write.
    type Item: 'static;
    /// News of a durable write.
    type Receipt: 'static;

    /// Takes items of a cohort.
    fn accept_items(&mut self, cohort: u64, items: &mut Vec<Self::Item>);

    /// Begins the due writes. Each takes a ticket from `begin` and answers it when the write is durable.
    ///
    /// A dropped ticket means that the write failed for good: the timestamp is never released, a flush never completes,
    /// and the writer must have reported the error by other means, to end the run.
    fn begin_writes(&mut self, due: DueWrites, begin: &mut dyn FnMut() -> Ticket<Self::Receipt>);

    /// The least time from one rise of [`DueWrites::complete`] to the next, but for the input's end and a flush.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// The time until [`DurableWriter::begin_writes`] is to be called even if nothing else happens; `None` if no item
    /// waits. Read after each call of it.
    fn due_after(&self) -> Option<Duration> {
        None
    }
}

/// The writes requested from a [`DurableWriter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueWrites {
    /// The input is complete for all cohorts below this one ([`u64::MAX`]: for all cohorts). Later cohorts may be
    /// complete, too, and wait for the end of a pause.
    pub complete: u64,
    /// True if `complete` has risen: the writes of the newly complete cohorts are due.
    pub advanced: bool,
    /// True if the run ends early: all writes of use to a later run are due, of any cohort.
    pub flush: bool,
}

/// One worker's writes: the durable ones, and the cohorts waiting for the others.
struct Persister<W: DurableWriter> {
    writer: W,
    mailbox: Mailbox<W::Receipt>,
    flush: Flush,
    /// This operator's number at `flush`.
    operator: usize,
    /// The writer knows that the input is complete for all cohorts below this one.
    complete: u64,
    /// The input is complete for all cohorts below this one.
    frontier: u64,
    /// The end of the pause since `complete` has risen.
    paused_until: Option<Instant>,
    /// Number of the first write not known to be durable. Writes are numbered as they begin.
    oldest: usize,
    /// For each i, whether write `oldest + i` is durable.
    durable: VecDeque<bool>,
    /// (complete up to, writes begun until then), oldest first.
    barriers: VecDeque<(u64, usize)>,
    /// The end of the running timer that ends first. A later item may be due earlier, and then has a timer of its own.
    timer: Option<Instant>,
}

/// Timers that end so close to each other count as one: an item's remaining time is measured anew at each activation.
const SAME_TIMER: Duration = Duration::from_millis(1);

impl<W: DurableWriter> Persister<W> {
    fn new(writer: W, flush: Flush, activator: impl Fn() -> SyncActivator) -> Self {
        let (mailbox, operator) = (Mailbox::new(activator()), flush.register_operator(activator()));
        let (durable, barriers) = (VecDeque::new(), VecDeque::new());
        Self {
            writer,
            mailbox,
            flush,
            operator,
            complete: 0,
            frontier: 0,
            paused_until: None,
            oldest: 0,
            durable,
            barriers,
            timer: None,
        }
    }

    /// The time until the pause ends; `None` if it has ended.
    fn pause_left(&self) -> Option<Duration> {
        let left = self.paused_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Begins the due writes, and notes the writes that must be durable before complete cohorts are released: those
    /// below `frontier`, or fewer during a pause.
    fn begin_writes(&mut self, frontier: u64, flush: bool) {
        self.frontier = frontier;
        let due = flush || frontier == u64::MAX || self.pause_left().is_none();
        let complete = if due { frontier } else { self.complete };
        let Self { writer, mailbox, oldest, durable, .. } = self;
        let advanced = complete > self.complete;
        if advanced {
            self.paused_until = Some(Instant::now() + writer.pause());
        }
        self.complete = complete;
        mailbox.will_read();
        writer.begin_writes(DueWrites { complete, advanced, flush }, &mut || {
            durable.push_back(false);
            mailbox.new_ticket(*oldest + durable.len() - 1)
        });
        if advanced {
            self.barriers.push_back((complete, *oldest + durable.len()));
        }
    }

    /// The time until the next call: for items that wait for theirs, or for cohorts that wait for the pause's end.
    /// `None` if a timer that ends by then runs, or none waits.
    fn next_timer(&mut self) -> Option<Duration> {
        let cohorts = (self.frontier > self.complete).then(|| self.pause_left().unwrap_or_default());
        let (now, wait) = (Instant::now(), cohorts.into_iter().chain(self.writer.due_after()).min()?);
        let end = now + wait;
        if self.timer.is_some_and(|running| running > now && running <= end + SAME_TIMER) {
            return None;
        }
        self.timer = Some(end);
        Some(wait)
    }

    /// The receipts of the newly durable writes.
    fn take_receipts(&mut self) -> Vec<W::Receipt> {
        let mut receipts = Vec::new();
        for (number, receipt) in self.mailbox.take_answers() {
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

    /// Releases the cohorts whose writes are all durable.
    fn release_cohorts(&mut self, capability: &mut Option<Capability<u64>>) {
        while let Some(&(until, begun)) = self.barriers.front()
            && self.oldest >= begun
        {
            self.barriers.pop_front();
            if until == u64::MAX {
                *capability = None;
                // The operator may never be scheduled again.
                return self.flush.set_settled(self.operator, true);
            }
            if let Some(held) = capability {
                held.downgrade(&until);
            }
        }
    }
}

/// Hands `items` to `writer`, and returns the receipts of its durable writes.
///
/// ```
/// use hopeval_operators::flush::Flush;
/// use hopeval_operators::persist::{DueWrites, DurableWriter, persist};
/// use hopeval_operators::ticket::Ticket;
/// use std::sync::mpsc::{Sender, channel};
/// use timely::dataflow::operators::{Input, Probe};
///
/// /// Hands the gathered items to a disk, whenever a cohort is complete.
/// struct Pages(Vec<char>, Sender<(Vec<char>, Ticket<usize>)>);
///
/// impl DurableWriter for Pages {
///     type Item = char;
///     type Receipt = usize;
///     fn accept_items(&mut self, _cohort: u64, items: &mut Vec<char>) {
///         self.0.append(items);
///     }
///     fn begin_writes(&mut self, due: DueWrites, begin: &mut dyn FnMut() -> Ticket<usize>) {
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
///     assert!(durable.less_than(&1), "the cohort is complete, and not durable");
///     ticket.answer(page.len());
///     (0..3).for_each(|_| drop(worker.step()));
///     assert!(!durable.less_than(&1));
/// });
/// ```
pub fn persist<'scope, W: DurableWriter>(
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
            let timer = scope.activator_for(info.address);
            let mut capability = Some(capability);
            move |(input, frontier), output| {
                // Read before the input: at the time of the request, all items to write had already been sent.
                let asked = persister.flush.is_asked();
                input.for_each(|time, batch| {
                    persister.writer.accept_items(time.least().copied().unwrap_or_default(), batch);
                    batch.clear();
                });
                persister.begin_writes(frontier.frontier().first().copied().unwrap_or(u64::MAX), asked);
                if let Some(wait) = persister.next_timer() {
                    timer.activate_after(wait);
                }
                let mut receipts = persister.take_receipts();
                if asked {
                    persister.flush.set_settled(persister.operator, persister.durable.is_empty());
                }
                let Some(held) = &capability else { return };
                if !receipts.is_empty() {
                    output.session(held).give_container(&mut receipts);
                }
                persister.release_cohorts(&mut capability);
            }
        },
    )
}

#[cfg(test)]
mod tests;
