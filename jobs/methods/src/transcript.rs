//! A question under one configuration, round by round: the machine's requests, their responses and the outcome.
//!
//! Machines are deterministic, so a transcript need not be stored: [`Transcript::replay`] drives the machine again with
//! the journalled responses.

mod words;

use self::words::TranscriptWords;
use crate::machine::{MachineStep, Method, Question};
use crate::outcome::{Outcome, OutcomeStatus};
use crate::request::{PassageId, Request};
use crate::response::{Answer, AnswerWork, Response};
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter};

/// The history of one question under one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transcript {
    /// The question.
    pub question: Question,
    /// The configuration's name.
    pub configuration: String,
    /// The rounds, in order.
    pub rounds: Vec<Round>,
    /// The end.
    pub outcome: Outcome,
}

/// The requests of one round, and the responses in the same order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// At least one request.
    pub requests: Vec<Request>,
    /// One for each request.
    pub responses: Vec<Response>,
}

/// A replay reached a request without a response.
#[derive(Clone, Debug, thiserror::Error)]
#[error("round {} asks for something that has no stored response: {request}", .rounds.len() + 1)]
pub struct MissingResponse {
    /// The request.
    pub request: Box<Request>,
    /// The rounds before.
    pub rounds: Vec<Round>,
}

impl Transcript {
    /// Drives a machine for `question` with the responses of `answer`. If a request wants to read passages, their texts
    /// must be filled in.
    ///
    /// # Errors
    /// The first request without a response, with the rounds up to there.
    pub fn replay(
        method: &dyn Method,
        configuration: &str,
        question: &Question,
        answer: &mut dyn FnMut(&Request) -> Option<Response>,
    ) -> Result<Self, MissingResponse> {
        let mut machine = method.start(question);
        let mut rounds: Vec<Round> = Vec::new();
        let mut step = machine.step(Vec::new());
        loop {
            let requests = match step {
                MachineStep::Done(outcome) => {
                    let (question, configuration) = (question.clone(), configuration.to_owned());
                    return Ok(Self { question, configuration, rounds, outcome });
                }
                MachineStep::Ask(requests) => requests,
            };
            let mut responses = Vec::with_capacity(requests.len());
            for request in &requests {
                match answer(request) {
                    Some(response) => responses.push(response),
                    None => return Err(MissingResponse { request: Box::new(request.clone()), rounds }),
                }
            }
            step = machine.step(responses.iter().cloned().map(Response::without_facts).collect());
            rounds.push(Round { requests, responses });
        }
    }

    /// The work of all responses.
    pub fn total_work(&self) -> AnswerWork {
        let mut work = AnswerWork::default();
        for response in self.rounds.iter().flat_map(|round| &round.responses) {
            work += response.work;
        }
        work
    }

    /// The transcript for people, with the passages' titles: in words which passages a model scored, and what it said.
    pub fn display<'a>(&'a self, title: &'a dyn Fn(PassageId) -> String) -> impl Display + 'a {
        TranscriptDisplay { transcript: self, title, is_raw: false }
    }

    /// The same with each request and each answer as it is in the journal: whole, with all logits and
    /// log-probabilities.
    pub fn display_raw<'a>(&'a self, title: &'a dyn Fn(PassageId) -> String) -> impl Display + 'a {
        TranscriptDisplay { transcript: self, title, is_raw: true }
    }
}

/// Longest line of a request or a response, in characters.
const LINE: usize = 160;
/// Passages shown of one answer, and of the outcome's ranking.
const PASSAGES: usize = 10;

struct TranscriptDisplay<'a> {
    transcript: &'a Transcript,
    title: &'a dyn Fn(PassageId) -> String,
    /// Whether requests and answers stand in their notation, and are not cut.
    is_raw: bool,
}

impl Display for TranscriptDisplay<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Transcript { question, configuration, rounds, .. } = self.transcript;
        let kind = question.kind.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        writeln!(f, "question {}{kind}: {}", question.id, question.text)?;
        writeln!(f, "configuration {configuration}")?;
        for (number, round) in (1..).zip(rounds) {
            writeln!(f, "\nround {number}")?;
            for (request, response) in round.requests.iter().zip(&round.responses) {
                let words = self.words().and_then(|words| words.request(request));
                writeln!(f, "  {}", self.line(&words.unwrap_or_else(|| request.to_string())))?;
                self.write_response(f, request, response)?;
            }
        }
        writeln!(f)?;
        self.write_outcome(f)
    }
}

impl TranscriptDisplay<'_> {
    /// The words of requests and answers; `None` in a raw transcript.
    fn words(&self) -> Option<TranscriptWords<'_>> {
        (!self.is_raw).then_some(TranscriptWords { title: self.title })
    }

    /// A line, cut unless the transcript is raw.
    fn line(&self, line: &str) -> String {
        if self.is_raw { line.to_owned() } else { cut_line(line, LINE) }
    }

    /// Writes a response, indented under its request.
    fn write_response(&self, f: &mut Formatter<'_>, request: &Request, response: &Response) -> std::fmt::Result {
        let scores = |index: usize| match &response.result {
            Ok(Answer::Retrieve(hits)) => hits.get(index).map(|hit| hit.score),
            _ => None,
        };
        match &response.result {
            Err(failure) => writeln!(f, "    {}", self.line(&failure.to_string()))?,
            Ok(answer @ (Answer::Retrieve(_) | Answer::Passages(_) | Answer::Links(_))) => {
                let passages = answer.passages();
                if passages.is_empty() {
                    writeln!(f, "    nothing")?;
                }
                self.write_passages(f, passages.iter().enumerate().map(|(index, &id)| (id, scores(index))))?;
            }
            Ok(answer) => {
                let words = self.words().and_then(|words| words.answer(request, answer));
                for line in words.unwrap_or_else(|| vec![answer.to_string()]) {
                    writeln!(f, "    {}", self.line(&line))?;
                }
            }
        }
        if let Some(report) = &response.prompt {
            write!(f, "    prompt of {} tokens", report.tokens)?;
            if !report.dropped.is_empty() {
                write!(f, ", parts left out: {:?}", report.dropped)?;
            }
            for (part, tokens) in &report.cut {
                write!(f, ", part {part} cut by {tokens}")?;
            }
            writeln!(f)?;
        }
        if response.work != AnswerWork::default() {
            writeln!(f, "    {}", response.work)?;
        }
        if let Some(facts) = &response.facts {
            writeln!(f, "    {}", self.line(&facts.to_string()))?;
        }
        Ok(())
    }

    /// Writes the first passages, numbered, with titles.
    fn write_passages(
        &self,
        f: &mut Formatter<'_>,
        passages: impl ExactSizeIterator<Item = (PassageId, Option<f64>)>,
    ) -> std::fmt::Result {
        let more = passages.len().saturating_sub(PASSAGES);
        for (rank, (passage, score)) in (1..).zip(passages.take(PASSAGES)) {
            let title = (self.title)(passage);
            match score {
                Some(score) => writeln!(f, "    {rank:>3}. {score:>10.4}  {title} [{passage}]")?,
                None => writeln!(f, "    {rank:>3}. {title} [{passage}]")?,
            }
        }
        if more > 0 { writeln!(f, "         and {more} more") } else { Ok(()) }
    }

    fn write_outcome(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let outcome = &self.transcript.outcome;
        match &outcome.status {
            OutcomeStatus::Ok => writeln!(f, "outcome ok, iterations {}", outcome.iterations)?,
            OutcomeStatus::Failed(failure) => writeln!(f, "outcome {failure}")?,
            OutcomeStatus::NotInFile => writeln!(f, "outcome not_in_file")?,
        }
        if let Some(answer) = &outcome.answer {
            writeln!(f, "  answer: {answer}")?;
        }
        if !outcome.ranked.is_empty() {
            writeln!(f, "  ranked")?;
            self.write_passages(f, outcome.ranked.iter().map(|entry| (entry.passage, Some(entry.score))))?;
        }
        for path in outcome.paths.iter().take(PASSAGES) {
            let titles: Vec<String> = path.passages.iter().map(|&passage| (self.title)(passage)).collect();
            writeln!(f, "  path {:.4}: {}", path.score, titles.join(" > "))?;
        }
        for support in &outcome.supporting {
            writeln!(f, "  supporting: {}, sentence {}", (self.title)(support.passage), support.sentence)?;
        }
        for named in &outcome.named_support {
            writeln!(f, "  supporting, in no passage: {}, sentence {}", named.title, named.sentence)?;
        }
        for [subject, relation, object] in &outcome.evidences {
            writeln!(f, "  evidence: {subject} | {relation} | {object}")?;
        }
        for note in &outcome.notes {
            writeln!(f, "  {}: {}", note.name, note.text)?;
        }
        if let Some(kept) = outcome.format {
            writeln!(f, "  format: {}", if kept { "kept" } else { "broken" })?;
        }
        if outcome.repairs > 0 {
            writeln!(f, "  repairs: {}", outcome.repairs)?;
        }
        let work = self.transcript.total_work();
        if work == AnswerWork::default() { Ok(()) } else { writeln!(f, "  {work}") }
    }
}

/// Cuts a line to `length` characters; an ellipsis marks a cut.
fn cut_line(line: &str, length: usize) -> String {
    match line.char_indices().nth(length) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}
