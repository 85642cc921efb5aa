//! The whole graph, wired as `jobs` renders it, with small machines and a service on a thread. One worker, several
//! workers with shared memory and several workers with serialised messages end in the same outcomes, records and
//! tallies.
//!
//! The committer checks the promise of a commit: when cohorts are complete, all of their outcomes have arrived, and
//! every record used for any of them.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use hopeval_operators::admit::{Credits, Feed, FeedPoll, admit};
use hopeval_operators::commit::{Committer, commit};
use hopeval_operators::correct::correct;
use hopeval_operators::drive::{AskedRequest, DrivenMachine, DrivenStep, QuestionOpener, drive};
use hopeval_operators::flush::Flush;
use hopeval_operators::gate::Gate;
use hopeval_operators::persist::{DueWrites, DurableWriter, persist};
use hopeval_operators::scatter::{QueryEnd, QuerySender, QueryShard, query_channel, scatter};
use hopeval_operators::serve::{Backend, BackendAnswer, Submission, serve};
use hopeval_operators::tally::{KeyedChange, TallyChange, TallyTable, tally};
use hopeval_operators::ticket::Ticket;
use hopeval_operators::{OperatorCounters, RequestKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use timely::CommunicationConfig;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::operators::{Concat, ConnectLoop, Enter, Leave, LoopVariable, ToStream};
use timely::scheduling::SyncActivator;
use timely::worker::Worker;

const QUESTIONS: u64 = 150;
const COHORT: u64 = 8;
const CONFIGURATIONS: u32 = 4;

/// A request, equal for many questions and configurations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ask {
    round: u32,
    about: u64,
}

/// A response of any length, so that serde determines the layout of the bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Said {
    text: String,
    value: u64,
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31)
}

fn answer(ask: &Ask) -> Said {
    let value = mix(ask.about, u64::from(ask.round));
    Said { text: "word ".repeat((value % 9) as usize), value }
}

fn key(ask: &Ask) -> RequestKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&mix(ask.about, 7).to_le_bytes());
    bytes[8..16].copy_from_slice(&ask.about.to_le_bytes());
    bytes[16..20].copy_from_slice(&ask.round.to_le_bytes());
    RequestKey(bytes)
}

/// The end of a question: a digest of all answers, in the order of the requests.
#[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord, Serialize, Deserialize)]
struct Ended {
    question: u64,
    configuration: u32,
    heard: u64,
    keys: BTreeSet<RequestKey>,
}

/// Asks in one to four rounds. The next requests depend on the responses and their order.
struct Machine {
    round: u32,
    ended: Ended,
}

impl Machine {
    fn new(question: u64, configuration: u32) -> Self {
        Self { round: 0, ended: Ended { question, configuration, heard: 0, keys: BTreeSet::new() } }
    }

    fn next(&mut self) -> Option<Vec<Ask>> {
        let Ended { question, configuration, heard, .. } = self.ended;
        if self.round > (question as u32 + configuration) % 4 {
            return None;
        }
        self.round += 1;
        let ask = |i| Ask { round: self.round, about: (question / 5 + i * 3 + heard % 2) % 40 };
        let asks: Vec<Ask> = (0..1 + u64::from(configuration) % 3).map(ask).collect();
        self.ended.keys.extend(asks.iter().map(key));
        Some(asks)
    }

    fn hear(&mut self, said: &Said) {
        self.ended.heard = mix(self.ended.heard, said.value ^ said.text.len() as u64);
    }

    /// The outcome without a dataflow.
    fn alone(mut self) -> Ended {
        while let Some(asks) = self.next() {
            asks.iter().for_each(|ask| self.hear(&answer(ask)));
        }
        self.ended
    }
}

impl DrivenMachine for Machine {
    type Request = Ask;
    type Response = Said;
    type Outcome = Rc<Ended>;

    fn step(&mut self, responses: Vec<Rc<Said>>) -> DrivenStep<Ask, Rc<Ended>> {
        responses.iter().for_each(|said| self.hear(said));
        match self.next() {
            None => DrivenStep::Done(Rc::new(self.ended.clone())),
            Some(asks) => DrivenStep::Ask(
                asks.into_iter()
                    .map(|ask| AskedRequest { key: key(&ask), bucket: key(&ask).bucket(), request: ask })
                    .collect(),
            ),
        }
    }
}

struct AllConfigurations;

impl QuestionOpener for AllConfigurations {
    type Question = u64;
    type Machine = Machine;

    fn open_machines(&mut self, question: u64) -> Vec<Machine> {
        (0..CONFIGURATIONS).map(|configuration| Machine::new(question, configuration)).collect()
    }
}

/// Every n-th question.
struct Share(std::iter::StepBy<std::ops::Range<u64>>);

impl Feed for Share {
    type Question = u64;

    fn poll(&mut self) -> FeedPoll<u64> {
        self.0.next().map_or(FeedPoll::Finished, |question| FeedPoll::Ready { cohort: question / COHORT, question })
    }

    fn wake_with(&mut self, _: SyncActivator) {}
}

type Task = Submission<Ask, Said, (RequestKey, Said)>;

/// A service on its own thread. It answers the last request first; some answers need the data of all workers.
struct ThreadBackend(Sender<Vec<Task>>);

impl ThreadBackend {
    fn open(query_sender: QuerySender<u64, u64>) -> Self {
        let (sender, receiver) = channel::<Vec<Task>>();
        std::thread::spawn(move || {
            let reply = |Submission { key, ticket, .. }: Task, response: Said| {
                (ticket, BackendAnswer { record: Some((key, response.clone())), response })
            };
            for batch in receiver {
                let (scattered, own): (Vec<Task>, Vec<Task>) =
                    batch.into_iter().partition(|task| task.request.about % 3 == 0);
                query_sender.ask_all(scattered.into_iter().map(|task| {
                    let whole = answer(&task.request);
                    let query = whole.value;
                    let end: QueryEnd<u64> = Box::new(move |parts| {
                        let value = parts.into_iter().fold(0, |all, part| all | part);
                        let (ticket, answered) = reply(task, Said { value, ..whole });
                        ticket.answer(answered);
                    });
                    (query, end)
                }));
                Ticket::answer_all(own.into_iter().rev().map(|task| {
                    let response = answer(&task.request);
                    reply(task, response)
                }));
            }
        });
        Self(sender)
    }
}

/// Knows some bits of every number, and answers with them on its own thread.
struct Bits(Sender<Vec<(u64, Ticket<u64>)>>);

impl Bits {
    fn open(worker: usize, workers: usize) -> Self {
        let mask = (worker..64).step_by(workers).fold(0u64, |mask, bit| mask | 1 << bit);
        let (sender, receiver) = channel::<Vec<(u64, Ticket<u64>)>>();
        std::thread::spawn(move || {
            let known = |(query, ticket): (u64, Ticket<u64>)| (ticket, query & mask);
            receiver.into_iter().for_each(|batch| Ticket::answer_all(batch.into_iter().map(known)));
        });
        Self(sender)
    }
}

impl QueryShard for Bits {
    type Query = u64;
    type Found = u64;

    fn submit(&mut self, batch: Vec<(u64, Ticket<u64>)>) {
        drop(self.0.send(batch));
    }

    fn dropped(&self) -> u64 {
        0
    }
}

impl Backend for ThreadBackend {
    type Request = Ask;
    type Response = Said;
    type Record = (RequestKey, Said);

    fn submit(&mut self, batch: Vec<Task>) {
        drop(self.0.send(batch));
    }

    fn dropped(&self) -> Said {
        Said { text: "dropped".into(), value: 0 }
    }
}

/// A durable write with its items.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Receipt {
    Outcomes(Vec<(u64, Ended)>),
    Records(Vec<(RequestKey, Said)>),
}

/// Writes complete cohorts, or everything, whenever time advances. Writes become durable later, on another thread.
struct Pages<T> {
    held: BTreeMap<u64, Vec<T>>,
    by_cohort: bool,
    receipt: fn(Vec<(u64, T)>) -> Receipt,
    disk: Sender<(Receipt, Ticket<Receipt>)>,
}

impl<T> Pages<T> {
    fn new(by_cohort: bool, receipt: fn(Vec<(u64, T)>) -> Receipt) -> Self {
        let (disk, writes) = channel::<(Receipt, Ticket<Receipt>)>();
        std::thread::spawn(move || writes.into_iter().for_each(|(receipt, ticket)| ticket.answer(receipt)));
        Self { held: BTreeMap::new(), by_cohort, receipt, disk }
    }
}

impl<T: 'static> DurableWriter for Pages<T> {
    type Item = T;
    type Receipt = Receipt;

    fn accept_items(&mut self, cohort: u64, items: &mut Vec<T>) {
        self.held.entry(cohort).or_default().append(items);
    }

    fn begin_writes(&mut self, due: DueWrites, begin: &mut dyn FnMut() -> Ticket<Receipt>) {
        if due.advanced {
            let later = if self.by_cohort { self.held.split_off(&due.complete) } else { BTreeMap::new() };
            let items = std::mem::replace(&mut self.held, later).into_iter();
            let items: Vec<_> =
                items.flat_map(|(cohort, items)| items.into_iter().map(move |item| (cohort, item))).collect();
            if !items.is_empty() {
                drop(self.disk.send(((self.receipt)(items), begin())));
            }
        }
    }
}

type TallyKey = (u32, u64);

/// Everything received by worker 0.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    outcomes: BTreeMap<(u64, u32), Ended>,
    records: BTreeMap<RequestKey, u64>,
    table: BTreeMap<TallyKey, TallyChange>,
}

struct CheckingCommitter {
    seen: Arc<Mutex<Seen>>,
    complete: u64,
}

impl Committer for CheckingCommitter {
    type Receipt = Receipt;
    type Key = TallyKey;
    type Change = TallyChange;

    fn complete(&mut self, complete: u64, receipts: Vec<Receipt>, table: &TallyTable<TallyKey, TallyChange>) {
        let mut seen = self.seen.lock().unwrap();
        for receipt in receipts {
            match receipt {
                Receipt::Outcomes(rows) => {
                    for (cohort, ended) in rows {
                        assert_eq!(cohort, ended.question / COHORT);
                        let twice = seen.outcomes.insert((ended.question, ended.configuration), ended);
                        assert_eq!(twice, None, "an outcome came twice");
                    }
                }
                Receipt::Records(records) => {
                    seen.records.extend(records.into_iter().map(|(key, said)| (key, said.value)));
                }
            }
        }
        assert!(complete > self.complete);
        for question in self.complete * COHORT..complete.saturating_mul(COHORT).min(QUESTIONS) {
            for configuration in 0..CONFIGURATIONS {
                let ended = &seen.outcomes[&(question, configuration)];
                assert!(ended.keys.iter().all(|key| seen.records.contains_key(key)), "made with what is not durable");
            }
        }
        self.complete = complete;
        seen.table = table.tallies().clone();
    }
}

/// The committer, on worker 0 only.
struct FirstWorkerCommitter(Option<CheckingCommitter>);

impl Committer for FirstWorkerCommitter {
    type Receipt = Receipt;
    type Key = TallyKey;
    type Change = TallyChange;

    fn complete(&mut self, complete: u64, receipts: Vec<Receipt>, table: &TallyTable<TallyKey, TallyChange>) {
        self.0.as_mut().unwrap().complete(complete, receipts, table);
    }
}

fn score(ended: &Ended) -> (TallyKey, TallyChange) {
    let value = i128::from(ended.heard % 100);
    ((ended.configuration, ended.question % 3), (1, i64::from(value > 50), value, value * value))
}

fn of_one_key((key, change): (TallyKey, TallyChange)) -> KeyedChange<TallyKey, TallyChange> {
    (vec![key], change)
}

/// A tally of an earlier generation.
const BEFORE: (TallyKey, TallyChange) = ((9, 9), (3, 2, 1, 1));

fn negated((n, ok, sum, squares): TallyChange) -> TallyChange {
    (-n, -ok, -sum, -squares)
}

/// The correction of the first question's first score after an edit of gold.
fn edit() -> Vec<(TallyKey, TallyChange)> {
    let (key, change) = score(&Machine::new(0, 0).alone());
    vec![(key, negated(change)), (key, (1, 1, 7, 49))]
}

fn render(worker: &mut Worker, seen: &Arc<Mutex<Seen>>, counters: &Arc<OperatorCounters>) {
    let (index, peers) = (worker.index(), worker.peers());
    let leads = index == 0;
    let (sender, corrections) = channel();
    if leads {
        sender.send(edit().into_iter().map(of_one_key).collect()).unwrap();
    }
    let committer = FirstWorkerCommitter(leads.then(|| CheckingCommitter { seen: Arc::clone(seen), complete: 0 }));
    let (credits, gate, flush) = (Credits::new(5), Gate::default(), Flush::default());
    let before = if leads { vec![of_one_key(BEFORE)] } else { Vec::new() };
    let records = Pages::new(false, |items| Receipt::Records(items.into_iter().map(|(_, record)| record).collect()));
    let outcomes = Pages::new(true, |items: Vec<(u64, Rc<Ended>)>| {
        Receipt::Outcomes(items.into_iter().map(|(cohort, ended)| (cohort, (*ended).clone())).collect())
    });
    let (query_sender, queries) = query_channel();
    worker.dataflow::<u64, _, _>(|scope| {
        let questions = admit(scope, Share((index as u64..QUESTIONS).step_by(peers)), &credits, counters);
        let (ended, recorded) = scope.iterative::<u32, _, _>(|inner| {
            let (handle, replies) = inner.loop_variable::<Vec<_>>(1);
            let (requests, ended) =
                drive(questions.enter(inner), replies, AllConfigurations, &credits, counters, &gate);
            let (replies, recorded) = serve(requests, ThreadBackend::open(query_sender), counters);
            replies.connect_loop(handle);
            (ended.leave(scope), recorded.leave(scope))
        });
        // While a request is open, its question is open and the timestamp of the outcomes is held.
        scatter(ended.clone(), queries, Bits::open(index, peers));
        let changes = ended.clone().map(|ended| of_one_key(score(&ended)));
        let receipts =
            persist(ended, "outcomes", outcomes, &flush).concat(persist(recorded, "journal", records, &flush));
        let corrected = correct(receipts.clone(), corrections, |_| ());
        let before = before.to_stream(scope).container::<Vec<_>>();
        let live = tally(changes.concat(before).concat(corrected));
        commit(receipts, live, TallyTable::default(), committer);
    });
}

fn run(communication: CommunicationConfig) -> Seen {
    let (seen, counters) = (Arc::<Mutex<Seen>>::default(), Arc::<OperatorCounters>::default());
    let (shared, counted) = (Arc::clone(&seen), Arc::clone(&counters));
    let config = timely::Config { communication, worker: timely::WorkerConfig::default() };
    let guards = timely::execute(config, move |worker| render(worker, &shared, &counted)).unwrap();
    guards.join().into_iter().for_each(|worker| worker.unwrap());
    for counter in [&counters.admitted, &counters.finished] {
        assert_eq!(counter.load(Relaxed), QUESTIONS);
    }
    assert_eq!(counters.sent.load(Relaxed), counters.served.load(Relaxed), "every request was answered");
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// The result without a dataflow.
fn alone() -> Seen {
    let mut seen = Seen { table: BTreeMap::from([BEFORE]), ..Seen::default() };
    let mut add = |(key, change): (TallyKey, TallyChange)| {
        let sum = seen.table.entry(key).or_default();
        *sum = (sum.0 + change.0, sum.1 + change.1, sum.2 + change.2, sum.3 + change.3);
    };
    edit().into_iter().for_each(&mut add);
    for question in 0..QUESTIONS {
        for configuration in 0..CONFIGURATIONS {
            let ended = Machine::new(question, configuration).alone();
            add(score(&ended));
            seen.outcomes.insert((question, configuration), ended);
        }
    }
    for round in 1..=4 {
        for about in 0..40 {
            let ask = Ask { round, about };
            if seen.outcomes.values().any(|ended| ended.keys.contains(&key(&ask))) {
                seen.records.insert(key(&ask), answer(&ask).value);
            }
        }
    }
    seen
}

#[test]
fn workers_that_share_memory_or_serialise_end_like_one() {
    let expected = alone();
    assert!(expected.outcomes.len() as u64 == QUESTIONS * u64::from(CONFIGURATIONS) && expected.records.len() > 100);
    for communication in [
        CommunicationConfig::Thread,
        CommunicationConfig::Process(3),
        CommunicationConfig::ProcessBinary(2),
        CommunicationConfig::ProcessBinary(3),
    ] {
        let name = format!("{communication:?}");
        assert!(run(communication) == expected, "{name} ends in something else");
    }
}
