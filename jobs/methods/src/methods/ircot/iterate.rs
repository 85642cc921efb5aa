//! The machine of `ircot`: retrieve, reason, and in the end read.

use super::IrcotSettings;
use super::parameters::{ChainEnd, QuerySentence};
use crate::collected::{CollectedPassages, CollectionRules};
use crate::few_shot::ShownPassage;
use crate::machine::{Machine, MachineStep, Question};
use crate::outcome::{Outcome, OutcomeNote};
use crate::reasoning::{first_sentence, is_conclusion, read_answer, stated_answer};
use crate::request::{Request, RetrievalRestriction, RetrievePayload};
use crate::response::{Failure, Response};
use crate::title_scope::TitleScope;
use std::sync::Arc;

/// One question.
pub(super) struct IrcotMachine {
    settings: Arc<IrcotSettings>,
    question: String,
    pinned: Option<ShownPassage>,
    /// The pages that retrieval is restricted to.
    within: Option<RetrievalRestriction>,
    collected: CollectedPassages,
    chain: Vec<String>,
    notes: Vec<OutcomeNote>,
    state: IrcotState,
}

enum IrcotState {
    Start,
    Titled,
    Mapped,
    Retrieved,
    Reasoned,
    Read,
}

impl Machine for IrcotMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match self.state {
            IrcotState::Start => Ok(self.begin()),
            IrcotState::Titled => self.titled(responses),
            IrcotState::Mapped => self.mapped(responses),
            IrcotState::Retrieved => self.retrieved(responses),
            IrcotState::Reasoned => self.reasoned(responses),
            IrcotState::Read => self.read(responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl IrcotMachine {
    pub(super) fn new(settings: Arc<IrcotSettings>, question: &Question) -> Self {
        let parameters = &settings.parameters;
        let mut collected = CollectedPassages::new(CollectionRules {
            most: parameters.max_passages,
            longest_passage: parameters.longest_passage,
            near_duplicates: parameters.near_duplicates,
        });
        let pinned = question.context.as_ref().map(ShownPassage::from);
        pinned.iter().for_each(|pinned| collected.pin(pinned.clone()));
        Self {
            settings,
            question: question.text.clone(),
            pinned,
            within: None,
            collected,
            chain: Vec::new(),
            notes: Vec::new(),
            state: IrcotState::Start,
        }
    }

    fn begin(&mut self) -> MachineStep {
        match (&self.settings.scope, &self.pinned) {
            (Some(scope), Some(pinned)) => {
                self.state = IrcotState::Titled;
                MachineStep::Ask(vec![scope.ask(pinned, &self.question)])
            }
            _ => self.retrieve(self.question.clone()),
        }
    }

    fn titled(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let Some(scope) = &self.settings.scope else { return Ok(self.retrieve(self.question.clone())) };
        let (titles, requests) = scope.look_up(Response::only(responses)?)?;
        titles.into_iter().for_each(|title| self.add_note("title", title));
        if requests.is_empty() {
            return Ok(self.retrieve(self.question.clone()));
        }
        self.state = IrcotState::Mapped;
        Ok(MachineStep::Ask(requests))
    }

    fn mapped(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        self.within = TitleScope::restriction(responses)?;
        Ok(self.retrieve(self.question.clone()))
    }

    /// Retrieves with a text, or goes on to reason if nothing can come of it.
    fn retrieve(&mut self, text: String) -> MachineStep {
        let parameters = &self.settings.parameters;
        let query = parameters.query_words.query(&text);
        if query.is_empty() || self.collected.is_full() {
            return self.reason();
        }
        let ask =
            RetrievePayload { within: self.within.clone(), read: true, ..RetrievePayload::new(&query, parameters.k) };
        let request = Request::new(&parameters.retriever, ask).at_step("retrieve");
        self.add_note("query", query);
        self.state = IrcotState::Retrieved;
        MachineStep::Ask(vec![request])
    }

    fn retrieved(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let k = self.settings.parameters.k;
        self.collected.add_hits(Response::only(responses)?, k)?;
        Ok(self.reason())
    }

    fn reason(&mut self) -> MachineStep {
        let IrcotSettings { parameters, reasoning, .. } = &*self.settings;
        let ask = reasoning.payload(self.collected.shown(), self.pinned.iter().len(), &self.question, &self.chain);
        let request = Request::new(&parameters.generator, ask).at_step("reason");
        self.state = IrcotState::Reasoned;
        MachineStep::Ask(vec![request])
    }

    fn reasoned(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        let sentence = first_sentence(&text).to_owned();
        let end = self.settings.parameters.end;
        let states_answer = match end {
            ChainEnd::Words => sentence.contains("answer is:"),
            // The pattern wants a space before it, which the chain has.
            ChainEnd::Pattern => stated_answer(&format!(" {sentence}")).is_some(),
        };
        let is_last = sentence.is_empty() || states_answer;
        if !sentence.is_empty() {
            self.add_note("sentence", sentence.clone());
        }
        // With an empty sentence behind it, a chain that ends in `answer is:` has the empty answer.
        if !sentence.is_empty() || end == ChainEnd::Pattern {
            self.chain.push(sentence);
        }
        if is_last || self.chain.len() >= self.settings.parameters.max_steps as usize {
            return Ok(self.request_answer());
        }
        let query = self.next_query().to_owned();
        Ok(self.retrieve(query))
    }

    /// The text of the next query.
    fn next_query(&self) -> &str {
        let mut sentences = self.chain.iter().rev();
        let found = match self.settings.parameters.query {
            QuerySentence::LastSentence => sentences.next(),
            QuerySentence::LastFact => sentences.find(|sentence| !is_conclusion(sentence)),
        };
        found.map_or(&self.question, String::as_str)
    }

    fn request_answer(&mut self) -> MachineStep {
        let IrcotSettings { parameters, reading, .. } = &*self.settings;
        let Some(reading) = reading else {
            let answer = read_answer(&self.chain.join(" ")).to_owned();
            return self.end_with(answer);
        };
        let ask = reading.payload(self.collected.shown(), self.pinned.iter().len(), &self.question, &[]);
        let request = Request::new(parameters.reader.as_ref().unwrap_or(&parameters.generator), ask).at_step("read");
        self.state = IrcotState::Read;
        MachineStep::Ask(vec![request])
    }

    fn read(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        self.add_note("reading", text.trim());
        Ok(self.end_with(read_answer(&text).to_owned()))
    }

    fn end_with(&mut self, answer: String) -> MachineStep {
        MachineStep::Done(Outcome {
            answer: Some(answer),
            ranked: self.collected.ranked(),
            iterations: self.chain.len() as u32,
            notes: std::mem::take(&mut self.notes),
            ..Outcome::default()
        })
    }

    fn add_note(&mut self, name: &str, text: impl Into<String>) {
        self.notes.push(OutcomeNote { name: name.to_owned(), text: text.into() });
    }
}
