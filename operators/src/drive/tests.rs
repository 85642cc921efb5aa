//! The driver with manual replies, one at a time, in any order.

use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::core::UnorderedInput;
use timely::dataflow::operators::{Inspect, Leave, Probe};

/// The requests of each round, before the responses are added to them.
type Script = Vec<Vec<u8>>;

/// The number of keys.
const KEYS: u8 = 12;

fn respond(key: u8) -> u32 {
    u32::from(key) * 7 + 1
}

/// Asks by its script, shifted by the responses: a response in the wrong place changes all later requests.
struct Toy {
    name: (usize, usize),
    script: Script,
    asked: Vec<u8>,
    round: usize,
    heard: Vec<Vec<u32>>,
}

impl Toy {
    fn new(name: (usize, usize), script: Script) -> Self {
        Self { name, script, asked: Vec::new(), round: 0, heard: Vec::new() }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let shift = self.heard.iter().flatten().fold(0u32, |a, b| a.wrapping_mul(31).wrapping_add(*b));
        let round = self.script.get(self.round)?;
        self.round += 1;
        Some(round.iter().map(|key| (u32::from(*key).wrapping_add(shift) % u32::from(KEYS)) as u8).collect())
    }

    /// The responses without a dataflow.
    fn alone(mut self) -> Vec<Vec<u32>> {
        while let Some(asked) = self.next() {
            self.heard.push(asked.into_iter().map(respond).collect());
        }
        self.heard
    }
}

type Ended = ((usize, usize), Vec<Vec<u32>>);

impl DrivenMachine for Toy {
    type Request = u8;
    type Response = u32;
    type Outcome = Ended;

    fn step(&mut self, responses: Vec<Rc<u32>>) -> DrivenStep<u8, Ended> {
        assert_eq!(responses.len(), self.asked.len(), "stepped with an incomplete round");
        if self.round > 0 {
            self.heard.push(responses.iter().map(|response| **response).collect());
        }
        match self.next() {
            None => DrivenStep::Done((self.name, std::mem::take(&mut self.heard))),
            Some(asked) => {
                self.asked = asked.clone();
                let asked = |key| AskedRequest { key: RequestKey([key; 32]), bucket: u16::from(key), request: key };
                DrivenStep::Ask(self.asked.iter().copied().map(asked).collect())
            }
        }
    }
}

/// Opens the machines of a question together, or one after another.
struct ToyOpener {
    one_at_a_time: bool,
}

impl QuestionOpener for ToyOpener {
    type Question = (usize, Vec<Script>);
    type Machine = Toy;

    fn open_machines(&mut self, (question, scripts): Self::Question) -> Vec<Toy> {
        scripts.into_iter().enumerate().map(|(i, script)| Toy::new((question, i), script)).collect()
    }

    fn one_at_a_time(&self) -> bool {
        self.one_at_a_time
    }
}

/// Delivers all sent messages.
fn settle(worker: &mut timely::worker::Worker) {
    for _ in 0..4 {
        worker.step();
    }
}

/// The observations of a run.
struct Shown {
    ended: Vec<(u64, Ended)>,
    sent: Vec<(u64, u8)>,
    asked: u64,
    credits: usize,
    /// True if the driver released every cohort at the end.
    released: bool,
}

/// Runs `questions` (with their cohorts). `pick` chooses the waiting request to answer next.
fn run(questions: Vec<(u64, Vec<Script>)>, pick: impl FnMut(usize) -> usize + Send + Sync + 'static) -> Shown {
    run_by(ToyOpener { one_at_a_time: false }, questions, pick)
}

fn run_by(
    opener: ToyOpener,
    questions: Vec<(u64, Vec<Script>)>,
    mut pick: impl FnMut(usize) -> usize + Send + Sync + 'static,
) -> Shown {
    timely::execute_directly(move |worker| {
        let (sent, ended) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
        let credits = Credits::new(1);
        let counters = Arc::new(OperatorCounters::default());
        let (mut asking, mut replying, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (asking, replying, requests, outcomes) = scope.iterative::<u32, _, _>(|inner| {
                let (asking, questions) = inner.new_unordered_input::<CapacityContainerBuilder<Vec<_>>>();
                let (replying, replies) = inner.new_unordered_input::<CapacityContainerBuilder<Vec<_>>>();
                let (requests, outcomes) = drive(questions, replies, opener, &credits, &counters, &Gate::default());
                (asking, replying, requests.leave(scope), outcomes.leave(scope))
            });
            let (log, done) = (Rc::clone(&sent), Rc::clone(&ended));
            requests.inspect_core(move |event| {
                if let Ok((stamp, batch)) = event {
                    log.borrow_mut().extend(batch.iter().map(|envelope| (*stamp.expect_singleton(), envelope.request)));
                }
            });
            let outcomes = outcomes.inspect_core(move |event| {
                if let Ok((stamp, batch)) = event {
                    done.borrow_mut().extend(batch.iter().map(|ended| (*stamp.expect_singleton(), ended.clone())));
                }
            });
            (asking, replying, outcomes.probe().0)
        });
        for (index, (cohort, scripts)) in questions.into_iter().enumerate() {
            let at = asking.1.delayed(&Product::new(cohort, 0));
            asking.0.activate().session(&at).give((index, scripts));
        }
        drop(asking);
        let (mut seen, mut waiting) = (0, Vec::new());
        loop {
            settle(worker);
            for &(_, key) in &sent.borrow()[seen..] {
                assert!(!waiting.contains(&key), "key {key} was sent while it was in flight");
                waiting.push(key);
            }
            seen = sent.borrow().len();
            if waiting.is_empty() {
                break;
            }
            let key = waiting.remove(pick(waiting.len()));
            let reply = Reply { key: RequestKey([key; 32]), to: 0, response: respond(key) };
            replying.0.activate().session(&replying.1).give(reply);
        }
        drop(replying);
        settle(worker);
        let shown = Shown {
            ended: ended.take(),
            sent: sent.take(),
            asked: counters.asked.load(Relaxed),
            credits: credits.free(),
            released: probe.done(),
        };
        worker.installed_dataflows().into_iter().for_each(|id| worker.drop_dataflow(id));
        shown
    })
}

fn scripts() -> impl Strategy<Value = Vec<(u64, Vec<Script>)>> {
    let round = prop::collection::vec(0..KEYS, 1..5);
    let machine = prop::collection::vec(round, 0..4);
    let question = (0..3u64, prop::collection::vec(machine, 0..4));
    prop::collection::vec(question, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The order of delivery has no effect: every machine gets the same responses as alone, at its question's cohort,
    /// and nothing stays open.
    #[test]
    fn delivery_in_any_order_gives_the_same_outcomes(questions in scripts(), mut seed in any::<u64>()) {
        let mut expected: Vec<(u64, Ended)> = Vec::new();
        for (index, (cohort, machines)) in questions.iter().enumerate() {
            for (i, script) in machines.iter().enumerate() {
                let name = (index, i);
                expected.push((*cohort, (name, Toy::new(name, script.clone()).alone())));
            }
        }
        let count = questions.len();
        let mut shown = run(questions, move |waiting| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % waiting
        });
        shown.ended.sort();
        expected.sort();
        prop_assert_eq!(shown.ended, expected);
        prop_assert!(shown.released);
        prop_assert_eq!(shown.credits, 1 + count);
        prop_assert!(shown.sent.len() as u64 <= shown.asked);
    }

    /// One question sends each key once, for all its configurations and at any time.
    #[test]
    fn a_question_sends_a_key_once(mut questions in scripts()) {
        questions.truncate(1);
        let sent = run(questions, |_| 0).sent;
        let distinct: BTreeSet<_> = sent.iter().copied().collect();
        prop_assert_eq!(distinct.len(), sent.len());
    }
}

#[test]
fn a_key_in_flight_is_joined_by_other_questions_and_cohorts() {
    let shown = run(vec![(0, vec![vec![vec![3]]]), (2, vec![vec![vec![3]], vec![vec![3, 3]]])], |_| 0);
    assert_eq!(shown.sent, [(0, 3)]);
    assert_eq!(shown.asked, 4);
    assert_eq!(shown.ended.len(), 3);
}

#[test]
fn a_finished_question_is_forgotten() {
    // The second question asks 3 in its second round, when the first has heard 3 and is gone.
    let then = (u32::from(KEYS) * 8 + 3 - respond(1)) % u32::from(KEYS);
    let late = vec![vec![1], vec![then as u8]];
    let shown = run(vec![(0, vec![vec![vec![3]]]), (0, vec![late])], |_| 0);
    assert_eq!(shown.sent, [(0, 3), (0, 1), (0, 3)]);
    assert_eq!(shown.ended.len(), 2);
}

#[test]
fn machines_one_at_a_time_share_no_responses() {
    let scripts = vec![vec![vec![3, 4]], vec![vec![3]], vec![vec![4], vec![1]]];
    let shown =
        run_by(ToyOpener { one_at_a_time: true }, vec![(0, scripts.clone()), (1, vec![vec![vec![5]]])], |waiting| {
            waiting - 1
        });
    let alone = |i: usize| ((0, i), Toy::new((0, i), scripts[i].clone()).alone());
    let of_first: Vec<_> =
        shown.ended.iter().filter(|(cohort, _)| *cohort == 0).map(|(_, ended)| ended.clone()).collect();
    assert_eq!(of_first, [alone(0), alone(1), alone(2)], "in the order of the configurations");
    let sent: Vec<u8> = shown.sent.iter().filter(|(cohort, _)| *cohort == 0).map(|(_, key)| *key).collect();
    assert_eq!(sent[..4], [3, 4, 3, 4], "what the first asked is sent again for the others");
    assert_eq!((sent.len() as u64 + 1, shown.credits), (shown.asked, 3));
    assert!(shown.released);
}

#[test]
fn a_question_without_machines_is_finished_at_once() {
    let shown = run(vec![(0, Vec::new()), (1, vec![vec![vec![1]]]), (2, Vec::new())], |_| 0);
    assert_eq!(shown.ended.len(), 1);
    assert!(shown.released, "a question without machines holds its cohort");
    assert_eq!(shown.credits, 1 + 3);
}

#[test]
fn behind_a_closed_gate_nothing_is_sent_and_every_cohort_stays_open() {
    timely::execute_directly(|worker| {
        let (sent, ended) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
        let (credits, gate, counters) = (Credits::new(4), Gate::default(), Arc::new(OperatorCounters::default()));
        let opener = ToyOpener { one_at_a_time: false };
        let (mut asking, mut replying, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (asking, replying, requests, outcomes) = scope.iterative::<u32, _, _>(|inner| {
                let (asking, questions) = inner.new_unordered_input::<CapacityContainerBuilder<Vec<_>>>();
                let (replying, replies) = inner.new_unordered_input::<CapacityContainerBuilder<Vec<_>>>();
                let (requests, outcomes) = drive(questions, replies, opener, &credits, &counters, &gate);
                (asking, replying, requests.leave(scope), outcomes.leave(scope))
            });
            let (log, done) = (Rc::clone(&sent), Rc::clone(&ended));
            requests.inspect(move |envelope| log.borrow_mut().push(envelope.request));
            (asking, replying, outcomes.inspect(move |ended| done.borrow_mut().push(ended.clone())).probe().0)
        });
        // The first machine has a round to go, the second would end; the second question comes too late.
        let at = asking.1.delayed(&Product::new(3, 0));
        asking.0.activate().session(&at).give((0, vec![vec![vec![1], vec![2]], vec![vec![3]]]));
        settle(worker);
        assert_eq!(*sent.borrow(), [1, 3]);
        gate.close();
        asking.0.activate().session(&at).give((1, vec![vec![vec![4]]]));
        drop((at, asking));
        for key in [1, 3] {
            let reply = Reply { key: RequestKey([key; 32]), to: 0, response: respond(key) };
            replying.0.activate().session(&replying.1).give(reply);
        }
        drop(replying);
        settle(worker);
        assert_eq!(*sent.borrow(), [1, 3], "a request was sent behind the gate");
        assert!(ended.borrow().is_empty() && probe.less_equal(&3), "a cohort with open machines was declared complete");
        worker.installed_dataflows().into_iter().for_each(|id| worker.drop_dataflow(id));
    });
}
