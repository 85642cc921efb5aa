//! Rehearses a run: drives some of its questions with invented answers, for the requests of rounds that no machine has
//! reached yet.
//!
//! All questions of a small run go through their rounds together, so nothing real is known of late rounds before most
//! of the time has passed. What is rehearsed counts as little as two questions, and gives way to what happens.
//!
//! The invented answers of plans let a question go on for as long as it may. Here a model's decision to go on is a
//! coin: the bits of a question's number, so that few questions try all combinations.

use super::demand::{RoundRequests, RoundTable, serialize_rounds};
use super::machines::{MachineQuestions, RunConfigurations};
use crate::services::key::request_key;
use crate::services::replies::{own_response, read_texts};
use hopeval_methods::{Answer, MachineStep, Method, Request, RequestPayload, Response};
use hopeval_results::tables::QuestionRow;
use serde::Serialize;
use std::collections::BTreeMap;

/// Questions rehearsed at most.
pub const REHEARSED: usize = 4;

/// Rounds after which a machine is left: invented answers might lead it on for ever.
const MOST_ROUNDS: u32 = 64;

/// The rounds of some questions, as far as they can be guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RehearsedRounds {
    /// Questions driven to their ends.
    pub questions: u64,
    /// Their rounds. All requests count as answered; their service time is unknown.
    #[serde(serialize_with = "serialize_rounds")]
    pub rounds: RoundTable,
}

impl RehearsedRounds {
    /// Drives a question under all configurations together, as a run does: a request that two make is sent once.
    pub fn drive_question(&mut self, configurations: &RunConfigurations, row: &QuestionRow) {
        let questions = MachineQuestions::new(row);
        let start = |method: &dyn Method| {
            let mut machine = method.start(&questions.for_method(method));
            let step = machine.step(Vec::new());
            (machine, step)
        };
        let begun: Vec<_> = configurations.methods.iter().map(|method| start(method.as_ref())).collect();
        let mut machines: Vec<_> = begun.into_iter().map(|(machine, step)| Some((machine, step, 0))).collect();
        let catalogue = &configurations.catalogue;
        let (mut known, mut payload) = (BTreeMap::new(), Vec::new());
        for round in 1..=MOST_ROUNDS {
            for (configuration, slot) in machines.iter_mut().enumerate() {
                let Some((mut machine, step, decisions)) = slot.take() else { continue };
                let configuration = configuration as u32;
                let MachineStep::Ask(requests) = step else {
                    self.rounds.entry((configuration, round - 1)).or_default().ended += 1;
                    continue;
                };
                let goes_on = (self.questions >> decisions) & 1 == 0;
                let counts = self.rounds.entry((configuration, round)).or_default();
                counts.reached += 1;
                let mut responses = Vec::with_capacity(requests.len());
                for request in &requests {
                    let key = request_key(request, catalogue, &mut payload);
                    let (mut sent, mut tokens) = (0, 0);
                    let invented: &Response = known.entry(key).or_insert_with(|| {
                        sent = 1;
                        let response = tempered(catalogue.estimate(request), request, goes_on);
                        let work = &response.work;
                        tokens = work.prompt_tokens + work.completion_tokens + work.scored_tokens;
                        response
                    });
                    counts.add(&request.service, RoundRequests { sent, answered: sent, tokens, busy_us: 0 });
                    let mut response = own_response(invented, request);
                    if request.wants_text() {
                        read_texts(&catalogue.corpus, &mut response);
                    }
                    responses.push(response);
                }
                let decides = requests.iter().any(|request| matches!(request.ask, RequestPayload::Label(_)));
                let step = machine.step(responses);
                *slot = Some((machine, step, decisions + u32::from(decides)));
            }
        }
        self.questions += 1;
    }
}

/// An invented answer with another decision: labels stop a question unless it `goes_on`, and a filter's next query is
/// as long as the query before.
fn tempered(mut response: Response, request: &Request, goes_on: bool) -> Response {
    match (&mut response.result, &request.ask) {
        (Ok(Answer::Label(labels)), _) if !goes_on => {
            let stops = |(tag, logit): (usize, &mut f32)| *logit = if tag == 1 { 1.0 } else { 0.0 };
            labels.tag_logits.iter_mut().enumerate().for_each(stops);
        }
        (Ok(Answer::Filter(next)), RequestPayload::Filter(filter)) => {
            let words: Vec<&str> = next.split_whitespace().collect();
            let kept = words.len().min(filter.query.split_whitespace().count());
            *next = words[words.len() - kept..].join(" ");
        }
        _ => {}
    }
    response
}
