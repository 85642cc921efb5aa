//! Hosts machines: steps them with the responses of their last round and sends their requests.
//!
//! All configurations of a question are opened together on one worker. A key is sent once per worker while it is in
//! flight, and once per question while any of its configurations is open: the response fans out locally. An opener can
//! ask for one machine at a time, to time each by itself ([`QuestionOpener::one_at_a_time`]). A machine is stepped only
//! with *all* responses of its round, in the order of its requests. So the order of arrival has no effect. Behind a
//! closed [`Gate`] no machine is stepped: it stays open with its cohort, and the next run replays it from the journal.
//!
//! ```text
//!   question --> open --> step --Ask--> known to the question? --> in flight here? --> send
//!                          ^  \                 |                        |
//!                          |   Done --> outcome |                        v
//!                          +------ all there ---+<------------------- response
//! ```

use crate::admit::Credits;
use crate::counters::OperatorCounters;
use crate::gate::Gate;
use crate::message::{Envelope, Reply, RequestKey};
use crate::ticket::Slab;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::{OutputBuilder, OutputBuilderSession};
use timely::dataflow::operators::{Capability, InputCapability};
use timely::order::Product;

/// The timestamp inside the loop.
pub type LoopTime = Product<u64, u32>;

/// One machine: one question under one configuration.
pub trait DrivenMachine {
    /// A request of the machine.
    type Request;
    /// A response to it.
    type Response;
    /// The end of the machine.
    type Outcome;

    /// Takes the responses of the last round, in the order of its requests (empty at the start).
    fn step(&mut self, responses: Vec<Rc<Self::Response>>) -> DrivenStep<Self::Request, Self::Outcome>;

    /// Learns which requests of the round just asked are sent, by their positions in ascending order: the others were
    /// known, or are in flight for another machine of this worker. Only for counts.
    fn count_sent(&mut self, _positions: &[usize]) {}
}

/// The result of a step.
pub enum DrivenStep<R, O> {
    /// The machine asks at least one request.
    Ask(Vec<AskedRequest<R>>),
    /// The machine has ended.
    Done(O),
    /// The machine is left as it is: it waits for something that does not come while this dataflow runs. The outcome's
    /// place is taken by a mark, so that its cohort is known to be without it.
    Left(O),
}

/// A request with its identity and route.
pub struct AskedRequest<R> {
    /// The request's identity.
    pub key: RequestKey,
    /// The request's route.
    pub bucket: u16,
    /// The request.
    pub request: R,
}

/// Opens the machines of a question, one per configuration.
pub trait QuestionOpener: 'static {
    /// An admitted question.
    type Question: 'static;
    /// A machine of a question.
    type Machine: DrivenMachine + 'static;

    /// The machines, in the order of the configurations.
    fn open_machines(&mut self, question: Self::Question) -> Vec<Self::Machine>;

    /// True if the machines of a question run one after another, in that order, each as if it were alone: responses to
    /// one machine are not reused for the next.
    fn one_at_a_time(&self) -> bool {
        false
    }
}

type RequestOf<P> = <<P as QuestionOpener>::Machine as DrivenMachine>::Request;
type ResponseOf<P> = <<P as QuestionOpener>::Machine as DrivenMachine>::Response;
type OutcomeOf<P> = <<P as QuestionOpener>::Machine as DrivenMachine>::Outcome;

/// A machine with its unfinished round.
struct RunningMachine<M: DrivenMachine> {
    machine: M,
    round: Vec<Option<Rc<M::Response>>>,
    missing: usize,
}

/// A question with its machines.
struct OpenQuestion<M: DrivenMachine> {
    cohort: u64,
    machines: Vec<Option<RunningMachine<M>>>,
    open: usize,
    known: FxHashMap<RequestKey, Rc<M::Response>>,
}

/// A place in a round waiting for a key: (question's slot, machine, position in its round).
type WaitingPlace = (usize, usize, usize);

/// Holds a cohort open on both outputs while any of its questions is open.
struct OpenCohort {
    requests: Capability<LoopTime>,
    outcomes: Capability<LoopTime>,
    open: usize,
}

/// One activation's items at one output.
type OutputSession<'a, D> = OutputBuilderSession<'a, LoopTime, CapacityContainerBuilder<Vec<D>>>;

/// The machines of one worker, and the keys they wait for.
struct MachineDriver<P: QuestionOpener> {
    opener: P,
    questions: Slab<OpenQuestion<P::Machine>>,
    waiting: FxHashMap<RequestKey, Vec<WaitingPlace>>,
    cohorts: BTreeMap<u64, OpenCohort>,
    /// First in, first out: earlier questions reach the services first, and their cohorts end first.
    ready: VecDeque<(usize, usize)>,
    sent: BTreeMap<u64, Vec<Envelope<RequestOf<P>>>>,
    done: BTreeMap<u64, Vec<OutcomeOf<P>>>,
    /// Questions finished in this activation.
    finished: usize,
    worker: u32,
    counters: Arc<OperatorCounters>,
    gate: Gate,
}

impl<P: QuestionOpener> MachineDriver<P> {
    fn new(opener: P, worker: usize, counters: &Arc<OperatorCounters>, gate: &Gate) -> Self {
        Self {
            opener,
            questions: Slab::new(),
            waiting: FxHashMap::default(),
            cohorts: BTreeMap::new(),
            ready: VecDeque::new(),
            sent: BTreeMap::new(),
            done: BTreeMap::new(),
            finished: 0,
            worker: u32::try_from(worker).unwrap_or(u32::MAX),
            counters: Arc::clone(counters),
            gate: gate.clone(),
        }
    }

    /// Opens the machines of questions of one cohort, and holds its timestamp at both outputs.
    fn take_questions(&mut self, capability: &InputCapability<LoopTime>, batch: &mut Vec<P::Question>) {
        let time = capability.stamp().iter().next().cloned().unwrap_or_default();
        let held = self.cohorts.entry(time.outer).or_insert_with(|| OpenCohort {
            requests: capability.delayed(&time, 0),
            outcomes: capability.delayed(&time, 1),
            open: 0,
        });
        held.open += batch.len();
        for question in batch.drain(..) {
            self.admit_question(time.outer, question);
        }
    }

    fn admit_question(&mut self, cohort: u64, question: P::Question) {
        let machines: Vec<_> = self
            .opener
            .open_machines(question)
            .into_iter()
            .map(|machine| Some(RunningMachine { machine, round: Vec::new(), missing: 0 }))
            .collect();
        let open = machines.len();
        if open == 0 {
            return self.finish_question(cohort);
        }
        let slot = self.questions.insert(OpenQuestion { cohort, machines, open, known: FxHashMap::default() });
        let begun = if self.opener.one_at_a_time() { 1 } else { open };
        self.ready.extend((0..begun).map(|machine| (slot, machine)));
    }

    fn finish_question(&mut self, cohort: u64) {
        OperatorCounters::add(&self.counters.finished, 1);
        self.finished += 1;
        if let Some(held) = self.cohorts.get_mut(&cohort) {
            held.open -= 1;
        }
    }

    fn deliver_response(&mut self, key: RequestKey, response: ResponseOf<P>) {
        let response = Rc::new(response);
        for (slot, machine, position) in self.waiting.remove(&key).unwrap_or_default() {
            let Some(question) = self.questions.get_mut(slot) else { continue };
            question.known.entry(key).or_insert_with(|| Rc::clone(&response));
            if let Some(running) = question.machines[machine].as_mut() {
                running.round[position] = Some(Rc::clone(&response));
                running.missing -= 1;
                if running.missing == 0 {
                    self.ready.push_back((slot, machine));
                }
            }
        }
    }

    /// Steps every machine with a complete round, until the gate is closed.
    fn step_ready(&mut self) {
        while !self.gate.is_closed()
            && let Some((slot, index)) = self.ready.pop_front()
        {
            let Some(question) = self.questions.get_mut(slot) else { continue };
            let Some(running) = question.machines[index].as_mut() else { continue };
            let round = std::mem::take(&mut running.round).into_iter().flatten().collect();
            let step = running.machine.step(round);
            if let DrivenStep::Done(_) = step {
                OperatorCounters::add(&self.counters.outcomes, 1);
            }
            match step {
                DrivenStep::Done(outcome) | DrivenStep::Left(outcome) => {
                    let cohort = question.cohort;
                    question.machines[index] = None;
                    question.open -= 1;
                    let last = question.open == 0;
                    if !last && self.opener.one_at_a_time() {
                        question.known.clear();
                        self.ready.push_back((slot, index + 1));
                    }
                    self.done.entry(cohort).or_default().push(outcome);
                    if last {
                        self.questions.remove(slot);
                        self.finish_question(cohort);
                    }
                }
                DrivenStep::Ask(asked) => self.ask_round(slot, index, asked),
            }
        }
    }

    fn ask_round(&mut self, slot: usize, index: usize, asked: Vec<AskedRequest<RequestOf<P>>>) {
        assert!(!asked.is_empty(), "a machine asked for nothing and is not done: this is a bug in its method");
        OperatorCounters::add(&self.counters.asked, asked.len());
        let Some(question) = self.questions.get_mut(slot) else { return };
        let OpenQuestion { cohort, machines, known, .. } = question;
        let Some(running) = machines[index].as_mut() else { return };
        running.round.resize_with(asked.len(), || None);
        running.missing = 0;
        let mut sent = Vec::new();
        for (position, AskedRequest { key, bucket, request }) in asked.into_iter().enumerate() {
            if let Some(response) = known.get(&key) {
                running.round[position] = Some(Rc::clone(response));
                continue;
            }
            running.missing += 1;
            let waiters = self.waiting.entry(key).or_default();
            waiters.push((slot, index, position));
            if waiters.len() == 1 {
                let envelope = Envelope { key, bucket, from: self.worker, request };
                self.sent.entry(*cohort).or_default().push(envelope);
                sent.push(position);
            }
        }
        OperatorCounters::add(&self.counters.sent, sent.len());
        running.machine.count_sent(&sent);
        if running.missing == 0 {
            self.ready.push_back((slot, index));
        }
    }

    /// Sends the requests and outcomes of this activation, each at the timestamp of its cohort.
    fn send_outputs(
        &mut self,
        mut requests: OutputSession<'_, Envelope<RequestOf<P>>>,
        mut outcomes: OutputSession<'_, OutcomeOf<P>>,
    ) where
        RequestOf<P>: 'static,
        OutcomeOf<P>: 'static,
    {
        for (cohort, mut batch) in std::mem::take(&mut self.sent) {
            requests.session(&self.cohorts[&cohort].requests).give_container(&mut batch);
        }
        for (cohort, mut batch) in std::mem::take(&mut self.done) {
            outcomes.session(&self.cohorts[&cohort].outcomes).give_container(&mut batch);
        }
    }

    /// Releases the cohorts without open questions, and gives back the credits of this activation.
    fn release_cohorts(&mut self, credits: &Credits) {
        let finished = std::mem::take(&mut self.finished);
        if finished > 0 {
            self.cohorts.retain(|_, cohort| cohort.open > 0);
            credits.give_back(finished);
        }
    }
}

/// Requests and outcomes of the machines opened by `opener` for `questions`.
///
/// Replies are exchanged to the asking worker. Requests and outcomes leave at the timestamp of their question's cohort.
///
/// ```
/// use hopeval_operators::admit::Credits;
/// use hopeval_operators::gate::Gate;
/// use hopeval_operators::drive::{AskedRequest, DrivenMachine, QuestionOpener, DrivenStep, drive};
/// use hopeval_operators::{OperatorCounters, RequestKey, Reply};
/// use std::{rc::Rc, sync::Arc, sync::atomic::Ordering, sync::mpsc::channel};
/// use timely::dataflow::operators::vec::Map;
/// use timely::dataflow::operators::{ConnectLoop, Enter, Inspect, Leave, LoopVariable, ToStream};
///
/// /// Asks for the successor of the last response, until it is 10.
/// struct Climber(u64);
///
/// impl DrivenMachine for Climber {
///     type Request = u64;
///     type Response = u64;
///     type Outcome = String;
///     fn step(&mut self, responses: Vec<Rc<u64>>) -> DrivenStep<u64, String> {
///         let at = responses.first().map_or(self.0, |response| **response);
///         if at == 10 {
///             return DrivenStep::Done(format!("from {} to 10", self.0));
///         }
///         DrivenStep::Ask(vec![AskedRequest { key: RequestKey([at as u8; 32]), bucket: 0, request: at }])
///     }
/// }
///
/// /// Two configurations for each question: one begins a step higher.
/// struct Climbers;
///
/// impl QuestionOpener for Climbers {
///     type Question = u64;
///     type Machine = Climber;
///     fn open_machines(&mut self, question: u64) -> Vec<Climber> {
///         vec![Climber(question), Climber(question + 1)]
///     }
/// }
///
/// let (ended, outcomes) = channel();
/// let counters = Arc::new(OperatorCounters::default());
/// let counted = Arc::clone(&counters);
/// timely::execute_directly(move |worker| {
///     let (credits, gate) = (Credits::new(4), Gate::default());
///     worker.dataflow::<u64, _, _>(|scope| {
///         let questions = [7u64].to_stream(scope).container::<Vec<_>>();
///         let outcomes = scope.iterative::<u32, _, _>(|inner| {
///             let (handle, replies) = inner.loop_variable::<Vec<_>>(1);
///             let (requests, outcomes) = drive(questions.enter(inner), replies, Climbers, &credits, &counted, &gate);
///             let answered =
///                 requests.map(|asked| Reply { key: asked.key, to: asked.from, response: asked.request + 1 });
///             answered.connect_loop(handle);
///             outcomes.leave(scope)
///         });
///         outcomes.inspect(move |outcome| ended.send(outcome.clone()).unwrap());
///     });
/// });
/// let mut outcomes: Vec<String> = outcomes.iter().collect();
/// outcomes.sort();
/// assert_eq!(outcomes, ["from 7 to 10", "from 8 to 10"]);
/// let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
/// assert_eq!((count(&counters.asked), count(&counters.sent)), (5, 3), "a key is sent once, and its answer shared");
/// ```
#[expect(clippy::type_complexity, reason = "two streams, each spelled out once")]
pub fn drive<'scope, P>(
    questions: Stream<'scope, LoopTime, Vec<P::Question>>,
    replies: Stream<'scope, LoopTime, Vec<Reply<ResponseOf<P>>>>,
    opener: P,
    credits: &Credits,
    counters: &Arc<OperatorCounters>,
    gate: &Gate,
) -> (Stream<'scope, LoopTime, Vec<Envelope<RequestOf<P>>>>, Stream<'scope, LoopTime, Vec<OutcomeOf<P>>>)
where
    P: QuestionOpener,
    RequestOf<P>: 'static,
    ResponseOf<P>: serde::Serialize + for<'a> serde::Deserialize<'a> + Send + Clone + 'static,
    OutcomeOf<P>: 'static,
{
    let scope = questions.scope();
    let mut builder = OperatorBuilder::new("drive".to_owned(), scope);
    let mut questions = builder.new_input(questions, Pipeline);
    let mut replies = builder.new_input(replies, Exchange::new(|reply: &Reply<ResponseOf<P>>| u64::from(reply.to)));
    let (requests, request_stream) = builder.new_output();
    let (outcomes, outcome_stream) = builder.new_output();
    let mut requests = OutputBuilder::<_, CapacityContainerBuilder<Vec<_>>>::from(requests);
    let mut outcomes = OutputBuilder::<_, CapacityContainerBuilder<Vec<_>>>::from(outcomes);
    let mut driver = MachineDriver::new(opener, scope.index(), counters, gate);
    let credits = credits.clone();
    builder.build(move |capabilities| {
        drop(capabilities);
        move |_frontiers| {
            questions.for_each(|capability, batch| driver.take_questions(&capability, batch));
            replies.for_each(|_, batch| {
                batch.drain(..).for_each(|reply| driver.deliver_response(reply.key, reply.response))
            });
            driver.step_ready();
            driver.send_outputs(requests.activate(), outcomes.activate());
            driver.release_cohorts(&credits);
        }
    });
    (request_stream, outcome_stream)
}

#[cfg(test)]
mod tests;
