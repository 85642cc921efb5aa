//! Rehearses a run: drives some of its questions with invented answers, for the requests of rounds that no machine has
//! reached yet.
//!
//! All questions of a small run go through their rounds together, so nothing real is known of late rounds before most
//! of the time has passed. What is rehearsed counts as little as two questions, and gives way to what happens.

use super::demand::{RoundRequests, RoundTable, serialize_rounds};
use super::machines::{RunConfigurations, machine_question};
use crate::services::key::request_key;
use crate::services::replies::{own_response, read_texts};
use hopeval_methods::{MachineStep, Method, Question};
use hopeval_operators::RequestKey;
use hopeval_results::tables::QuestionRow;
use serde::Serialize;
use std::collections::BTreeSet;

/// Questions rehearsed at most.
pub const REHEARSED: usize = 8;

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
        let question = machine_question(row);
        let blind = Question { gold: Vec::new(), answers: Vec::new(), ..question.clone() };
        let start = |method: &Box<dyn Method>| {
            let mut machine = method.start(if method.reads_gold() { &question } else { &blind });
            let step = machine.step(Vec::new());
            (machine, step)
        };
        let mut machines: Vec<_> = configurations.methods.iter().map(start).map(Some).collect();
        let (mut known, mut payload) = (BTreeSet::new(), Vec::new());
        for round in 1..=MOST_ROUNDS {
            for (configuration, slot) in machines.iter_mut().enumerate() {
                let Some((mut machine, step)) = slot.take() else { continue };
                let configuration = configuration as u32;
                let MachineStep::Ask(requests) = step else {
                    self.rounds.entry((configuration, round - 1)).or_default().ended += 1;
                    continue;
                };
                let catalogue = &configurations.catalogue;
                let counts = self.rounds.entry((configuration, round)).or_default();
                counts.reached += 1;
                let mut responses = Vec::with_capacity(requests.len());
                for request in &requests {
                    let mut response = own_response(&catalogue.estimate(request), request);
                    let work = &response.work;
                    let tokens = work.prompt_tokens + work.completion_tokens + work.scored_tokens;
                    let key: RequestKey = request_key(request, catalogue, &mut payload);
                    let sent = u64::from(known.insert(key));
                    counts.add(&request.service, RoundRequests { sent, answered: 1, tokens, busy_us: 0 });
                    if request.wants_text() {
                        read_texts(&catalogue.corpus, &mut response);
                    }
                    responses.push(response);
                }
                let step = machine.step(responses);
                *slot = Some((machine, step));
            }
        }
        self.questions += 1;
    }
}
