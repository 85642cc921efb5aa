//! Hosts methods' machines in the dataflow: keys their requests, reads texts for them, and counts their usage.
//!
//! The one file that knows both a [`Machine`] and the operator that drives it.

use super::demand::{RequestDemand, RoundRequests};
use super::outcome::{FinishedOutcome, MachineEnd, OutcomeTiming, OutcomeUsage, outcome_row};
use super::outcome_counters::OutcomeCounters;
use crate::mode::TimingMode;
use crate::prepare::brought::BroughtRow;
use crate::prepare::questions::{PredictionRecord, QuestionDetails};
use crate::run::evaluator::{OK, OutcomeEvaluator, QuestionGold};
use crate::services::catalogue::Catalogue;
use crate::services::key::{request_bucket, request_key};
use crate::services::replies::{machine_response, read_texts};
use crate::services::served::ServedResponse;
use hopeval_methods::request::{PassageId as Asked, ServiceName};
use hopeval_methods::{
    Machine, MachineStep, Method, Outcome, Question, Request, RequestKind, RequestPayload, Response,
};
use hopeval_operators::RequestKey;
use hopeval_operators::drive::{self, DrivenMachine, DrivenStep, QuestionOpener};
use hopeval_results::tables::{QuestionRow, Timing};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// The configurations of a run, with the services their machines use.
pub struct RunConfigurations {
    /// The methods, by configuration.
    pub methods: Vec<Box<dyn Method>>,
    /// The services.
    pub catalogue: Arc<Catalogue>,
    /// All temperatures requested from each service, ascending.
    temperatures: BTreeMap<ServiceName, Vec<f64>>,
}

impl RunConfigurations {
    /// The configurations of a run over its services.
    pub fn new(methods: Vec<Box<dyn Method>>, catalogue: Arc<Catalogue>) -> Self {
        Self::with_temperatures(methods, catalogue, &[])
    }

    /// The same, with additional temperatures: every score is also computed and kept at these.
    pub fn with_temperatures(methods: Vec<Box<dyn Method>>, catalogue: Arc<Catalogue>, also: &[f64]) -> Self {
        let mut temperatures: BTreeMap<ServiceName, Vec<f64>> = BTreeMap::new();
        for method in &methods {
            let scoring = method.service_uses().into_iter().filter(|used| used.kind == RequestKind::Score);
            for used in scoring {
                temperatures.entry(used.service).or_default().extend(method.score_temperatures());
            }
        }
        for wanted in temperatures.values_mut() {
            wanted.extend(also);
            wanted.sort_by(f64::total_cmp);
            wanted.dedup();
        }
        catalogue.fragments().add_methods(methods.iter().map(AsRef::as_ref));
        Self { methods, catalogue, temperatures }
    }

    /// A request in the form sent to the service. A score's temperatures are not part of its key, so the answer to one
    /// configuration's request serves all others. The request therefore asks for the temperatures of all of them.
    fn with_all_temperatures(&self, mut request: Request) -> Request {
        if let (RequestPayload::Score(score), Some(all)) = (&mut request.ask, self.temperatures.get(&request.service)) {
            let own = std::mem::replace(&mut score.temperatures, all.clone());
            score.temperatures.extend(own.into_iter().filter(|t| !all.contains(t)));
        }
        request
    }
}

/// A question in the forms given to machines.
pub struct MachineQuestions {
    whole: Question,
    /// Without gold and answers.
    blind: Question,
    /// Outcomes to be judged, by configuration.
    predictions: BTreeMap<String, PredictionRecord>,
    /// Outcomes of other systems, by the digest of their file.
    brought: BTreeMap<String, BroughtRow>,
}

impl MachineQuestions {
    /// The forms of a row's question.
    pub fn new(row: &QuestionRow) -> Self {
        let details = QuestionDetails::of_row(row);
        let whole = Question {
            id: row.id.clone(),
            text: row.text.clone(),
            kind: row.kind.clone(),
            candidates: row.candidates.iter().map(|&id| Asked(id)).collect(),
            gold: row.gold.iter().map(|group| group.iter().map(|&id| Asked(id)).collect()).collect(),
            answers: row.answers.clone(),
            context: details.given_context(),
            decomposition: details.decomposition.clone(),
            evidences: details.evidences.clone(),
            prediction: None,
        };
        let (gold, answers, decomposition, evidences) = <_>::default();
        let blind = Question { gold, answers, decomposition, evidences, ..whole.clone() };
        Self { whole, blind, predictions: details.predictions, brought: details.brought }
    }

    /// The form for machines of `method`: only methods that declare to read gold get it, only judges get the outcome
    /// that they judge, and only methods with a file of another system's outcomes get that of the question.
    pub fn for_method(&self, method: &dyn Method) -> Cow<'_, Question> {
        if let Some(judging) = method.judging() {
            let prediction = self.predictions.get(judging.configuration).map(|record| Box::new(record.outcome()));
            return Cow::Owned(Question { prediction, ..self.whole.clone() });
        }
        let form = if method.reads_gold() { &self.whole } else { &self.blind };
        match method.brought_digest().and_then(|digest| self.brought.get(digest)) {
            Some(row) => Cow::Owned(Question { prediction: Some(Box::new(row.to_outcome())), ..form.clone() }),
            None => Cow::Borrowed(form),
        }
    }
}

/// Opens machines for the questions of one worker.
pub struct MachineOpener {
    configurations: Arc<RunConfigurations>,
    evaluator: Arc<OutcomeEvaluator>,
    mode: TimingMode,
    demand: Arc<RequestDemand>,
    counters: Arc<OutcomeCounters>,
    /// Scratch for the payloads of all machines: each would keep its own while it waits.
    payload: Rc<RefCell<Vec<u8>>>,
}

impl MachineOpener {
    /// An opener for one worker; `demand` counts the requests of its machines, `counters` their outcomes.
    pub fn new(
        configurations: Arc<RunConfigurations>,
        evaluator: Arc<OutcomeEvaluator>,
        mode: TimingMode,
        demand: Arc<RequestDemand>,
        counters: Arc<OutcomeCounters>,
    ) -> Self {
        Self { configurations, evaluator, mode, demand, counters, payload: Rc::default() }
    }
}

impl QuestionOpener for MachineOpener {
    type Question = QuestionRow;
    type Machine = HostedMachine;

    fn open_machines(&mut self, row: QuestionRow) -> Vec<HostedMachine> {
        let questions = MachineQuestions::new(&row);
        let gold = Rc::new(self.evaluator.question_gold(&row));
        let row = Rc::new(row);
        let open = |(configuration, method): (usize, &dyn Method)| HostedMachine {
            machine: method.start(&questions.for_method(method)),
            question: Rc::clone(&row),
            gold: Rc::clone(&gold),
            configuration: configuration as u32,
            configurations: Arc::clone(&self.configurations),
            mode: self.mode,
            demand: Arc::clone(&self.demand),
            counters: Arc::clone(&self.counters),
            asked: Vec::new(),
            keys: Vec::new(),
            charged: BTreeSet::new(),
            usage: OutcomeUsage::default(),
            rounds: 0,
            begun: None,
            service_us: 0,
            queue_us: 0,
            device_us: 0,
            payload: Rc::clone(&self.payload),
        };
        self.configurations.methods.iter().map(AsRef::as_ref).enumerate().map(open).collect()
    }

    fn one_at_a_time(&self) -> bool {
        self.mode == TimingMode::Latency
    }
}

/// One machine with counts of its usage and time.
pub struct HostedMachine {
    machine: Box<dyn Machine>,
    question: Rc<QuestionRow>,
    gold: Rc<QuestionGold>,
    configuration: u32,
    configurations: Arc<RunConfigurations>,
    mode: TimingMode,
    demand: Arc<RequestDemand>,
    counters: Arc<OutcomeCounters>,
    /// The requests of the current round, for reading the answers. Neighbouring requests whose answers are read alike
    /// are one entry: the first request, without its prompt, and their number. This saves memory: a round has hundreds
    /// of requests, a sweep has thousands of rounds at once, and prompts are not needed after sending.
    asked: Vec<(Request, usize)>,
    /// Keys of the current round, in the mode `latency`.
    keys: Vec<RequestKey>,
    /// Keys with their device time already counted: a key asked again is not computed again.
    charged: BTreeSet<RequestKey>,
    usage: OutcomeUsage,
    rounds: u32,
    /// Time of the first step.
    begun: Option<Instant>,
    service_us: u64,
    queue_us: u64,
    device_us: u64,
    payload: Rc<RefCell<Vec<u8>>>,
}

impl HostedMachine {
    /// Counts the usage and time of a round's responses, and converts them to the machine's form.
    fn receive(&mut self, responses: Vec<Rc<ServedResponse>>) -> Vec<Response> {
        // Requests of a round run beside each other, so the round takes as long as its slowest.
        self.service_us += responses.iter().map(|served| served.service_us).max().unwrap_or(0);
        self.queue_us += responses.iter().map(|served| served.queue_us).max().unwrap_or(0);
        for (key, served) in std::mem::take(&mut self.keys).into_iter().zip(&responses) {
            if self.charged.insert(key) {
                self.device_us += served.device_us;
            }
        }
        let corpus = &self.configurations.catalogue.corpus;
        let asked = std::mem::take(&mut self.asked);
        let mut left = responses.iter();
        let answers = asked.iter().map(|(request, count)| {
            let mut answers = RoundRequests::default();
            left.by_ref().take(*count).for_each(|served| answers += computed_answer(served));
            (&request.service, answers)
        });
        self.demand.count_answers(self.configuration, self.rounds, answers);
        let each = asked.iter().flat_map(|(request, count)| std::iter::repeat_n(request, *count));
        each.zip(responses)
            .map(|(request, served)| {
                self.usage.add(request, &served.response);
                let mut response = machine_response(&served.response, request);
                if request.wants_text() {
                    read_texts(corpus, &mut response);
                }
                response
            })
            .collect()
    }

    fn finish(&mut self, outcome: Outcome) -> Rc<FinishedOutcome> {
        self.demand.count_end(self.configuration, self.rounds);
        let seconds = |us: u64| us as f64 / 1e6;
        let timing = Timing {
            service_s: seconds(self.service_us),
            queue_s: seconds(self.queue_us),
            wall_s: self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
        };
        let device_s = (self.device_us > 0).then(|| seconds(self.device_us));
        // An outcome from a file took another system's time, which nobody measured here.
        let is_brought = self.configurations.methods[self.configuration as usize].brought_digest().is_some();
        let wall_s = (!is_brought).then_some(timing.wall_s);
        let measured = (!is_brought).then_some(OutcomeTiming { timing, device_s });
        let usage = std::mem::take(&mut self.usage);
        let row = outcome_row(self.configuration, &self.question, outcome, self.rounds, usage, measured);
        self.counters.count_outcome(row.status != OK, wall_s);
        Rc::new(FinishedOutcome { question: Rc::clone(&self.gold), row })
    }
}

/// The count of an answer: nothing, if it was known.
fn computed_answer(served: &ServedResponse) -> RoundRequests {
    if served.cached {
        return RoundRequests::default();
    }
    let work = &served.response.work;
    let tokens = work.prompt_tokens + work.completion_tokens + work.scored_tokens;
    // A model's service time is that of its whole batch, so its share of the device's time counts.
    let busy_us = if served.device_us > 0 { served.device_us } else { served.service_us };
    RoundRequests { sent: 0, answered: 1, tokens, busy_us }
}

/// Adds a request to the last group if answers to both are read alike. Otherwise begins another group.
fn remember_request(runs: &mut Vec<(Request, usize)>, request: &mut Request) {
    match runs.last_mut() {
        Some((first, count)) if are_read_alike(first, request) => *count += 1,
        _ => {
            if runs.is_empty() {
                // Even a round of many requests is one group, as a rule, and ten thousand machines wait with theirs.
                runs.reserve_exact(1);
            }
            runs.push((request.clone_without_prompt(), 1));
        }
    }
}

/// Whether [`machine_response`], [`read_texts`] and [`OutcomeUsage::add`] do the same with the answers to both.
fn are_read_alike(a: &Request, b: &Request) -> bool {
    fn temperatures(request: &Request) -> Option<&[f64]> {
        match &request.ask {
            RequestPayload::Score(score) => Some(&score.temperatures),
            _ => None,
        }
    }
    let kind = |request: &Request| (request.ask.kind(), request.wants_text());
    a.service == b.service && a.step == b.step && kind(a) == kind(b) && temperatures(a) == temperatures(b)
}

impl DrivenMachine for HostedMachine {
    type Request = Request;
    type Response = ServedResponse;
    type Outcome = MachineEnd;

    fn step(&mut self, responses: Vec<Rc<ServedResponse>>) -> DrivenStep<Request, MachineEnd> {
        self.begun.get_or_insert_with(Instant::now);
        // The other answers of the round are journalled: the next generation finds them.
        if responses.iter().any(|served| served.waits) {
            return DrivenStep::Left(MachineEnd::Waiting);
        }
        let responses = self.receive(responses);
        match self.machine.step(responses) {
            MachineStep::Done(outcome) => DrivenStep::Done(MachineEnd::Finished(self.finish(outcome))),
            MachineStep::Ask(requests) => {
                self.rounds += 1;
                let configurations = Arc::clone(&self.configurations);
                let payload = Rc::clone(&self.payload);
                let mut payload = payload.borrow_mut();
                let asked = requests.into_iter().map(|mut request| {
                    let key = request_key(&request, &configurations.catalogue, &mut payload);
                    // A machine's share of a batch is known only if all requests of the batch are its own.
                    if self.mode == TimingMode::Latency {
                        self.keys.push(key);
                    }
                    remember_request(&mut self.asked, &mut request);
                    drive::AskedRequest {
                        key,
                        bucket: request_bucket(&request, &key, &configurations.catalogue),
                        request: configurations.with_all_temperatures(request),
                    }
                });
                DrivenStep::Ask(asked.collect())
            }
        }
    }

    fn count_sent(&mut self, positions: &[usize]) {
        // Both are ascending: each group of the round takes the positions before its end.
        let (mut end, mut left) = (0, positions);
        let sent = self.asked.iter().map(|(request, count)| {
            end += count;
            let (of_group, others) = left.split_at(left.partition_point(|position| *position < end));
            left = others;
            (&request.service, of_group.len() as u64)
        });
        self.demand.count_round(self.configuration, self.rounds, sent);
    }
}
