//! Asks every worker for its part of an answer, and puts the parts together on the worker that asked.
//!
//! A service with its data spread over the workers cannot answer alone. From any thread, it hands its queries to the
//! [`QuerySender`] of its worker. Each query goes to all workers. The [`QueryShard`] of each worker answers from its
//! own part, in the background, a batch of queries at a time. The findings come back in the order of the workers.
//!
//! ```text
//!   QuerySender --query--> ask --exchange, to all--> shard --exchange, to the asker--> gather --> end(findings)
//!   any thread              |                 QueryShard::submit, tickets                 |
//!                           +-------------- the waiting queries of one worker ------------+
//! ```
//!
//! This module is independent of requests. A service that asks a query for a [`serve`](crate::serve) ticket moves the
//! ticket into the query's end. Meanwhile `serve` holds the request open, as for any slow answer.
//!
//! # Time
//! Nothing depends on the completeness of queries, so all travel at the first timestamp. Every worker holds it until
//! the frontier of a stream given by the caller is empty. That stream must not end while a query may still come.

use crate::notifier::Notifier;
use crate::ticket::{Mailbox, Slab, Ticket};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use timely::ExchangeData;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::operator::Operator;

/// Answers queries from the part of one worker.
pub trait QueryShard: 'static {
    /// A query.
    type Query: ExchangeData + Clone;
    /// The findings of one part.
    type Found: ExchangeData;

    /// Takes queries, each with the ticket to answer, at once or later, from any thread. Does not block.
    fn submit(&mut self, batch: Vec<(Self::Query, Ticket<Self::Found>)>);

    /// The findings for a query with a dropped ticket.
    fn dropped(&self) -> Self::Found;
}

/// The continuation of a query: called once on the asking worker, with the findings of each worker, worker 0 first.
/// Dropped instead if the dataflow has ended.
pub type QueryEnd<F> = Box<dyn FnOnce(Vec<F>) + Send>;

/// Takes the queries of one worker, from any thread. Clones share it.
pub struct QuerySender<Q, F> {
    sender: Sender<(Q, QueryEnd<F>)>,
    notifier: Arc<Notifier>,
}

/// The other end of a [`QuerySender`], for [`scatter`].
pub struct QueryReceiver<Q, F> {
    receiver: Receiver<(Q, QueryEnd<F>)>,
    notifier: Arc<Notifier>,
}

/// The two ends of a channel of queries. The sender can be used before the dataflow is built.
pub fn query_channel<Q, F>() -> (QuerySender<Q, F>, QueryReceiver<Q, F>) {
    let ((sender, receiver), notifier) = (channel(), Arc::<Notifier>::default());
    (QuerySender { sender, notifier: Arc::clone(&notifier) }, QueryReceiver { receiver, notifier })
}

impl<Q, F> QuerySender<Q, F> {
    /// Asks all workers, without waiting. Each worker answers the queries of one call in one batch.
    pub fn ask_all(&self, batch: impl IntoIterator<Item = (Q, QueryEnd<F>)>) {
        // A send fails only if the operator is gone. The dropped end then informs its waiting party.
        batch.into_iter().for_each(|asked| drop(self.sender.send(asked)));
        self.notifier.notify();
    }
}

impl<Q, F> Clone for QuerySender<Q, F> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), notifier: Arc::clone(&self.notifier) }
    }
}

/// A query on its way to a worker.
#[derive(Clone, Serialize, Deserialize)]
struct SentQuery<Q> {
    to: usize,
    from: usize,
    /// The query's slot on the asking worker.
    slot: usize,
    query: Q,
}

/// The findings of one worker, on their way back.
#[derive(Clone, Serialize, Deserialize)]
struct ShardFindings<F> {
    to: usize,
    from: usize,
    slot: usize,
    found: F,
}

/// A query waiting for parts.
struct WaitingQuery<F> {
    end: QueryEnd<F>,
    found: Vec<Option<F>>,
    missing: usize,
}

/// The waiting queries of one worker.
type WaitingQueries<F> = Rc<RefCell<Slab<WaitingQuery<F>>>>;

/// Answers `queries` by the shards of all workers until `held` ends. The items of `held` are ignored.
///
/// ```
/// use hopeval_operators::scatter::{QueryEnd, QueryShard, query_channel, scatter};
/// use hopeval_operators::ticket::Ticket;
/// use std::sync::mpsc::channel;
/// use timely::dataflow::operators::Input;
///
/// /// Every n-th number below 100. Finds the multiples of a divisor among them.
/// struct Numbers(std::iter::StepBy<std::ops::Range<u32>>);
///
/// impl QueryShard for Numbers {
///     type Query = u32;
///     type Found = Vec<u32>;
///     fn submit(&mut self, batch: Vec<(u32, Ticket<Vec<u32>>)>) {
///         for (divisor, ticket) in batch {
///             ticket.answer(self.0.clone().filter(|number| number % divisor == 0).collect());
///         }
///     }
///     fn dropped(&self) -> Vec<u32> {
///         Vec::new()
///     }
/// }
///
/// let guards = timely::execute(timely::Config::process(3), |worker| {
///     let (index, workers) = (worker.index(), worker.peers());
///     let (query_sender, queries) = query_channel();
///     let held = worker.dataflow::<u64, _, _>(|scope| {
///         let (input, held) = scope.new_input::<Vec<()>>();
///         scatter(held, queries, Numbers((index as u32..100).step_by(workers)));
///         input
///     });
///     let (end, ended) = channel();
///     query_sender.ask_all([(40, Box::new(move |found| drop(end.send(found))) as QueryEnd<Vec<u32>>)]);
///     let found = loop {
///         worker.step();
///         if let Ok(found) = ended.try_recv() {
///             break found;
///         }
///     };
///     held.close();
///     found
/// });
/// for found in guards.unwrap().join() {
///     assert_eq!(found.unwrap(), [vec![0u32], vec![40], vec![80]], "each worker asked all three");
/// }
/// ```
pub fn scatter<D: 'static, S: QueryShard>(
    held: Stream<'_, u64, Vec<D>>,
    queries: QueryReceiver<S::Query, S::Found>,
    shard: S,
) {
    let waiting = Rc::new(RefCell::new(Slab::new()));
    let sent = send_queries(held, queries, Rc::clone(&waiting));
    gather_findings(answer_queries(sent, shard), waiting);
}

/// Sends each query to every worker.
fn send_queries<'scope, D: 'static, Q: ExchangeData + Clone, F: 'static>(
    held: Stream<'scope, u64, Vec<D>>,
    queries: QueryReceiver<Q, F>,
    waiting: WaitingQueries<F>,
) -> Stream<'scope, u64, Vec<SentQuery<Q>>> {
    let scope = held.scope();
    let (from, workers) = (scope.index(), scope.peers());
    held.unary_frontier::<CapacityContainerBuilder<Vec<SentQuery<Q>>>, _, _, _>(
        Pipeline,
        "ask",
        move |capability, info| {
            queries.notifier.attach(scope.worker().sync_activator_for(info.address.to_vec()));
            let mut capability = Some(capability);
            move |(input, frontier), output| {
                input.for_each(|_, batch| batch.clear());
                queries.notifier.rearm();
                let asked = queries.receiver.try_iter();
                let Some(first) = &capability else {
                    // No worker can be asked any more: the ends are dropped.
                    return asked.for_each(drop);
                };
                let (mut waiting, mut sent) = (waiting.borrow_mut(), Vec::new());
                for (query, end) in asked {
                    let found = (0..workers).map(|_| None).collect();
                    let slot = waiting.insert(WaitingQuery { end, found, missing: workers });
                    sent.extend((0..workers).map(|to| SentQuery { to, from, slot, query: query.clone() }));
                }
                if !sent.is_empty() {
                    output.session(first).give_container(&mut sent);
                }
                if frontier.is_empty() {
                    capability = None;
                }
            }
        },
    )
}

/// The findings of one worker's shard for the queries of all workers.
fn answer_queries<'scope, S: QueryShard>(
    queries: Stream<'scope, u64, Vec<SentQuery<S::Query>>>,
    mut shard: S,
) -> Stream<'scope, u64, Vec<ShardFindings<S::Found>>> {
    let scope = queries.scope();
    let here = scope.index();
    let route = Exchange::new(|sent: &SentQuery<S::Query>| sent.to as u64);
    queries.unary::<CapacityContainerBuilder<Vec<ShardFindings<S::Found>>>, _, _, _>(route, "shard", move |_, info| {
        let mailbox = Mailbox::new(scope.worker().sync_activator_for(info.address.to_vec()));
        // The asking worker of each query, and the query's slot there.
        let mut slots: Slab<(usize, usize)> = Slab::new();
        // All queries have one timestamp, so one capability holds it for all open queries.
        let (mut open, mut held) = (0, None::<Capability<u64>>);
        move |input, output| {
            mailbox.will_read();
            let mut batch = Vec::new();
            input.for_each(|time, queries| {
                held = held.take().or_else(|| time.retain_least(0));
                for SentQuery { from, slot, query, .. } in queries.drain(..) {
                    batch.push((query, mailbox.new_ticket(slots.insert((from, slot)))));
                }
            });
            if !batch.is_empty() {
                open += batch.len();
                shard.submit(batch);
            }
            let mut parts = Vec::new();
            for (slot, found) in mailbox.take_answers() {
                let Some((to, slot)) = slots.remove(slot) else { continue };
                parts.push(ShardFindings { to, from: here, slot, found: found.unwrap_or_else(|| shard.dropped()) });
            }
            open -= parts.len();
            if let Some(held) = &held
                && !parts.is_empty()
            {
                output.session(held).give_container(&mut parts);
            }
            if open == 0 {
                held = None;
            }
        }
    })
}

/// Ends each query with all its parts.
fn gather_findings<F: ExchangeData>(parts: Stream<'_, u64, Vec<ShardFindings<F>>>, waiting: WaitingQueries<F>) {
    parts.sink(Exchange::new(|part: &ShardFindings<F>| part.to as u64), "gather", move |(input, _)| {
        let mut ready = Vec::new();
        input.for_each(|_, parts| {
            let mut waiting = waiting.borrow_mut();
            for ShardFindings { from, slot, found, .. } in parts.drain(..) {
                let Some(query) = waiting.get_mut(slot) else { continue };
                query.missing -= usize::from(query.found[from].replace(found).is_none());
                if query.missing == 0 {
                    ready.extend(waiting.remove(slot));
                }
            }
        });
        for WaitingQuery { end, found, .. } in ready {
            end(found.into_iter().flatten().collect());
        }
    });
}

#[cfg(test)]
mod tests;
