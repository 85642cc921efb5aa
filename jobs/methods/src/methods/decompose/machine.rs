//! The machine of `decompose`.

use super::DecomposeSettings;
use super::parameters::DecomposeMode;
use super::questions::{fill_references, listed_questions};
use crate::machine::{Machine, MachineStep};
use crate::outcome::Outcome;
use crate::ranking;
use crate::reply_prompt;
use crate::request::{PassageId, Request, RetrievePayload};
use crate::response::{Failure, FailureKind, Response};
use std::sync::Arc;

/// One question.
pub(super) struct DecomposeMachine {
    settings: Arc<DecomposeSettings>,
    question: String,
    /// The single-hop questions; in the sequential mode with references until they are retrieved with.
    questions: Vec<String>,
    /// The passages of each single-hop question so far.
    retrieved: Vec<Vec<PassageId>>,
    /// The answers of single-hop questions so far, in the sequential mode.
    answers: Vec<String>,
    /// The trace.
    outcome: Outcome,
    state: DecomposeState,
}

enum DecomposeState {
    Start,
    /// Waits for a list, after so many replies of no use.
    Decomposed(u32),
    Retrieved,
    /// Waits for an answer, after so many replies of no use.
    Answered(u32),
}

impl Machine for DecomposeMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match self.state {
            DecomposeState::Start => Ok(self.decompose(0)),
            DecomposeState::Decomposed(asked) => self.decomposed(asked, responses),
            DecomposeState::Retrieved => self.retrieved(responses),
            DecomposeState::Answered(asked) => self.answered(asked, responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl DecomposeMachine {
    pub(super) fn new(settings: Arc<DecomposeSettings>, question: String) -> Self {
        Self {
            settings,
            question,
            questions: Vec::new(),
            retrieved: Vec::new(),
            answers: Vec::new(),
            outcome: Outcome::default(),
            state: DecomposeState::Start,
        }
    }

    /// Asks for a list, after `asked` replies of no use.
    fn decompose(&mut self, asked: u32) -> MachineStep {
        self.state = DecomposeState::Decomposed(asked);
        let prompt = &self.settings.decomposition;
        let request = prompt.request("decomposition", asked, |_, builder| builder.text(&self.question));
        MachineStep::Ask(vec![request])
    }

    fn decomposed(&mut self, asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let DecomposeSettings { parameters, decomposition, .. } = &*self.settings;
        let text = Response::only(responses)?.generation()?.text;
        let Some(mut questions) = parameters.answer_json.find(&text, listed_questions) else {
            return match decomposition.last_failure(asked, "a list under `decomposed_questions`") {
                Some(failure) => Err(failure),
                None => Ok(self.decompose(asked + 1)),
            };
        };
        questions.truncate(parameters.most_questions as usize);
        self.outcome.iterations = questions.len() as u32;
        self.questions = questions;
        Ok(match parameters.mode {
            DecomposeMode::Sequential => self.retrieve_next(),
            DecomposeMode::Parallel => {
                let questions = std::mem::take(&mut self.questions);
                questions.iter().for_each(|question| self.outcome.add_note("sub_question", question));
                self.retrieve(questions)
            }
        })
    }

    fn retrieve(&mut self, queries: Vec<String>) -> MachineStep {
        self.state = DecomposeState::Retrieved;
        let parameters = &self.settings.parameters;
        let request = |query| Request::new(&parameters.retriever, RetrievePayload::new(query, parameters.k));
        MachineStep::Ask(queries.into_iter().map(request).collect())
    }

    /// Retrieves with the next single-hop question of the sequential mode.
    fn retrieve_next(&mut self) -> MachineStep {
        let next = &mut self.questions[self.answers.len()];
        *next = fill_references(next, &self.answers);
        let query = next.clone();
        self.outcome.add_note("sub_question", &query);
        self.retrieve(vec![query])
    }

    fn retrieved(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let wanted = match self.settings.parameters.mode {
            DecomposeMode::Parallel => self.outcome.iterations as usize,
            DecomposeMode::Sequential => 1,
        };
        if responses.len() != wanted {
            let message = "a request has no response".to_owned();
            return Err(Failure { kind: FailureKind::Dropped, message });
        }
        for response in responses {
            let ranked = ranking::from_hits(response.hits()?, self.settings.parameters.k);
            self.retrieved.push(ranked.into_iter().map(|entry| entry.passage).collect());
        }
        Ok(self.answer(0))
    }

    /// The single-hop question that is to be answered; `None` for the question itself.
    fn single_hop(&self) -> Option<&String> {
        self.questions.get(self.answers.len())
    }

    /// Asks for an answer, after `asked` replies of no use.
    fn answer(&mut self, asked: u32) -> MachineStep {
        self.state = DecomposeState::Answered(asked);
        let DecomposeSettings { reader, lines, .. } = &*self.settings;
        let (step, question, passages) = match self.single_hop() {
            Some(question) => ("sub_reader", question, self.retrieved.last().cloned().unwrap_or_default()),
            None => {
                let all = ranking::by_position(self.retrieved.iter().flatten().copied());
                ("reader", &self.question, all.into_iter().map(|entry| entry.passage).collect())
            }
        };
        let request = reader.request(step, asked, |field, builder| match field {
            "knowledge" => lines.append_to(builder, &passages),
            "answered" => self.questions.iter().zip(&self.answers).for_each(|(question, answer)| {
                let answer = serde_json::Value::from(answer.as_str());
                builder.text(&format!("Question: {question}\nAnswer: {{\"answer\": {answer}}}\n"));
            }),
            _ => builder.text(question),
        });
        MachineStep::Ask(vec![request])
    }

    fn answered(&mut self, asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        let rule = self.settings.parameters.answer_json;
        let Some(answer) = rule.find(&text, |value| reply_prompt::short_text(value, "answer")) else {
            return match self.settings.reader.last_failure(asked, "the key `answer`") {
                Some(failure) => Err(failure),
                None => Ok(self.answer(asked + 1)),
            };
        };
        if self.single_hop().is_none() {
            return Ok(self.finish(answer));
        }
        self.outcome.add_note("sub_answer", &answer);
        self.answers.push(answer);
        Ok(if self.single_hop().is_some() { self.retrieve_next() } else { self.answer(0) })
    }

    fn finish(&mut self, answer: String) -> MachineStep {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.answer = Some(answer);
        outcome.ranked = ranking::by_position(self.retrieved.iter().flatten().copied());
        outcome.paths = ranking::paths_by_position(std::mem::take(&mut self.retrieved));
        MachineStep::Done(outcome)
    }
}
