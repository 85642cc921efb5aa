//! Plans a job: counts its questions, its requests as far as they are known, bytes, journal hits.
//!
//! Machines are deterministic, so the requests of their first round are known without any answers. A sample of
//! questions driven here gives an estimate of the later rounds and requests.

pub mod races;

use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::job::file::Job;
use crate::places::Places;
use crate::prepare::opening::{ConfiguredJob, OpenedJob};
use crate::prepare::questions::{self, PreparationSummary};
use crate::run::machines::MachineQuestions;
use crate::services::ServiceEntry;
use crate::services::catalogue::Catalogue;
use crate::services::key::request_key;
use crate::services::record::AnswerRecord;
use crate::services::replies::{own_response, read_texts};
use crate::services::service::IndexState;
use hopeval_endpoint::{PriceSettings, TokenUsage};
use hopeval_methods::{AnswerWork, MachineStep, Method, Question, Request, Response};
use hopeval_operators::RequestKey;
use hopeval_results::{AnswerLocation, Journal, layout};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The size of a job: counts and estimates.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobPlan {
    /// Questions after limit and quarantine.
    pub questions: u64,
    /// Rows to be set aside.
    pub quarantined: u64,
    /// Configurations.
    pub configurations: u64,
    /// Outcomes.
    pub outcomes: u64,
    /// Passages.
    pub passages: u64,
    /// Bytes of the mapped indexes, including those a run has yet to build.
    pub index_bytes: u64,
    /// Passages to embed before the run begins, by service, for missing dense indexes.
    pub passages_to_embed: BTreeMap<String, u64>,
    /// Requests of the first rounds, by (service, kind): asked, distinct, and already in the journal.
    pub first_round: BTreeMap<String, RequestCounts>,
    /// Requests of all rounds, estimated from a sample of questions driven to their ends.
    pub estimated: BTreeMap<String, u64>,
    /// Requests of all rounds of the sample itself.
    pub sampled: BTreeMap<String, RequestCounts>,
    /// The services and kinds some of whose requests follow answers of models that were guessed: a run may make more of
    /// them, or fewer. The others follow true answers.
    pub guessed: BTreeSet<String>,
    /// Their tokens, for models, of each request as asked: equal ones are computed once. The prompts are real; the
    /// answers before them come from the journal, or are guessed. Nothing is computed.
    pub estimated_tokens: BTreeMap<String, TokenCounts>,
    /// Their money by the prices of endpoints, as the tokens: at most.
    pub estimated_money: BTreeMap<String, MoneyEstimate>,
    /// Questions of the sample.
    pub sample: u64,
    /// Entries of the store's journal.
    pub journal_entries: u64,
}

/// Requests of one service and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// As machines ask them.
    pub asked: u64,
    /// Different ones.
    pub unique: u64,
    /// Different ones with an answer in the journal.
    pub journalled: u64,
}

/// Tokens of one service and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenCounts {
    /// Of prompts.
    pub prompt: u64,
    /// Written, if every continuation is as long as it may be.
    pub completion: u64,
    /// Of targets.
    pub scored: u64,
}

/// Money of one service and kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MoneyEstimate {
    /// In the currency's unit.
    pub money: f64,
    /// The currency.
    pub currency: String,
}

/// Questions driven to their ends to estimate later rounds.
const SAMPLE: u64 = 32;

/// Plans `job`: builds its corpus and its indexes of words. It does not build missing dense indexes, but draws their
/// answers at random. With `quarantine`, bad rows are written to this file as by a run.
///
/// # Errors
/// As `run` before it starts.
pub fn plan_job(
    job: &Job,
    places: &Places,
    quarantine: Option<&Path>,
    report: ProgressReporter<'_>,
) -> Result<JobPlan, JobError> {
    let opened = OpenedJob::open(job, &places.cache, places.threads, quarantine.is_some(), report)?;
    let ConfiguredJob { configurations, methods, mut overlap, mut rankings, needs_candidates, indexes, .. } =
        ConfiguredJob::new(&opened, places, report)?;
    let journal = Journal::open(&places.store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new())?;
    let passages_to_embed = indexes.iter().map(|(name, index)| (name.clone(), index.passages_to_embed));
    let plan = JobPlan {
        configurations: configurations.len() as u64,
        passages: opened.corpus().len() as u64,
        index_bytes: indexes.values().map(|index| index.bytes).sum(),
        passages_to_embed: passages_to_embed.filter(|(_, passages)| *passages > 0).collect(),
        journal_entries: journal.len() as u64,
        ..JobPlan::default()
    };
    let guessing = guessing_services(&opened.catalogue, &indexes);
    let mut planner = JobPlanner::new(&opened.catalogue, &journal, &guessing, plan);
    let (prepared, _) =
        questions::prepare_questions(&opened.job, opened.corpus(), needs_candidates, quarantine, &mut |mut row| {
            overlap.see_row(&row);
            rankings.fill_row(opened.corpus(), &mut row)?;
            let questions = MachineQuestions::new(&row);
            for method in &methods {
                let question = questions.for_method(method.as_ref());
                planner.drive_question(method.as_ref(), &question, row.index < SAMPLE);
            }
            Ok(())
        })?;
    overlap.refuse_overlap()?;
    rankings.counts()?;
    Ok(planner.into_plan(&prepared, job))
}

/// Drives machines without computing anything, and counts their requests.
struct JobPlanner<'a> {
    catalogue: &'a Catalogue,
    journal: &'a Journal,
    plan: JobPlan,
    /// Keys of the first rounds.
    seen: BTreeSet<RequestKey>,
    payload: Vec<u8>,
    /// Keys of all rounds of the sample.
    sampled: BTreeSet<RequestKey>,
    /// Services whose answers are guessed if the journal has none.
    guessing: &'a BTreeSet<String>,
    /// Their tokens.
    tokens: BTreeMap<String, AnswerWork>,
}

/// The services with a model whose answers a plan cannot compute: models that answer requests themselves, and indexes
/// of vectors that are not made yet.
fn guessing_services(catalogue: &Catalogue, indexes: &BTreeMap<String, IndexState>) -> BTreeSet<String> {
    let is_made = |name: &str| indexes.get(name).is_some_and(|index| index.passages_to_embed == 0);
    let models = catalogue.infos().filter(|(name, info)| info.has_model && !is_made(name));
    models.map(|(name, _)| name.to_string()).collect()
}

/// The service and the kind of a request, as named in plans.
fn request_name(request: &Request) -> String {
    format!("{} {}", request.service, request.ask.kind().name())
}

impl<'a> JobPlanner<'a> {
    fn new(catalogue: &'a Catalogue, journal: &'a Journal, guessing: &'a BTreeSet<String>, plan: JobPlan) -> Self {
        Self {
            catalogue,
            journal,
            plan,
            seen: BTreeSet::new(),
            payload: Vec::new(),
            sampled: BTreeSet::new(),
            guessing,
            tokens: BTreeMap::new(),
        }
    }

    /// Drives one question through its first round, and to its end if it belongs to the sample.
    fn drive_question(&mut self, method: &dyn Method, question: &Question, is_sampled: bool) {
        let mut machine = method.start(question);
        let MachineStep::Ask(first) = machine.step(Vec::new()) else { return };
        self.count_first(&first);
        let (mut step, mut is_guess) = (MachineStep::Ask(first), false);
        while is_sampled && let MachineStep::Ask(requests) = step {
            if is_guess {
                self.plan.guessed.extend(requests.iter().map(request_name));
            }
            step = machine.step(self.estimate_round(&requests, &mut is_guess));
        }
    }

    /// Counts the requests of a first round, and those with an answer in the journal.
    fn count_first(&mut self, requests: &[Request]) {
        for request in requests {
            let key = request_key(request, self.catalogue, &mut self.payload);
            let counts = self.plan.first_round.entry(request_name(request)).or_default();
            counts.asked += 1;
            if self.seen.insert(key) {
                counts.unique += 1;
                counts.journalled += u64::from(self.journal.locate(&hopeval_results::JournalKey(key.0)).is_some());
            }
        }
    }

    /// Counts the requests of a round of the sample, and finds their responses in the journal or invents them.
    /// `is_guess` becomes true if a model's response is invented.
    fn estimate_round(&mut self, requests: &[Request], is_guess: &mut bool) -> Vec<Response> {
        let located = requests.iter().map(|request| self.count_sampled(request)).collect::<Vec<_>>();
        let mut journalled = self.journal.read(&located.iter().flatten().copied().collect::<Vec<_>>()).into_iter();
        let mut responses = Vec::with_capacity(requests.len());
        for (request, location) in requests.iter().zip(located) {
            let bytes = location.and_then(|_| journalled.next()?.ok());
            let record = bytes.and_then(|bytes| AnswerRecord::from_bytes(&bytes));
            let known = record.map(|record| record.response).filter(|response| response.satisfies(request));
            *is_guess |= known.is_none() && self.guessing.contains(request.service.0.as_ref());
            let mut response =
                known.map_or_else(|| self.catalogue.estimate(request), |response| own_response(&response, request));
            *self.tokens.entry(request_name(request)).or_default() += AnswerWork { operations: 0, ..response.work };
            read_texts(&self.catalogue.corpus, &mut response);
            responses.push(response);
        }
        responses
    }

    /// Counts a request of the sample, and returns the place of its answer in the journal.
    fn count_sampled(&mut self, request: &Request) -> Option<AnswerLocation> {
        let key = request_key(request, self.catalogue, &mut self.payload);
        let location = self.journal.locate(&hopeval_results::JournalKey(key.0));
        let counts = self.plan.sampled.entry(request_name(request)).or_default();
        counts.asked += 1;
        if self.sampled.insert(key) {
            counts.unique += 1;
            counts.journalled += u64::from(location.is_some());
        }
        location
    }

    /// The plan, with the sample's counts scaled to all questions.
    fn into_plan(self, prepared: &PreparationSummary, job: &Job) -> JobPlan {
        let Self { mut plan, tokens, .. } = self;
        let priced =
            |(name, service): (&String, &ServiceEntry)| Some((name.clone(), service.settings().price()?.clone()));
        let prices: BTreeMap<String, PriceSettings> = job.service.iter().filter_map(priced).collect();
        plan.questions = prepared.questions;
        plan.quarantined = prepared.quarantined;
        plan.outcomes = plan.questions * plan.configurations;
        plan.sample = SAMPLE.min(plan.questions);
        let scaled = |n: u64| n * plan.questions / plan.sample;
        plan.estimated = plan.sampled.iter().map(|(name, counts)| (name.clone(), scaled(counts.asked))).collect();
        let of_models = tokens.into_iter().filter(|(_, work)| *work != AnswerWork::default());
        plan.estimated_tokens = of_models
            .map(|(name, work)| {
                let AnswerWork { prompt_tokens: prompt, completion_tokens: completion, scored_tokens: scored, .. } =
                    work;
                (name, TokenCounts { prompt: scaled(prompt), completion: scaled(completion), scored: scaled(scored) })
            })
            .collect();
        plan.estimated_money = plan
            .estimated_tokens
            .iter()
            .filter_map(|(name, tokens)| {
                let price = prices.get(name.split_once(' ')?.0)?;
                let requests = plan.estimated.get(name).copied().unwrap_or_default();
                let (prompt, completion) = (tokens.prompt + tokens.scored, tokens.completion);
                let usage = TokenUsage { prompt, completion, ..TokenUsage::default() };
                let money = price.price_of(&usage, requests);
                Some((name.clone(), MoneyEstimate { money, currency: price.currency.clone() }))
            })
            .collect();
        plan
    }
}
