//! The machine of `iter_retgen`.

use super::IterRetGenSettings;
use super::parameters::{GenerationPart, QueryOrder, ReplyForm};
use crate::machine::{Machine, MachineStep};
use crate::outcome::Outcome;
use crate::ranking;
use crate::reply_prompt;
use crate::request::{PassageId, Request, RetrievePayload};
use crate::response::{Failure, Response};
use std::sync::Arc;

/// One question.
pub(super) struct IterRetGenMachine {
    settings: Arc<IterRetGenSettings>,
    question: String,
    /// The passages of each iteration so far.
    retrieved: Vec<Vec<PassageId>>,
    /// The trace.
    outcome: Outcome,
    state: IterRetGenState,
}

enum IterRetGenState {
    Start,
    Retrieved,
    /// Waits for a reply, after so many of no use.
    Written(u32),
}

/// A reply, read.
struct ReadReply {
    thought: String,
    answer: String,
}

impl Machine for IterRetGenMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match self.state {
            IterRetGenState::Start => Ok(self.retrieve(self.question.clone())),
            IterRetGenState::Retrieved => self.retrieved(responses),
            IterRetGenState::Written(asked) => self.written(asked, responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl IterRetGenMachine {
    pub(super) fn new(settings: Arc<IterRetGenSettings>, question: String) -> Self {
        let (retrieved, outcome, state) = (Vec::new(), Outcome::default(), IterRetGenState::Start);
        Self { settings, question, retrieved, outcome, state }
    }

    fn retrieve(&mut self, query: String) -> MachineStep {
        self.state = IterRetGenState::Retrieved;
        let parameters = &self.settings.parameters;
        MachineStep::Ask(vec![Request::new(&parameters.retriever, RetrievePayload::new(query, parameters.k))])
    }

    fn retrieved(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let k = self.settings.parameters.k;
        let ranked = ranking::from_hits(Response::only(responses)?.hits()?, k);
        self.retrieved.push(ranked.into_iter().map(|entry| entry.passage).collect());
        Ok(self.write(0))
    }

    /// Asks for a reply, after `asked` of no use.
    fn write(&mut self, asked: u32) -> MachineStep {
        self.state = IterRetGenState::Written(asked);
        let IterRetGenSettings { prompt, lines, .. } = &*self.settings;
        let passages = self.retrieved.last().map(Vec::as_slice).unwrap_or_default();
        let request = prompt.request("", asked, |field, builder| match field {
            "knowledge" => lines.append_to(builder, passages),
            _ => builder.text(&self.question),
        });
        MachineStep::Ask(vec![request])
    }

    fn written(&mut self, asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        let Some(ReadReply { thought, answer }) = self.read(&text) else {
            return match self.settings.prompt.last_failure(asked, "the keys `thought` and `answer`") {
                Some(failure) => Err(failure),
                None => Ok(self.write(asked + 1)),
            };
        };
        self.outcome.add_note("thought", &thought);
        self.outcome.add_note("answer", &answer);
        self.outcome.iterations += 1;
        if self.outcome.iterations >= self.settings.parameters.iterations {
            return Ok(self.finish(answer));
        }
        let part = match self.settings.parameters.query_part {
            GenerationPart::Generation => text.trim(),
            GenerationPart::Thought => &thought,
            GenerationPart::Answer => &answer,
        };
        let query = match self.settings.parameters.query_order {
            QueryOrder::QuestionFirst => format!("{} {part}", self.question),
            QueryOrder::GenerationFirst => format!("{part} {}", self.question),
        };
        Ok(self.retrieve(query))
    }

    fn read(&self, text: &str) -> Option<ReadReply> {
        let parameters = &self.settings.parameters;
        match parameters.form {
            ReplyForm::Text => {
                let (thought, answer) = (text.trim().to_owned(), stated_answer(text).to_owned());
                Some(ReadReply { thought, answer })
            }
            ReplyForm::Json => parameters.answer_json.find(text, |value| {
                let text = |key| reply_prompt::short_text(value, key);
                Some(ReadReply { thought: text("thought")?, answer: text("answer")? })
            }),
        }
    }

    fn finish(&mut self, answer: String) -> MachineStep {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.answer = Some(answer);
        outcome.ranked = ranking::by_position(self.retrieved.iter().flatten().copied());
        outcome.paths = ranking::paths_by_position(std::mem::take(&mut self.retrieved));
        MachineStep::Done(outcome)
    }
}

/// The words behind the last `answer is`, with or without a colon, else the whole text; without a point at the end.
fn stated_answer(text: &str) -> &str {
    const PHRASE: &str = "answer is";
    let answer = text.rfind(PHRASE).map_or(text, |at| &text[at + PHRASE.len()..]);
    let answer = answer.strip_prefix(':').unwrap_or(answer).trim();
    answer.strip_suffix('.').unwrap_or(answer)
}
