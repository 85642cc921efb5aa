//! Makes table rows of outcomes, with their usage and timing.

use crate::run::evaluator::QuestionGold;
use hopeval_methods::{Answer, Outcome, Request, RequestKind, Response, ServiceName};
use hopeval_results::tables::{CallRow, OutcomeRow, QuestionRow, Timing};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A finished question of a configuration, with its gold.
pub struct FinishedOutcome {
    /// The question's gold.
    pub question: Rc<QuestionGold>,
    /// Its outcome.
    pub row: OutcomeRow,
}

/// The usage of an outcome, shared work included.
#[derive(Debug, Default)]
pub(crate) struct OutcomeUsage {
    calls: BTreeMap<(ServiceName, RequestKind), CallRow>,
    /// Retrieved passages, repeats included.
    retrieved: u64,
}

impl OutcomeUsage {
    /// Adds an answered request.
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

/// The timing of an outcome.
pub(crate) struct OutcomeTiming {
    pub(crate) timing: Timing,
    pub(crate) device_s: Option<f64>,
}

/// The table row of an outcome.
pub(crate) fn outcome_row(
    configuration: u32,
    question: &QuestionRow,
    outcome: Outcome,
    rounds: u32,
    usage: OutcomeUsage,
    measured: Option<OutcomeTiming>,
) -> OutcomeRow {
    let OutcomeUsage { calls, retrieved } = usage;
    let (timing, device_s) = measured.map_or((None, None), |measured| (Some(measured.timing), measured.device_s));
    let message = match &outcome.status {
        hopeval_methods::OutcomeStatus::Ok => None,
        hopeval_methods::OutcomeStatus::Failed(failure) => Some(failure.message.clone()),
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
