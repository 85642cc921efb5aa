//! Hosts services: answers each key once for all its askers, and never blocks the worker.
//!
//! Requests are exchanged to the owner of their bucket. An open key collects further askers; new keys go to the
//! [`Backend`] in one batch per activation, each with a [`Ticket`]. The operator keeps a capability for each open key
//! and is woken when tickets are answered, or looks by itself. The record for the journal leaves in the same activation
//! as the reply, so a record always arrives before any effect of its reply.

use crate::counters::OperatorCounters;
use crate::gate::WorkGuard;
use crate::message::{Envelope, Reply, RequestKey};
use crate::own_looks::OwnLooks;
use crate::ticket::{Mailbox, PostedAnswer, Slab, Ticket};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::{OutputBuilder, OutputBuilderSession};
use timely::dataflow::operators::{Capability, InputCapability};
use timely::progress::Timestamp;
use timely::scheduling::SyncActivator;

pub use crate::own_looks::LOOK_PAUSE;

/// Answers requests on one worker.
pub trait Backend: 'static {
    /// A request.
    type Request: 'static;
    /// The response to a request.
    type Response: Clone + 'static;
    /// An entry for the journal.
    type Record: 'static;

    /// Takes requests, each with the ticket to answer, at once or later, from any thread. Does not block.
    fn submit(&mut self, batch: Vec<Submission<Self::Request, Self::Response, Self::Record>>);

    /// The response to a request with a dropped ticket.
    fn dropped(&self) -> Self::Response;

    /// The pause before the operator's own looks for answers that can wait ([`Ticket::answer_soon`]), as
    /// [`LOOK_PAUSE`]. Zero, the default: every answer wakes the worker at once.
    fn look_pause(&self) -> Duration {
        Duration::ZERO
    }
}

/// One request on its way to a service.
pub struct Submission<R, S, E> {
    /// The request's identity.
    pub key: RequestKey,
    /// The request's route.
    pub bucket: u16,
    /// The request.
    pub request: R,
    /// Must be answered exactly once.
    pub ticket: Ticket<BackendAnswer<S, E>>,
}

/// A response, and its record for the journal.
pub struct BackendAnswer<S, E> {
    /// The response.
    pub response: S,
    /// The record for the journal; `None` if the response came from the journal or is not worth recording.
    pub record: Option<E>,
}

/// A waiting asker: its worker, and capabilities for its timestamp at the two outputs.
struct WaitingAsker<T: Timestamp> {
    from: u32,
    reply: Capability<T>,
    record: Capability<T>,
}

struct InFlightKey<T: Timestamp> {
    key: RequestKey,
    askers: Vec<WaitingAsker<T>>,
}

/// One activation's output, grouped by timestamp, to put more than one record into a container.
struct TimedBatches<T: Timestamp, D> {
    groups: Vec<(Capability<T>, Vec<D>)>,
}

impl<T: Timestamp, D: 'static> TimedBatches<T, D> {
    fn push(&mut self, capability: &Capability<T>, item: D) {
        match self.groups.iter_mut().rev().find(|(held, _)| held.time() == capability.time()) {
            Some((_, items)) => items.push(item),
            None => self.groups.push((capability.clone(), vec![item])),
        }
    }

    fn send_all(self, mut output: OutputBuilderSession<'_, T, CapacityContainerBuilder<Vec<D>>>) {
        for (capability, mut items) in self.groups {
            output.session(&capability).give_container(&mut items);
        }
    }
}

fn waiting_asker<T: Timestamp>(capability: &InputCapability<T>, from: u32) -> WaitingAsker<T> {
    let time = capability.stamp().iter().next().cloned().unwrap_or_else(T::minimum);
    WaitingAsker { from, reply: capability.delayed(&time, 0), record: capability.delayed(&time, 1) }
}

type TimedReplies<T, B> = TimedBatches<T, Reply<<B as Backend>::Response>>;
type TimedRecords<T, B> = TimedBatches<T, <B as Backend>::Record>;

/// The answers of one activation.
struct AnswerBatches<T: Timestamp, B: Backend> {
    replies: TimedReplies<T, B>,
    records: TimedRecords<T, B>,
    /// Under way until both are sent.
    work: Vec<WorkGuard>,
}

/// The open keys of one worker, with all waiting askers.
struct RequestServer<T: Timestamp, B: Backend> {
    backend: B,
    mailbox: Mailbox<BackendAnswer<B::Response, B::Record>>,
    looks: OwnLooks,
    slots: Slab<InFlightKey<T>>,
    in_flight: FxHashMap<RequestKey, usize>,
    /// The new keys of this activation.
    batch: Vec<Submission<B::Request, B::Response, B::Record>>,
    counters: Arc<OperatorCounters>,
}

impl<T: Timestamp, B: Backend> RequestServer<T, B> {
    fn new(backend: B, activator: SyncActivator, looks: OwnLooks, counters: &Arc<OperatorCounters>) -> Self {
        Self {
            backend,
            mailbox: Mailbox::new(activator),
            looks,
            slots: Slab::new(),
            in_flight: FxHashMap::default(),
            batch: Vec::new(),
            counters: Arc::clone(counters),
        }
    }

    /// Notes the askers of each key, and gathers the new keys.
    fn take_envelopes(&mut self, capability: &InputCapability<T>, envelopes: &mut Vec<Envelope<B::Request>>) {
        for Envelope { key, bucket, from, request } in envelopes.drain(..) {
            let asker = waiting_asker(capability, from);
            if let Some(open) = self.in_flight.get(&key).and_then(|&slot| self.slots.get_mut(slot)) {
                open.askers.push(asker);
                continue;
            }
            let slot = self.slots.insert(InFlightKey { key, askers: vec![asker] });
            self.in_flight.insert(key, slot);
            self.batch.push(Submission { key, bucket, request, ticket: self.mailbox.new_ticket(slot) });
        }
    }

    /// Hands the new keys to the backend.
    fn submit_batch(&mut self) {
        if !self.batch.is_empty() {
            self.backend.submit(std::mem::take(&mut self.batch));
        }
    }

    /// The replies to all waiting askers, for the answers so far, and the records at the first asker's timestamp.
    fn take_answers(&mut self) -> AnswerBatches<T, B> {
        let (mut replies, mut records) = (TimedBatches { groups: Vec::new() }, TimedBatches { groups: Vec::new() });
        let mut begun = Vec::new();
        for PostedAnswer { slot, answer, work, .. } in self.mailbox.take_posted(&mut self.looks) {
            begun.extend(work);
            let Some(InFlightKey { key, askers }) = self.slots.remove(slot) else { continue };
            self.in_flight.remove(&key);
            let dropped = || BackendAnswer { response: self.backend.dropped(), record: None };
            let BackendAnswer { response, record } = answer.unwrap_or_else(dropped);
            if let (Some(record), Some(first)) = (record, askers.first()) {
                records.push(&first.record, record);
            }
            OperatorCounters::add(&self.counters.served, askers.len());
            for WaitingAsker { from, reply, .. } in askers {
                replies.push(&reply, Reply { key, to: from, response: response.clone() });
            }
        }
        AnswerBatches { replies, records, work: begun }
    }
}

/// The replies to `requests`, and the records of computed responses.
///
/// ```
/// use hopeval_operators::serve::{BackendAnswer, Backend, Submission, serve};
/// use hopeval_operators::{Envelope, RequestKey};
/// use std::sync::{Arc, mpsc::channel};
/// use timely::dataflow::operators::{Inspect, ToStream};
///
/// /// Answers with the square, here and now, and journals it.
/// struct Squares;
///
/// impl Backend for Squares {
///     type Request = u64;
///     type Response = u64;
///     type Record = String;
///     fn submit(&mut self, batch: Vec<Submission<u64, u64, String>>) {
///         for Submission { request, ticket, .. } in batch {
///             let response = request * request;
///             ticket.answer(BackendAnswer { response, record: Some(format!("{request}^2 = {response}")) });
///         }
///     }
///     fn dropped(&self) -> u64 {
///         0
///     }
/// }
///
/// let ask = |from: u32, request: u64| Envelope { key: RequestKey([request as u8; 32]), bucket: 0, from, request };
/// let ((reply, replied), (record, recorded)) = (channel(), channel());
/// timely::execute_directly(move |worker| {
///     worker.dataflow::<u64, _, _>(|scope| {
///         let requests = [ask(0, 7), ask(1, 7), ask(1, 9)].to_stream(scope).container::<Vec<_>>();
///         let (replies, records) = serve(requests, Squares, &Arc::default());
///         replies.inspect(move |to| reply.send((to.to, to.response)).unwrap());
///         records.inspect(move |made| record.send(made.clone()).unwrap());
///     });
/// });
/// assert!(replied.iter().eq([(0, 49), (1, 49), (1, 81)]), "everyone who asks is answered");
/// assert!(recorded.iter().eq(["7^2 = 49", "9^2 = 81"]), "and each key is computed once");
/// ```
#[expect(clippy::type_complexity, reason = "two streams, each spelled out once")]
pub fn serve<'scope, T, B>(
    requests: Stream<'scope, T, Vec<Envelope<B::Request>>>,
    backend: B,
    counters: &Arc<OperatorCounters>,
) -> (Stream<'scope, T, Vec<Reply<B::Response>>>, Stream<'scope, T, Vec<B::Record>>)
where
    T: Timestamp,
    B: Backend,
    B::Request: serde::Serialize + for<'a> serde::Deserialize<'a> + Send + Clone,
{
    let scope = requests.scope();
    let mut builder = OperatorBuilder::new("serve".to_owned(), scope);
    // Worker b mod W owns bucket b; timely takes the number modulo the workers.
    let route = Exchange::new(|envelope: &Envelope<B::Request>| u64::from(envelope.bucket));
    let mut input = builder.new_input(requests, route);
    let (replies, reply_stream) = builder.new_output();
    let (records, record_stream) = builder.new_output();
    let mut replies = OutputBuilder::<_, CapacityContainerBuilder<Vec<_>>>::from(replies);
    let mut records = OutputBuilder::<_, CapacityContainerBuilder<Vec<_>>>::from(records);
    let address = builder.operator_info().address;
    let looks = OwnLooks::new(scope.activator_for(address.clone()), backend.look_pause());
    let mut server = RequestServer::new(backend, scope.worker().sync_activator_for(address.to_vec()), looks, counters);
    builder.build(move |capabilities| {
        drop(capabilities);
        move |_frontiers| {
            server.mailbox.will_read();
            input.for_each(|capability, envelopes| server.take_envelopes(&capability, envelopes));
            server.submit_batch();
            let answered = server.take_answers();
            answered.replies.send_all(replies.activate());
            answered.records.send_all(records.activate());
            // A flush after the last of these drops finds every record at the journal's operator.
            drop(answered.work);
        }
    });
    (reply_stream, record_stream)
}

#[cfg(test)]
mod tests;
