//! What a job would do: questions, requests as far as they are known, bytes, journal hits.
//!
//! Machines are deterministic, so the requests of their first round are known without asking anything, and a sample
//! of questions driven here tells how many rounds and requests to expect.

use crate::choices;
use crate::error::JobError;
use crate::job::Job;
use crate::job::sweep;
use crate::prepare::corpora::Report;
use crate::prepare::questions;
use crate::run::Places;
use crate::run::machines::{self, key, question};
use crate::services::Catalogue;
use hopeval_methods::{ContextMode, Request, Setting, Step, Work};
use hopeval_results::{Journal, layout};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What a job would do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    /// Questions after limit and quarantine.
    pub questions: u64,
    /// Rows that would be set aside.
    pub quarantined: u64,
    /// Configurations.
    pub configurations: u64,
    /// Outcomes.
    pub outcomes: u64,
    /// Passages.
    pub passages: u64,
    /// Bytes of the mapped indexes, also of those that a run will build.
    pub index_bytes: u64,
    /// Passages that a run embeds before it begins, by the service whose dense index is not there.
    pub passages_to_embed: BTreeMap<String, u64>,
    /// Requests of the first rounds, by (service, kind): asked, distinct, and already in the journal.
    pub first_round: BTreeMap<String, Requests>,
    /// Requests of all rounds, estimated from a sample of questions that was driven through.
    pub estimated: BTreeMap<String, u64>,
    /// Their tokens, where a model reads or writes any: of real prompts, after answers that are guessed. Nothing is computed.
    pub estimated_tokens: BTreeMap<String, Tokens>,
    /// Questions of the sample.
    pub sample: u64,
    /// Entries of the store's journal.
    pub journal_entries: u64,
}

/// Requests of one service and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// As machines ask them.
    pub asked: u64,
    /// Different ones.
    pub unique: u64,
    /// Different ones that the journal answers.
    pub journalled: u64,
}

/// Tokens of one service and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Of prompts.
    pub prompt: u64,
    /// Written, if every continuation is as long as it may be.
    pub completion: u64,
    /// Of targets.
    pub scored: u64,
}

/// Questions that are driven through to estimate later rounds.
const SAMPLE: u64 = 32;

/// Plans `job`: builds its corpus and its indexes of words, and asks nothing else; a dense index that is not there is not
/// built, and what it would answer is drawn. With `quarantine`, bad rows are written to that
/// file as a run would.
///
/// # Errors
/// What `run` would fail with before it starts.
pub fn plan(job: &Job, places: &Places, quarantine: Option<&Path>, report: Report<'_>) -> Result<Plan, JobError> {
    let mut job = job.clone();
    places.cache.world(&mut job, report)?;
    let job = &job;
    let (corpus, _) = places.cache.find_corpus(job, quarantine.is_some(), report)?;
    let engines = places.cache.engines(job, &corpus, places.threads, report)?;
    let catalogue = Catalogue::new(Arc::clone(&corpus), engines, &job.service);
    let dense = catalogue.look(report)?;
    let setting = Setting { passages: corpus.len() as u32 };
    let mut configurations = sweep::configurations(job);
    let mut watch = choices::resolve(job, &mut configurations, places, report)?.watch;
    let methods = sweep::methods(&configurations, &setting)?;
    let mut candidates_needed = false;
    for (configuration, method) in configurations.iter().zip(&methods) {
        catalogue.check(&configuration.name, method.as_ref())?;
        candidates_needed |= method.context_mode() == ContextMode::Given;
    }
    let journal = Journal::open(&places.store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new())?;
    let mut plan = Plan {
        configurations: configurations.len() as u64,
        passages: corpus.len() as u64,
        index_bytes: places.cache.index_bytes(job, corpus.digest())
            + dense.values().map(|dense| dense.bytes).sum::<u64>(),
        passages_to_embed: dense
            .into_iter()
            .map(|(name, dense)| (name, dense.passages_to_embed))
            .filter(|(_, passages)| *passages > 0)
            .collect(),
        journal_entries: journal.len() as u64,
        ..Plan::default()
    };
    let mut seen = BTreeSet::new();
    let mut payload = Vec::new();
    let mut sampled: BTreeMap<String, u64> = BTreeMap::new();
    let mut tokens: BTreeMap<String, Work> = BTreeMap::new();
    let (prepared, _) = questions::prepare(job, &corpus, candidates_needed, quarantine, &mut |row| {
        watch.see_row(&row);
        let question = question(&row);
        for method in &methods {
            let mut machine = method.start(&question);
            let mut step = machine.step(Vec::new());
            let mut first = true;
            while let Step::Ask(requests) = step {
                for request in &requests {
                    let name = format!("{} {}", request.service, request.ask.kind().name());
                    if first {
                        let counts = plan.first_round.entry(name.clone()).or_default();
                        counts.asked += 1;
                        let key = key(request, &catalogue, &mut payload);
                        if seen.insert(key) {
                            counts.unique += 1;
                            counts.journalled += u64::from(journal.locate(&hopeval_results::Key(key.0)).is_some());
                        }
                    }
                    if row.index < SAMPLE {
                        *sampled.entry(name).or_default() += 1;
                    }
                }
                if row.index >= SAMPLE {
                    break;
                }
                first = false;
                let answer = |request: &Request| {
                    let mut response = catalogue.estimate(request);
                    let name = format!("{} {}", request.service, request.ask.kind().name());
                    let Work { prompt_tokens, completion_tokens, scored_tokens, .. } = response.work;
                    let sum = tokens.entry(name).or_default();
                    *sum += Work { prompt_tokens, completion_tokens, scored_tokens, operations: 0 };
                    machines::read_texts(&catalogue, &mut response);
                    response
                };
                step = machine.step(requests.iter().map(answer).collect());
            }
        }
        Ok(())
    })?;
    watch.check()?;
    plan.questions = prepared.questions;
    plan.quarantined = prepared.quarantined;
    plan.outcomes = plan.questions * plan.configurations;
    plan.sample = SAMPLE.min(plan.questions);
    let scaled = |n: u64| n * plan.questions / plan.sample;
    plan.estimated = sampled.into_iter().map(|(name, n)| (name, scaled(n))).collect();
    let of_models = tokens.into_iter().filter(|(_, work)| *work != Work::default());
    plan.estimated_tokens = of_models
        .map(|(name, work)| {
            let Work { prompt_tokens: prompt, completion_tokens: completion, scored_tokens: scored, .. } = work;
            (name, Tokens { prompt: scaled(prompt), completion: scaled(completion), scored: scaled(scored) })
        })
        .collect();
    Ok(plan)
}
