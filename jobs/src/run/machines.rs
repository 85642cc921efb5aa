//! Hosts methods' machines in the dataflow: keys their requests, hands them texts, and keeps their accounts.
//!
//! The one file that knows both a [`Machine`] and the operator that drives it.

use crate::job::Mode;
use crate::run::judge::{Answerable, Judge};
use crate::services::Catalogue;
use hopeval_corpus::PassageId;
use hopeval_methods::request::{Affinity, PassageId as Asked, ServiceName};
use hopeval_methods::response::Scores;
use hopeval_methods::{
    Answer, Ask, FailureKind, Kind, Machine, Method, Outcome, PassageText, Question, Request, Response, Step,
};
use hopeval_operators::drive::{self, Hosted, Opener, Turn};
use hopeval_operators::{BUCKETS, Key};
use hopeval_results::tables::{CallRow, OutcomeRow, QuestionRow, Timing};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// A response on its way through the dataflow, with what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// The response.
    pub response: Response,
    /// Microseconds that it waited for its service, when it was computed.
    pub queue_us: u64,
    /// Microseconds of service, when it was computed.
    pub service_us: u64,
    /// Microseconds of a device: its share of its batch's. None where it was not computed for this.
    pub device_us: u64,
    /// Whether it came from the journal.
    pub cached: bool,
}

/// A response to be journalled.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its route.
    pub bucket: u16,
    /// Its identity.
    pub key: Key,
    /// The service that answered.
    pub service: ServiceName,
    /// The kind of request.
    pub kind: Kind,
    /// The response and its times.
    pub served: Served,
}

impl Served {
    /// A response that took no time worth keeping.
    pub fn now(response: Response) -> Self {
        Self { response, queue_us: 0, service_us: 0, device_us: 0, cached: false }
    }

    /// The same, from the journal.
    pub fn cached(&self) -> Self {
        Self { queue_us: 0, device_us: 0, cached: true, ..self.clone() }
    }
}

/// The identity of a request: kind, fingerprint of its service, canonical payload, draw.
///
/// `payload` is scratch. A service that does not exist has no fingerprint; the request is refused wherever it arrives.
///
/// # Panics
/// If the catalogue is not open.
pub fn key(request: &Request, catalogue: &Catalogue, payload: &mut Vec<u8>) -> Key {
    let fingerprint =
        catalogue.info(&request.service).map(|info| info.fingerprint().expect("the catalogue is open; this is a bug"));
    key_under(fingerprint, request, payload)
}

/// [`key`], where the fingerprint of the request's service is at hand.
pub(crate) fn key_under(fingerprint: Option<&[u8; 32]>, request: &Request, payload: &mut Vec<u8>) -> Key {
    payload.clear();
    request.canonical(payload);
    let mut hasher = blake3::Hasher::new();
    hasher.update(request.ask.kind().name().as_bytes());
    hasher.update(&[0]);
    match fingerprint {
        Some(fingerprint) => hasher.update(fingerprint),
        None => hasher.update(request.service.0.as_bytes()),
    };
    hasher.update(&request.draw.to_le_bytes());
    hasher.update(payload);
    Key(*hasher.finalize().as_bytes())
}

/// Where a request is answered: by its first passage where shared work should meet, else by its key.
pub fn bucket(request: &Request, key: &Key) -> u16 {
    match request.affinity() {
        Affinity::Key => key.bucket(),
        Affinity::Passage(Asked(passage)) => {
            // Fibonacci hashing spreads neighbouring passages.
            (passage.wrapping_mul(0x9E37_79B9) >> 16) as u16 % BUCKETS
        }
    }
}

/// The configurations of a run and what their machines need.
pub struct Company {
    /// The methods, by configuration.
    pub methods: Vec<Box<dyn Method>>,
    /// The services.
    pub catalogue: Arc<Catalogue>,
    /// Of each service, the temperatures that any configuration wants, ascending.
    temperatures: BTreeMap<ServiceName, Vec<f64>>,
}

impl Company {
    /// The configurations of a run over its services.
    pub fn new(methods: Vec<Box<dyn Method>>, catalogue: Arc<Catalogue>) -> Self {
        Self::with_temperatures(methods, catalogue, &[])
    }

    /// The same, with temperatures that every score is kept at beside those that configurations want.
    pub fn with_temperatures(methods: Vec<Box<dyn Method>>, catalogue: Arc<Catalogue>, also: &[f64]) -> Self {
        let mut temperatures: BTreeMap<ServiceName, Vec<f64>> = BTreeMap::new();
        for method in &methods {
            let scoring = method.services().into_iter().filter(|used| used.kind == Kind::Score);
            for used in scoring {
                temperatures.entry(used.service).or_default().extend(method.temperatures());
            }
        }
        for wanted in temperatures.values_mut() {
            wanted.extend(also);
            wanted.sort_by(f64::total_cmp);
            wanted.dedup();
        }
        Self { methods, catalogue, temperatures }
    }

    /// A request as it is sent. A score's temperatures are no part of its key, so the answer to one configuration's request
    /// serves all others: it is asked at the temperatures of all of them at once.
    fn sent(&self, mut request: Request) -> Request {
        if let (Ask::Score(score), Some(all)) = (&mut request.ask, self.temperatures.get(&request.service)) {
            let own = std::mem::replace(&mut score.temperatures, all.clone());
            score.temperatures.extend(own.into_iter().filter(|t| !all.contains(t)));
        }
        request
    }
}

/// What the asker of `request` is told: a score at its own temperatures, whatever the others wanted.
pub(crate) fn own(response: &Response, request: &Request) -> Response {
    if !response.satisfies(request) {
        let message =
            "an answer was shared with a request for a temperature that its method does not name: this is a bug";
        return Response::failure(FailureKind::Refused, message);
    }
    let (Ask::Score(score), Ok(Answer::Score(found))) = (&request.ask, &response.result) else {
        return response.clone();
    };
    // A sweep has millions of answers: what is not its own is not copied first.
    let sums = found.log_sum_exps.iter().filter(|(temperature, _)| score.temperatures.contains(temperature));
    let scores = Scores { logits: found.logits.clone(), log_sum_exps: sums.cloned().collect(), ends: found.ends };
    let Response { work, prompt, passages, .. } = response;
    Response { result: Ok(Answer::Score(scores)), work: *work, prompt: prompt.clone(), passages: passages.clone() }
}

/// A question as machines get it.
pub fn question(row: &QuestionRow) -> Question {
    Question {
        id: row.id.clone(),
        text: row.text.clone(),
        kind: row.kind.clone(),
        candidates: row.candidates.iter().map(|&id| Asked(id)).collect(),
        gold: row.gold.iter().map(|group| group.iter().map(|&id| Asked(id)).collect()).collect(),
        answers: row.answers.clone(),
    }
}

/// A finished question of a configuration, with the gold that judges it.
pub struct Finished {
    /// The question's gold.
    pub question: Rc<Answerable>,
    /// Its outcome.
    pub row: OutcomeRow,
}

/// Opens machines for the questions of one worker.
pub struct Doorman {
    company: Arc<Company>,
    judge: Arc<Judge>,
    mode: Mode,
}

impl Doorman {
    /// For one worker.
    pub fn new(company: Arc<Company>, judge: Arc<Judge>, mode: Mode) -> Self {
        Self { company, judge, mode }
    }
}

impl Opener for Doorman {
    type Question = QuestionRow;
    type Machine = Guest;

    fn open(&mut self, row: QuestionRow) -> Vec<Guest> {
        let question = question(&row);
        let blind = Question { gold: Vec::new(), answers: Vec::new(), ..question.clone() };
        let gold = Rc::new(self.judge.answerable(&row));
        let row = Rc::new(row);
        let open = |(configuration, method): (usize, &dyn Method)| Guest {
            // Gold is for those who say that they read it.
            machine: method.start(if method.reads_gold() { &question } else { &blind }),
            question: Rc::clone(&row),
            gold: Rc::clone(&gold),
            configuration: configuration as u32,
            company: Arc::clone(&self.company),
            mode: self.mode,
            asked: Vec::new(),
            keys: Vec::new(),
            charged: BTreeSet::new(),
            needs: Needs::default(),
            rounds: 0,
            begun: None,
            service_us: 0,
            queue_us: 0,
            device_us: 0,
            payload: Vec::new(),
        };
        self.company.methods.iter().map(AsRef::as_ref).enumerate().map(open).collect()
    }

    fn one_at_a_time(&self) -> bool {
        self.mode == Mode::Latency
    }
}

/// What an outcome needed, whether it was shared or not.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    calls: BTreeMap<(ServiceName, Kind), CallRow>,
    /// Passages that retrievers gave, repeats included.
    retrieved: u64,
}

impl Needs {
    /// Adds a request that was answered.
    pub(crate) fn add(&mut self, request: &Request, response: &Response) {
        let kind = request.ask.kind();
        let call = self.calls.entry((request.service.clone(), kind)).or_insert_with(|| CallRow {
            service: request.service.to_string(),
            kind: kind.name().to_owned(),
            cut: Some(0),
            ..CallRow::default()
        });
        let work = response.work;
        call.calls += 1;
        call.prompt_tokens += work.prompt_tokens;
        call.completion_tokens += work.completion_tokens;
        call.scored_tokens += work.scored_tokens;
        call.operations += work.operations;
        call.cut = call.cut.zip(response.is_cut()).map(|(sum, is_cut)| sum + u64::from(is_cut));
        if let Ok(Answer::Retrieve(hits)) = &response.result {
            self.retrieved += hits.len() as u64;
        }
    }
}

/// What an outcome took, where it was measured.
pub(crate) struct Measured {
    timing: Timing,
    device_s: Option<f64>,
}

/// One machine with its accounts.
pub struct Guest {
    machine: Box<dyn Machine>,
    question: Rc<QuestionRow>,
    gold: Rc<Answerable>,
    configuration: u32,
    company: Arc<Company>,
    mode: Mode,
    /// What answers are read by: of each run of requests that are read alike the first, and how many there are. A round has
    /// hundreds of requests, a sweep thousands of rounds at once, and payloads are needed no more once they are sent.
    asked: Vec<(Request, usize)>,
    /// Of what was asked, where it is timed alone.
    keys: Vec<Key>,
    /// Whose device time is counted: a key that is asked again is not computed again.
    charged: BTreeSet<Key>,
    needs: Needs,
    rounds: u32,
    /// When it was first stepped.
    begun: Option<Instant>,
    service_us: u64,
    queue_us: u64,
    device_us: u64,
    payload: Vec<u8>,
}

impl Guest {
    /// Takes a round's responses into the accounts, and makes them what the machine reads.
    fn receive(&mut self, responses: Vec<Rc<Served>>) -> Vec<Response> {
        // Requests of a round run beside each other, so the round takes as long as its slowest.
        self.service_us += responses.iter().map(|served| served.service_us).max().unwrap_or(0);
        self.queue_us += responses.iter().map(|served| served.queue_us).max().unwrap_or(0);
        for (key, served) in std::mem::take(&mut self.keys).into_iter().zip(&responses) {
            if self.charged.insert(key) {
                self.device_us += served.device_us;
            }
        }
        let catalogue = &self.company.catalogue;
        let asked = std::mem::take(&mut self.asked);
        let each = asked.iter().flat_map(|(request, count)| std::iter::repeat_n(request, *count));
        each.zip(responses)
            .map(|(request, served)| {
                self.needs.add(request, &served.response);
                let mut response = own(&served.response, request);
                if request.wants_text() {
                    read_texts(catalogue, &mut response);
                }
                response
            })
            .collect()
    }

    fn finish(&mut self, outcome: Outcome) -> Rc<Finished> {
        let seconds = |us: u64| us as f64 / 1e6;
        let timing = Timing {
            service_s: seconds(self.service_us),
            queue_s: seconds(self.queue_us),
            wall_s: self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
        };
        let measured = Measured { timing, device_s: (self.device_us > 0).then(|| seconds(self.device_us)) };
        let needs = std::mem::take(&mut self.needs);
        let row = outcome_row(self.configuration, &self.question, outcome, self.rounds, needs, Some(measured));
        Rc::new(Finished { question: Rc::clone(&self.gold), row })
    }
}

/// Counts a request in the run of those before it, or begins another.
fn remember(runs: &mut Vec<(Request, usize)>, request: &Request) {
    match runs.last_mut() {
        Some((first, count)) if are_read_alike(first, request) => *count += 1,
        _ => runs.push((request.clone(), 1)),
    }
}

/// Whether [`own`], [`read_texts`] and [`Needs::add`] do the same with the answers to both.
fn are_read_alike(a: &Request, b: &Request) -> bool {
    fn temperatures(request: &Request) -> Option<&[f64]> {
        match &request.ask {
            Ask::Score(score) => Some(&score.temperatures),
            _ => None,
        }
    }
    let kind = |request: &Request| (request.ask.kind(), request.wants_text());
    a.service == b.service && kind(a) == kind(b) && temperatures(a) == temperatures(b)
}

/// Fills in the texts of the passages that an answer names.
pub fn read_texts(catalogue: &Catalogue, response: &mut Response) {
    let Ok(answer) = &response.result else { return };
    let corpus = &catalogue.corpus;
    let text = |id: Asked| {
        let passage = PassageId(id.0);
        PassageText { passage: id, title: corpus.title(passage).to_owned(), text: corpus.text(passage).to_owned() }
    };
    response.passages = answer.passages().into_iter().map(text).collect();
}

/// The table row of an outcome.
pub(crate) fn outcome_row(
    configuration: u32,
    question: &QuestionRow,
    outcome: Outcome,
    rounds: u32,
    needs: Needs,
    measured: Option<Measured>,
) -> OutcomeRow {
    let Needs { calls, retrieved } = needs;
    let (timing, device_s) = measured.map_or((None, None), |measured| (Some(measured.timing), measured.device_s));
    let message = match &outcome.status {
        hopeval_methods::Status::Ok => None,
        hopeval_methods::Status::Failed(failure) => Some(failure.message.clone()),
    };
    OutcomeRow {
        configuration,
        index: question.index,
        question: question.id.clone(),
        status: outcome.status.name().to_owned(),
        message,
        answer: outcome.answer,
        ranked: outcome.ranked.iter().map(|ranked| ranked.passage.0).collect(),
        scores: outcome.ranked.iter().map(|ranked| ranked.score).collect(),
        paths: outcome.paths.iter().map(|p| (p.passages.iter().map(|id| id.0).collect(), p.score)).collect(),
        supporting: outcome.supporting.iter().map(|s| (s.passage.0, s.sentence)).collect(),
        evidences: outcome.evidences,
        iterations: outcome.iterations,
        rounds,
        calls: calls.into_values().collect(),
        timing,
        retrieved: Some(retrieved),
        device_s,
    }
}

impl Hosted for Guest {
    type Request = Request;
    type Response = Served;
    type Outcome = Rc<Finished>;

    fn step(&mut self, responses: Vec<Rc<Served>>) -> Turn<Request, Rc<Finished>> {
        self.begun.get_or_insert_with(Instant::now);
        let responses = self.receive(responses);
        match self.machine.step(responses) {
            Step::Done(outcome) => Turn::Done(self.finish(outcome)),
            Step::Ask(requests) => {
                self.rounds += 1;
                let company = Arc::clone(&self.company);
                let asked = requests.into_iter().map(|request| {
                    let key = key(&request, &company.catalogue, &mut self.payload);
                    // Shares of a batch are a machine's own only where nobody else is in it.
                    if self.mode == Mode::Latency {
                        self.keys.push(key);
                    }
                    remember(&mut self.asked, &request);
                    drive::Asked { key, bucket: bucket(&request, &key), request: company.sent(request) }
                });
                Turn::Ask(asked.collect())
            }
        }
    }
}
