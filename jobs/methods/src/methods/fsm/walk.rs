//! The machine of one question.

use super::FsmSettings;
use super::paragraphs::GivenParagraphs;
use super::parameters::FsmVariant;
use super::prompts::{ChatTurn, FsmStep};
use super::replies::{self, FormProblem, ReadReply, ReplyReading, excerpt};
use crate::machine::{Machine, MachineStep, Question};
use crate::outcome::Outcome;
use crate::prompt::Prompt;
use crate::ranking;
use crate::request::{PassageId, Request};
use crate::response::{Failure, FailureKind, Response};
use std::sync::Arc;

/// One question.
pub(super) struct FsmMachine {
    settings: Arc<FsmSettings>,
    /// The question as the dataset has it.
    original: String,
    candidates: Vec<PassageId>,
    paragraphs: GivenParagraphs,
    state: FsmState,
    round: FsmRound,
    /// The accepted steps of earlier rounds.
    steps: Vec<AnsweredStep>,
    history: Vec<ChatTurn>,
    /// The length of the history when the round began.
    history_before: usize,
    backtracks: u32,
    outcome: Outcome,
    /// Whether every text that counts was in its form.
    is_kept: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FsmState {
    Start,
    Reading,
    Writing(FsmStep),
}

/// The round on the way.
#[derive(Clone, Debug, Default)]
struct FsmRound {
    /// The question as it was revised.
    question: String,
    /// The query.
    subquestion: String,
    /// Whether the search is the last one.
    is_last: bool,
    answer: String,
    passage: Option<PassageId>,
    evidence: ReadReply,
    /// The message of the step, without history.
    message: Prompt,
    /// Rewritings of its reply so far.
    rewritings: u32,
}

/// A sub-question with its answer.
#[derive(Clone, Debug)]
struct AnsweredStep {
    question: String,
    answer: String,
    passage: PassageId,
}

impl Machine for FsmMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let next = match self.state {
            FsmState::Start => self.read_paragraphs(),
            FsmState::Reading => self.begin(responses),
            FsmState::Writing(step) => self.take_reply(step, responses),
        };
        next.unwrap_or_else(|failure| MachineStep::Done(self.failed(failure)))
    }
}

impl FsmMachine {
    pub(super) fn new(settings: Arc<FsmSettings>, question: &Question) -> Self {
        Self {
            settings,
            original: question.text.clone(),
            candidates: question.candidates.clone(),
            paragraphs: GivenParagraphs::default(),
            state: FsmState::Start,
            round: FsmRound { question: question.text.clone(), ..FsmRound::default() },
            steps: Vec::new(),
            history: Vec::new(),
            history_before: 0,
            backtracks: 0,
            outcome: Outcome::default(),
            is_kept: true,
        }
    }

    fn failed(&mut self, failure: Failure) -> Outcome {
        let Outcome { notes, repairs, iterations, .. } = std::mem::take(&mut self.outcome);
        let format = matches!(failure.kind, FailureKind::ParseFailure).then_some(false);
        Outcome { notes, repairs, iterations, format, ..Outcome::failed(failure) }
    }

    fn read_paragraphs(&mut self) -> Result<MachineStep, Failure> {
        self.state = FsmState::Reading;
        let request = GivenParagraphs::request(&self.settings.parameters.passages, &self.candidates)?;
        Ok(MachineStep::Ask(vec![request]))
    }

    fn begin(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        self.paragraphs = GivenParagraphs::from_responses(responses, &self.candidates)?;
        Ok(self.begin_round())
    }

    fn begin_round(&mut self) -> MachineStep {
        self.history_before = self.history.len();
        self.ask(FsmStep::Decompose)
    }

    /// Asks for the text of a step.
    fn ask(&mut self, step: FsmStep) -> MachineStep {
        self.round.rewritings = 0;
        self.round.message = self.message(step);
        let most = (self.settings.parameters.history / 2) as usize;
        let turns = if step == FsmStep::Review { 0 } else { self.history.len().min(most) };
        let turns = &self.history[self.history.len() - turns..];
        let prompt = ChatTurn::begin_with(turns, self.round.message.clone());
        self.send(step, prompt, step.name())
    }

    fn send(&mut self, step: FsmStep, prompt: Prompt, name: &'static str) -> MachineStep {
        self.state = FsmState::Writing(step);
        let parameters = &self.settings.parameters;
        let request = Request::new(&parameters.generator, parameters.sampling().payload(prompt)).at_step(name);
        MachineStep::Ask(vec![Request { draw: parameters.draw_after(self.backtracks), ..request }])
    }

    fn message(&self, step: FsmStep) -> Prompt {
        let Self { settings, round, paragraphs, .. } = self;
        let parameters = &settings.parameters;
        let numbers = parameters.wants_support() && parameters.sentence_numbers;
        let is_review = step == FsmStep::Review;
        settings.prompts.message(step.name(), |field, builder| match field {
            "paragraphs" if is_review => paragraphs.append_to(builder, &self.found(), numbers),
            "paragraphs" => paragraphs.append_to(builder, &paragraphs.ids(), numbers),
            "steps" => builder.text(&self.written_steps()),
            "words" if is_review => builder.text(&parameters.final_words.to_string()),
            "words" => builder.text(&parameters.answer_words.to_string()),
            "question" if is_review => builder.text(&self.original),
            "question" if step == FsmStep::Search => builder.text(&round.subquestion),
            "question" => builder.text(&round.question),
            "subquestion" => builder.text(&round.subquestion),
            _ => builder.text(&round.answer),
        })
    }

    /// The paragraphs of the answered steps, each once.
    fn found(&self) -> Vec<PassageId> {
        let mut found = Vec::new();
        for step in &self.steps {
            if !found.contains(&step.passage) {
                found.push(step.passage);
            }
        }
        found
    }

    fn written_steps(&self) -> String {
        let lines = (1..).zip(&self.steps).map(|(number, AnsweredStep { question, answer, passage })| {
            let title = self.paragraphs.title(*passage);
            format!("{number}. {question} {answer} (from \"{title}\")")
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn take_reply(&mut self, step: FsmStep, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        match self.accept(step, &text) {
            Ok(next) => {
                if !matches!(next, NextStep::Reviewed { .. }) {
                    let message = std::mem::take(&mut self.round.message);
                    self.history.push(ChatTurn::new(message, text));
                }
                Ok(self.go_on(next))
            }
            Err(problem) => self.repair(step, &text, &problem),
        }
    }

    /// Reads the reply of a step, and says what comes next.
    fn accept(&mut self, step: FsmStep, text: &str) -> Result<NextStep, FormProblem> {
        let key = match step {
            FsmStep::Decompose | FsmStep::Check => replies::SIMPLE,
            FsmStep::Judge => replies::IDENTICAL,
            FsmStep::Search | FsmStep::Review => replies::ANSWER,
            FsmStep::Revise => replies::QUESTION,
        };
        let mut reply = ReadReply::parse(text, key)?;
        let next = match step {
            FsmStep::Decompose => self.read_decomposition(&mut reply)?,
            FsmStep::Judge => NextStep::Judged { identical: reply.truth(replies::IDENTICAL)? },
            FsmStep::Search => self.read_search(&mut reply)?,
            FsmStep::Check => {
                let simple = reply.truth(replies::SIMPLE)?;
                NextStep::Checked(if simple { None } else { Some(reply.text(replies::ANSWER)?) })
            }
            FsmStep::Revise => {
                let question = reply.text(replies::QUESTION)?;
                NextStep::Revised { question, relation: reply.text_if_any(replies::RELATION) }
            }
            FsmStep::Review => self.read_review(&mut reply)?,
        };
        if self.settings.parameters.reading == ReplyReading::Strict && reply.is_repaired() {
            return Err("it is no JSON of that form".to_owned());
        }
        self.note_repairs(step, &reply);
        Ok(next)
    }

    fn note_repairs(&mut self, step: FsmStep, reply: &ReadReply) {
        self.is_kept &= !reply.is_repaired();
        for (name, count) in &reply.repairs {
            self.outcome.repairs += count;
            self.outcome.add_note("repair", format!("{}: {name} {count}", step.name()));
        }
    }

    fn read_decomposition(&self, reply: &mut ReadReply) -> Result<NextStep, FormProblem> {
        if reply.truth(replies::SIMPLE)? {
            return Ok(NextStep::Decomposed(None));
        }
        Ok(NextStep::Decomposed(Some(reply.text(replies::SUBQUESTION)?)))
    }

    fn read_search(&self, reply: &mut ReadReply) -> Result<NextStep, FormProblem> {
        let parameters = &self.settings.parameters;
        let title = reply.text(replies::TITLE)?;
        let answer = reply.text(replies::ANSWER)?;
        let found = self.paragraphs.with_title(&title, super::paragraphs::TitleMatch::Folded);
        let passage =
            found.map(|text| text.passage).ok_or_else(|| format!("no paragraph has the title \"{title}\""))?;
        let words = answer.split_whitespace().count();
        if parameters.limit_words && words > parameters.answer_words as usize {
            return Err(format!("the answer has {words} words, not at most {}", parameters.answer_words));
        }
        let evidence = if parameters.wants_support() { reply.clone() } else { ReadReply::default() };
        if parameters.wants_support() {
            // Their repairs are counted with this reply's.
            reply.list(replies::SUPPORT);
            reply.triples(replies::EVIDENCES);
        }
        Ok(NextStep::Found { answer, passage, evidence: Box::new(evidence) })
    }

    fn read_review(&self, reply: &mut ReadReply) -> Result<NextStep, FormProblem> {
        let answer = reply.text(replies::ANSWER)?;
        let evidence = Box::new(reply.clone());
        if self.settings.parameters.wants_support() {
            reply.list(replies::SUPPORT);
            reply.triples(replies::EVIDENCES);
        }
        Ok(NextStep::Reviewed { answer, explanation: reply.text_if_any(replies::EXPLAIN), evidence })
    }

    /// Adds the support and the evidences of a reply.
    fn add_evidence(&mut self, mut reply: ReadReply) {
        if !self.settings.parameters.wants_support() {
            return;
        }
        let named = reply.list(replies::SUPPORT);
        let (found, other) = self.paragraphs.find_support(&named, self.settings.parameters.titles);
        for sentence in found {
            if !self.outcome.supporting.contains(&sentence) {
                self.outcome.supporting.push(sentence);
            }
        }
        for sentence in other {
            if !self.outcome.named_support.contains(&sentence) {
                self.outcome.named_support.push(sentence);
            }
        }
        self.outcome.evidences.extend(reply.triples(replies::EVIDENCES));
    }

    /// The treatment of a text that breaks its form.
    fn repair(&mut self, step: FsmStep, text: &str, problem: &str) -> Result<MachineStep, Failure> {
        let parameters = &self.settings.parameters;
        self.outcome.add_note("broken", format!("{}: {problem}", step.name()));
        if self.round.rewritings < parameters.repairs {
            self.round.rewritings += 1;
            self.outcome.repairs += 1;
            let form = step.form(parameters.wants_support());
            let prompt = self.settings.prompts.message("rewrite", |field, builder| match field {
                "form" => builder.text(form),
                "problem" => builder.text(problem),
                _ => builder.text(text),
            });
            return Ok(self.send(step, prompt, "rewrite"));
        }
        if self.backtracks < parameters.most_backtracks() {
            self.backtracks += 1;
            self.outcome.add_note("backtrack", step.name());
            if step == FsmStep::Review {
                return Ok(self.ask(FsmStep::Review));
            }
            self.history.truncate(self.history_before);
            self.round = FsmRound { question: std::mem::take(&mut self.round.question), ..FsmRound::default() };
            return Ok(self.ask(FsmStep::Decompose));
        }
        self.is_kept = false;
        let keeps = step != FsmStep::Review || parameters.keep_first_answer;
        if self.steps.is_empty() || !keeps {
            let message = format!("{}: {problem}: {}", step.name(), excerpt(text));
            return Err(Failure { kind: FailureKind::ParseFailure, message });
        }
        if step == FsmStep::Review {
            return Ok(self.end());
        }
        Ok(self.second_stage())
    }

    fn go_on(&mut self, next: NextStep) -> MachineStep {
        let parameters = &self.settings.parameters;
        let (judge, check, most_rounds) = (parameters.judge, parameters.check_answers, parameters.most_rounds);
        match next {
            NextStep::Decomposed(None) => self.search(true),
            NextStep::Decomposed(Some(subquestion)) => {
                self.round.subquestion = subquestion;
                if judge { self.ask(FsmStep::Judge) } else { self.search(false) }
            }
            NextStep::Judged { identical } => self.search(identical),
            NextStep::Found { answer, passage, evidence } => {
                self.round.answer = answer;
                self.round.passage = Some(passage);
                self.round.evidence = *evidence;
                if check { self.ask(FsmStep::Check) } else { self.end_search() }
            }
            NextStep::Checked(part) => {
                if let Some(part) = part {
                    self.outcome.add_note("compound_answer", std::mem::replace(&mut self.round.answer, part));
                }
                self.end_search()
            }
            NextStep::Revised { question, relation } => {
                if let Some(relation) = relation {
                    self.outcome.add_note("relation", relation);
                }
                self.outcome.add_note("revised", &question);
                self.keep_step();
                self.round = FsmRound { question, ..FsmRound::default() };
                if self.outcome.iterations < most_rounds { self.begin_round() } else { self.second_stage() }
            }
            NextStep::Reviewed { answer, explanation, evidence } => {
                if let Some(explanation) = explanation {
                    self.outcome.add_note("explanation", explanation);
                }
                self.outcome.supporting.clear();
                self.outcome.named_support.clear();
                self.outcome.evidences.clear();
                self.add_evidence(*evidence);
                self.outcome.answer = Some(answer);
                self.end()
            }
        }
    }

    fn search(&mut self, is_last: bool) -> MachineStep {
        self.round.is_last = is_last;
        if is_last {
            self.round.subquestion.clone_from(&self.round.question);
        }
        self.ask(FsmStep::Search)
    }

    fn end_search(&mut self) -> MachineStep {
        if !self.round.is_last {
            return self.ask(FsmStep::Revise);
        }
        self.keep_step();
        self.second_stage()
    }

    /// Puts the answered sub-question of the round to the steps.
    fn keep_step(&mut self) {
        let round = &mut self.round;
        let Some(passage) = round.passage else { return };
        let (question, answer) = (std::mem::take(&mut round.subquestion), std::mem::take(&mut round.answer));
        let evidence = std::mem::take(&mut round.evidence);
        self.outcome.iterations += 1;
        self.outcome.add_note("sub_question", &question);
        self.outcome.add_note("sub_answer", format!("{answer} (from \"{}\")", self.paragraphs.title(passage)));
        self.add_evidence(evidence);
        self.steps.push(AnsweredStep { question, answer, passage });
    }

    fn second_stage(&mut self) -> MachineStep {
        match self.settings.parameters.variant {
            FsmVariant::Fsm1 => self.end(),
            FsmVariant::Fsm2 => self.ask(FsmStep::Review),
        }
    }

    fn end(&mut self) -> MachineStep {
        let mut outcome = std::mem::take(&mut self.outcome);
        if outcome.answer.is_none() {
            outcome.answer = self.steps.last().map(|step| step.answer.clone());
        }
        outcome.ranked = ranking::by_position(self.found());
        outcome.format = Some(self.is_kept);
        MachineStep::Done(outcome)
    }
}

/// A reply that was read.
#[derive(Clone, Debug)]
enum NextStep {
    /// The sub-question of a compound question.
    Decomposed(Option<String>),
    Judged {
        identical: bool,
    },
    Found {
        answer: String,
        passage: PassageId,
        evidence: Box<ReadReply>,
    },
    /// The part of a compound answer.
    Checked(Option<String>),
    Revised {
        question: String,
        relation: Option<String>,
    },
    Reviewed {
        answer: String,
        explanation: Option<String>,
        evidence: Box<ReadReply>,
    },
}
