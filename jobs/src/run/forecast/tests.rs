//! Estimates over simulated schedules, whose ends are known. Nothing here is timed.

use super::super::demand::{RequestDemand, RoundRequests};
use super::*;
use std::collections::VecDeque;

/// A simulated service: its name, seconds of one request, tokens of one request.
type SimulatedService = (&'static str, f64, u64);

/// A simulated run: every machine of a configuration asks the same rounds.
#[derive(Clone, Default)]
struct SimulatedRun {
    services: Vec<SimulatedService>,
    /// For each configuration its rounds: the service, and the requests. A sweep's configuration that asks for what
    /// another one asked has rounds of 0 requests.
    configurations: Vec<Vec<(usize, u64)>>,
    questions: u64,
    in_flight: u64,
    /// So many questions from the first on are answered by the journal.
    journalled: u64,
    /// Machines of odd questions end after this round.
    odd_ends_after: Option<usize>,
    /// Seconds of clock for a second of work.
    pace: f64,
    /// Whether questions are rehearsed.
    rehearsed: bool,
    /// The share of its work that the first request of a service has in common with others; the last one shares none.
    shared: f64,
    /// The services that a server answers.
    servers: &'static [&'static str],
}

/// Seconds between two looks.
const LOOK: f64 = 0.2;

/// One machine's open round in a service's queue.
struct QueuedRound {
    question: u64,
    configuration: usize,
    round: usize,
    left: f64,
}

/// One look: seconds since the beginning, and the estimate.
type Look = (f64, RunEstimate);

impl SimulatedRun {
    fn rounds_of(&self, question: u64, configuration: usize) -> usize {
        let all = self.configurations[configuration].len();
        self.odd_ends_after.filter(|_| question % 2 == 1).map_or(all, |end| end.min(all))
    }

    /// All requests to a service, if no machine ends early.
    fn requests_to(&self, name: &str) -> u64 {
        let rounds = self.configurations.iter().flatten().filter(|(service, _)| self.services[*service].0 == name);
        self.questions * rounds.map(|(_, requests)| requests).sum::<u64>()
    }

    fn rehearse(&self) -> RehearsedRounds {
        let demand = RequestDemand::default();
        for question in 0..4 {
            for (configuration, rounds) in self.configurations.iter().enumerate() {
                let last = self.rounds_of(question, configuration);
                for (round, &(service, sent)) in rounds.iter().enumerate().take(last) {
                    let (name, _, tokens) = self.services[service];
                    let requests = RoundRequests { sent: 0, answered: sent, tokens: tokens * sent, busy_us: 0 };
                    let (configuration, round) = (configuration as u32, round as u32 + 1);
                    demand.count_round(configuration, round, [(&ServiceName(name.into()), sent)]);
                    demand.count_answers(configuration, round, [(&ServiceName(name.into()), requests)]);
                }
                demand.count_end(configuration as u32, last as u32);
            }
        }
        RehearsedRounds { questions: 4, rounds: demand.read() }
    }

    /// The looks until the last outcome, and the seconds of it.
    fn simulate(&self) -> (Vec<Look>, f64) {
        let configurations = self.configurations.len() as u64;
        let (questions, all_outcomes) = (self.questions, self.questions * configurations);
        let work = ForecastedWork {
            questions,
            configurations,
            all_outcomes,
            workers: 2,
            servers: self.servers.iter().map(|&name| name.into()).collect(),
            ..ForecastedWork::default()
        };
        let mut forecast = RunForecast::new(work);
        if self.rehearsed {
            forecast.set_rehearsed(self.rehearse());
        }
        let demand = RequestDemand::default();
        let mut sample = ProgressSample::default();
        let mut queues: Vec<VecDeque<QueuedRound>> = self.services.iter().map(|_| VecDeque::new()).collect();
        let (mut looks, mut open, mut step) = (Vec::new(), 0, 0_u32);
        let mut machines_left: BTreeMap<u64, u64> = BTreeMap::new();
        while sample.outcomes < self.questions * configurations {
            // Machines that ask their next round: those of new questions, and those with a complete round.
            let mut ready: Vec<(u64, usize, usize)> = Vec::new();
            while open < self.in_flight && sample.admitted < self.questions {
                ready.extend((0..self.configurations.len()).map(|configuration| (sample.admitted, configuration, 0)));
                machines_left.insert(sample.admitted, configurations);
                (sample.admitted, open) = (sample.admitted + 1, open + 1);
            }
            let busy = queues.iter().filter(|queue| !queue.is_empty()).count();
            for ((name, cost, tokens), queue) in self.services.iter().zip(&mut queues) {
                let progress = sample.services.entry((*name).into()).or_default();
                let left = 1.0 - progress.computed as f64 / self.requests_to(name).max(1) as f64;
                let (computed_share, own_cost) = (1.0 - self.shared * left, cost * (1.0 - self.shared * left));
                let mut room = if busy > 0 { LOOK / self.pace / busy as f64 / own_cost } else { 0.0 };
                while room > 0.0
                    && let Some(front) = queue.front_mut()
                {
                    let done = front.left.min(room);
                    (front.left, room) = (front.left - done, room - done);
                    if front.left > 1e-9 {
                        break;
                    }
                    let QueuedRound { question, configuration, round, .. } = queue.pop_front().unwrap();
                    let requests = self.configurations[configuration][round].1;
                    let (all_tokens, busy_us) = (tokens * requests, (own_cost * 1e6) as u64 * requests);
                    progress.computed += requests;
                    progress.busy_us += busy_us;
                    progress.tokens += all_tokens;
                    progress.computed_tokens += (all_tokens as f64 * computed_share) as u64;
                    sample.served += requests;
                    let answers = RoundRequests { sent: 0, answered: requests, tokens: all_tokens, busy_us };
                    let key = (configuration as u32, round as u32 + 1);
                    demand.count_answers(key.0, key.1, [(&ServiceName((*name).into()), answers)]);
                    ready.push((question, configuration, round + 1));
                }
            }
            while let Some((question, configuration, round)) = ready.pop() {
                if round == self.rounds_of(question, configuration) {
                    demand.count_end(configuration as u32, round as u32);
                    sample.outcomes += 1;
                    let left = machines_left.get_mut(&question).unwrap();
                    *left -= 1;
                    open -= u64::from(*left == 0);
                    continue;
                }
                let (service, requests) = self.configurations[configuration][round];
                let name = self.services[service].0;
                demand.count_round(configuration as u32, round as u32 + 1, [(&ServiceName(name.into()), requests)]);
                let progress = sample.services.entry(name.into()).or_default();
                progress.requests += requests;
                if question < self.journalled || requests == 0 {
                    progress.journalled += requests;
                    sample.served += requests;
                    ready.push((question, configuration, round + 1));
                } else {
                    queues[service].push_back(QueuedRound { question, configuration, round, left: requests as f64 });
                }
            }
            step += 1;
            sample.rounds = demand.read();
            let at = f64::from(step) * LOOK;
            looks.push((at, forecast.observe(Duration::from_secs_f64(at), &sample)));
        }
        let end = f64::from(step) * LOOK;
        (looks, end + forecast.end_seconds())
    }

    /// The share of the looks after the first fifth that were within a factor of 1.5 of the truth.
    fn share_near(&self) -> f64 {
        let (looks, end) = self.simulate();
        let late: Vec<&Look> = looks.iter().filter(|(at, _)| *at > end / 5.0).collect();
        let is_near = |(at, estimate): &&&Look| {
            let ratio = estimate.left.map_or(0.0, |left| left.as_secs_f64() / (end - at));
            (1.0 / 1.5..=1.5).contains(&ratio)
        };
        late.iter().filter(is_near).count() as f64 / late.len() as f64
    }
}

const RETRIEVER: SimulatedService = ("bm25", 0.000_2, 0);
const SCORER: SimulatedService = ("scorer", 0.004, 200);
const LABELER: SimulatedService = ("labeler", 0.001, 50);
const READER: SimulatedService = ("reader", 0.05, 2500);

/// PromptRank's and EfficientRAG's like, all questions in flight together.
fn small_run() -> SimulatedRun {
    SimulatedRun {
        services: vec![RETRIEVER, SCORER, LABELER, READER],
        configurations: vec![
            vec![(0, 1)],
            vec![(0, 1), (1, 100), (0, 5), (1, 20), (3, 2)],
            vec![(0, 1), (2, 20), (0, 1), (2, 20), (3, 1)],
        ],
        questions: 200,
        in_flight: 512,
        pace: 1.4,
        rehearsed: true,
        ..SimulatedRun::default()
    }
}

#[test]
fn services_of_different_cost_side_by_side() {
    let run = small_run();
    assert!(run.share_near() > 0.9, "{}", run.share_near());
    // Hosts that need more than the services themselves.
    let slow = SimulatedRun { pace: 4.0, ..run.clone() };
    assert!(slow.share_near() > 0.9, "{}", slow.share_near());
    // Few questions in flight: finished questions tell enough.
    let long = SimulatedRun { questions: 1000, in_flight: 32, rehearsed: false, ..run };
    assert!(long.share_near() > 0.9, "{}", long.share_near());
}

#[test]
fn a_journal_that_answers_the_first_half() {
    let few = SimulatedRun { journalled: 500, questions: 1000, in_flight: 32, ..small_run() };
    assert!(few.share_near() > 0.9, "{}", few.share_near());
    let all = SimulatedRun { journalled: 100, ..small_run() };
    assert!(all.share_near() > 0.9, "{}", all.share_near());
}

#[test]
fn an_expensive_service_that_comes_last() {
    let run = SimulatedRun {
        services: vec![RETRIEVER, LABELER, READER],
        configurations: vec![vec![(0, 1), (1, 200), (2, 2)]],
        ..small_run()
    };
    assert!(run.share_near() > 0.9, "{}", run.share_near());
    // Half of the time is the reader's, which nothing has reached yet: the rehearsal knows it by its tokens.
    let (looks, end) = run.simulate();
    let (at, first) = looks.iter().find_map(|(at, estimate)| Some((at, estimate.left?.as_secs_f64()))).unwrap();
    assert!(*at < 3.0 && (0.7..1.5).contains(&(first / (end - at))), "{first} at {at} of {end}");
    // Without it nothing is said before some questions have finished.
    let (looks, _) = SimulatedRun { rehearsed: false, ..run }.simulate();
    assert!(looks.iter().filter(|(at, _)| *at < 3.0).all(|(_, estimate)| estimate.left.is_none()));
}

#[test]
fn a_sweep_whose_configurations_ask_the_same() {
    let run = SimulatedRun {
        configurations: vec![
            vec![(0, 1), (1, 100), (1, 20)],
            vec![(0, 0), (1, 0), (1, 20)],
            vec![(0, 0), (1, 0), (1, 0)],
        ],
        ..small_run()
    };
    assert!(run.share_near() > 0.9, "{}", run.share_near());
}

#[test]
fn requests_that_share_less_and_less() {
    let run = SimulatedRun { shared: 0.7, ..small_run() };
    assert!(run.share_near() > 0.9, "{}", run.share_near());
}

#[test]
fn questions_that_end_early() {
    let run = SimulatedRun { odd_ends_after: Some(2), ..small_run() };
    assert!(run.share_near() > 0.9, "{}", run.share_near());
}

#[test]
fn nothing_is_said_without_evidence() {
    let work = ForecastedWork { questions: 10, configurations: 1, workers: 1, ..ForecastedWork::default() };
    let mut forecast = RunForecast::new(work);
    forecast.set_rehearsed(RehearsedRounds::default());
    for second in 1..60 {
        let estimate = forecast.observe(Duration::from_secs(second), &ProgressSample::default());
        assert_eq!(estimate, RunEstimate::default());
    }
    let (looks, _) = small_run().simulate();
    assert!(looks.iter().filter(|(at, _)| *at < FIRST_AFTER).all(|(_, estimate)| estimate.left.is_none()));
}

/// Neither fast retrievals nor the tokens of a model beside it tell how long a server takes.
#[test]
fn nothing_is_said_before_the_first_answer_of_a_server() {
    const SERVER: SimulatedService = ("llm", 40.0, 100);
    for rounds in [vec![(0, 1), (2, 1)], vec![(0, 1), (1, 5), (2, 1)]] {
        // Ten calls at once: each second of clock has ten of service.
        let run = SimulatedRun {
            services: vec![RETRIEVER, LABELER, SERVER],
            configurations: vec![rounds],
            questions: 20,
            in_flight: 10,
            pace: 0.1,
            rehearsed: true,
            servers: &["llm"],
            ..SimulatedRun::default()
        };
        let (looks, end) = run.simulate();
        let (before, after): (Vec<&Look>, Vec<&Look>) = looks.iter().partition(|(at, _)| *at < 4.0);
        assert!(before.len() > 15 && before.iter().all(|(_, estimate)| estimate.left.is_none()), "{before:?}");
        for (at, estimate) in after.iter().filter(|(at, _)| (8.0..end - 8.0).contains(at)) {
            let ratio = estimate.left.unwrap().as_secs_f64() / (end - at);
            assert!((0.5..2.0).contains(&ratio), "{estimate:?} at {at} of {end}");
        }
    }
}

/// A judge is asked at the end: until it has answered nothing is said, and the share stays.
#[test]
fn the_share_stays_while_nothing_is_known() {
    let work = ForecastedWork { questions: 10, configurations: 1, workers: 1, ..ForecastedWork::default() };
    let mut forecast = RunForecast::new(work);
    (forecast.shown, forecast.share) = (Some(30.0), 0.4);
    let estimate = forecast.observe(Duration::from_secs(20), &ProgressSample::default());
    assert_eq!((estimate.left, estimate.share), (None, 0.4));
}

#[test]
fn an_estimate_never_jumps_and_the_share_grows() {
    for run in [small_run(), SimulatedRun { rehearsed: false, ..small_run() }] {
        let (looks, end) = run.simulate();
        let shown: Vec<(f64, f64, f64)> = looks
            .iter()
            .filter_map(|(at, estimate)| Some((*at, estimate.left?.as_secs_f64(), estimate.share)))
            .collect();
        for pair in shown.windows(2) {
            let ((_, before, _), (at, after, _)) = (pair[0], pair[1]);
            assert!(after < before * 1.2 + 0.1, "at {at}: {before} became {after}");
        }
        // Once most is known, the share of the time only grows.
        let late: Vec<f64> = shown.iter().filter(|(at, ..)| *at > end / 2.0).map(|(.., share)| *share).collect();
        assert!(late.windows(2).all(|pair| pair[1] >= pair[0] - 0.01), "{late:?}");
        assert!(late.last().is_some_and(|share| *share > 0.9), "{late:?}");
    }
}

#[test]
fn a_jump_in_what_is_known_is_followed_within_seconds() {
    let mut shown = 1.0;
    for step in 0..5 {
        let next = damped(Some(shown), 540.0, LOOK, 20.0);
        assert!(next < shown * 3.0, "step {step}: {shown} became {next}");
        shown = next;
    }
    for _ in 0..50 {
        shown = damped(Some(shown), 540.0, LOOK, 20.0);
    }
    assert!((400.0..540.0).contains(&shown), "{shown}");
}
