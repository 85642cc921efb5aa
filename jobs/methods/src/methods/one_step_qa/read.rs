//! The machine of `one_step_qa`: gathers the passages of its context, then has them read.

use super::OneStepQaSettings;
use crate::collected::{CollectedPassages, CollectionRules};
use crate::few_shot::ShownPassage;
use crate::machine::{ContextMode, Machine, MachineStep, Question};
use crate::outcome::{Outcome, OutcomeNote};
use crate::reasoning::read_answer;
use crate::request::{PassageId, PassageSet, PassagesPayload, Request, RetrievalRestriction, RetrievePayload};
use crate::response::{Failure, FailureKind, Response};
use crate::title_scope::TitleScope;
use std::sync::Arc;

/// One question.
pub(super) struct OneStepQaMachine {
    settings: Arc<OneStepQaSettings>,
    question: String,
    pinned: Option<ShownPassage>,
    /// Given or gold passages.
    lookups: Vec<PassageId>,
    collected: CollectedPassages,
    notes: Vec<OutcomeNote>,
    state: OneStepQaState,
}

enum OneStepQaState {
    Start,
    Titled,
    Mapped,
    Found,
    Read,
}

impl Machine for OneStepQaMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match self.state {
            OneStepQaState::Start => self.begin(),
            OneStepQaState::Titled => self.titled(responses),
            OneStepQaState::Mapped => TitleScope::restriction(responses).map(|within| self.gather(within)),
            OneStepQaState::Found => self.found(responses),
            OneStepQaState::Read => self.answered(responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl OneStepQaMachine {
    pub(super) fn new(settings: Arc<OneStepQaSettings>, question: &Question, lookups: Vec<PassageId>) -> Self {
        let parameters = &settings.parameters;
        let mut collected = CollectedPassages::new(CollectionRules {
            most: u32::MAX,
            longest_passage: parameters.longest_passage,
            near_duplicates: parameters.near_duplicates,
        });
        let pinned = question.context.as_ref().map(ShownPassage::from);
        pinned.iter().for_each(|pinned| collected.pin(pinned.clone()));
        let question = question.text.clone();
        Self { settings, question, pinned, lookups, collected, notes: Vec::new(), state: OneStepQaState::Start }
    }

    fn begin(&mut self) -> Result<MachineStep, Failure> {
        if let (Some(scope), Some(pinned)) = (&self.settings.scope, &self.pinned) {
            self.state = OneStepQaState::Titled;
            return Ok(MachineStep::Ask(vec![scope.ask(pinned, &self.question)]));
        }
        let needs_lookups = matches!(self.settings.parameters.context, ContextMode::Given | ContextMode::Oracle);
        if needs_lookups && self.lookups.is_empty() {
            let message = "the question has no passages of this context".to_owned();
            return Err(Failure { kind: FailureKind::Refused, message });
        }
        Ok(self.gather(None))
    }

    fn titled(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let Some(scope) = &self.settings.scope else { return Ok(self.gather(None)) };
        let (titles, requests) = scope.look_up(Response::only(responses)?)?;
        self.notes.extend(titles.into_iter().map(|text| OutcomeNote { name: "title".to_owned(), text }));
        if requests.is_empty() {
            return Ok(self.gather(None));
        }
        self.state = OneStepQaState::Mapped;
        Ok(MachineStep::Ask(requests))
    }

    /// Asks for the passages of the context.
    fn gather(&mut self, within: Option<RetrievalRestriction>) -> MachineStep {
        let parameters = &self.settings.parameters;
        let mut requests = Vec::new();
        if !self.lookups.is_empty() {
            let passages = PassageSet::Ids(self.lookups.clone());
            requests
                .push(Request::new(&parameters.corpus, PassagesPayload { passages, read: true }).at_step("look_up"));
        }
        let query = parameters.query_words.query(&self.question);
        if let Some(retriever) = parameters.retriever.as_ref().filter(|_| parameters.retrieves() && !query.is_empty()) {
            let ask = RetrievePayload { within, read: true, ..RetrievePayload::new(query, parameters.k) };
            requests.push(Request::new(retriever, ask).at_step("retrieve"));
        }
        if requests.is_empty() {
            return self.read();
        }
        self.state = OneStepQaState::Found;
        MachineStep::Ask(requests)
    }

    fn found(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut responses = responses.into_iter();
        let mut next = || Response::only(responses.by_ref().take(1).collect());
        if !self.lookups.is_empty() {
            let found = next()?;
            self.collected.add_found(found)?;
        }
        let parameters = &self.settings.parameters;
        if parameters.retrieves() && !parameters.query_words.query(&self.question).is_empty() {
            let hits = next()?;
            self.collected.add_hits(hits, parameters.k)?;
        }
        Ok(self.read())
    }

    fn read(&mut self) -> MachineStep {
        let settings = &self.settings;
        let ask = settings.prompt.payload(self.collected.shown(), self.pinned.iter().len(), &self.question, &[]);
        self.collected.forget_texts();
        self.state = OneStepQaState::Read;
        MachineStep::Ask(vec![Request::new(&settings.parameters.generator, ask).at_step("read")])
    }

    fn answered(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        let mut outcome = Outcome {
            answer: Some(read_answer(&text).to_owned()),
            ranked: self.collected.ranked(),
            iterations: 1,
            notes: std::mem::take(&mut self.notes),
            ..Outcome::default()
        };
        outcome.add_note("reading", text.trim());
        Ok(MachineStep::Done(outcome))
    }
}
