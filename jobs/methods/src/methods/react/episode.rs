//! The machine of `react`: the text of an episode, and the moves between its requests.

use super::ReactSettings;
use super::environment::{self, ReactAction, ReactPage};
use super::parameters::TitleMatch;
use crate::machine::{Machine, MachineStep};
use crate::outcome::Outcome;
use crate::prompt::ChatRole;
use crate::ranking;
use crate::request::{GeneratePayload, PassageId, PassageSet, PassagesPayload, Request, RetrievePayload, TextFormat};
use crate::response::{Failure, PassageText, Response};
use crate::template::PromptBuilder;
use std::sync::Arc;

/// One question.
pub(super) struct ReactMachine {
    settings: Arc<ReactSettings>,
    question: String,
    /// The steps behind it, as they stand in the prompt.
    episode: String,
    /// The number of the current step, from 1.
    number: u32,
    page: ReactPage,
    /// The passages of pages seen so far.
    seen: Vec<PassageId>,
    /// The trace.
    outcome: Outcome,
    state: ReactState,
}

enum ReactState {
    Start,
    Thought,
    Action(String),
    Page(SearchStep),
    Similar(SearchStep),
}

/// A step that searches.
struct SearchStep {
    thought: String,
    action: String,
    title: String,
}

impl Machine for ReactMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match std::mem::replace(&mut self.state, ReactState::Start) {
            ReactState::Start => Ok(self.ask_thought()),
            ReactState::Thought => self.thought(responses),
            ReactState::Action(thought) => self.action(thought, responses),
            ReactState::Page(search) => self.page(search, responses),
            ReactState::Similar(search) => self.similar(search, responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl ReactMachine {
    pub(super) fn new(settings: Arc<ReactSettings>, question: String) -> Self {
        Self {
            settings,
            question,
            episode: String::new(),
            number: 1,
            page: ReactPage::default(),
            seen: Vec::new(),
            outcome: Outcome::default(),
            state: ReactState::Start,
        }
    }

    fn ask_thought(&mut self) -> MachineStep {
        self.state = ReactState::Thought;
        let number = self.number;
        let stop = format!("\nObservation {number}:");
        self.generate(&format!("Thought {number}:"), stop, "thought")
    }

    fn thought(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        let (text, mark) = (text.trim(), format!("\nAction {}: ", self.number));
        let pieces: Vec<&str> = text.split(&mark).collect();
        if let [thought, action] = pieces[..] {
            return Ok(self.act(thought.to_owned(), action.to_owned()));
        }
        let thought = text.split('\n').next().unwrap_or_default().to_owned();
        let number = self.number;
        let asked = self.generate(&format!("Thought {number}: {thought}\nAction {number}:"), "\n".to_owned(), "action");
        self.outcome.repairs += 1;
        self.state = ReactState::Action(thought);
        Ok(asked)
    }

    fn action(&mut self, thought: String, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        Ok(self.act(thought, text.trim().to_owned()))
    }

    fn act(&mut self, thought: String, action: String) -> MachineStep {
        match ReactAction::parse(&action) {
            ReactAction::Search(title) => self.search(SearchStep { thought, action, title }),
            ReactAction::Lookup(words) => {
                let mut observed = self.page.look_up(&words);
                if observed == environment::NO_MORE_RESULTS && self.settings.parameters.blank_line {
                    observed.push('\n');
                }
                self.observe(&thought, &action, &observed)
            }
            ReactAction::Finish(answer) => {
                self.note(&thought, &action);
                self.finish(answer)
            }
            ReactAction::Think => self.observe(&thought, &action, "Nice thought."),
            ReactAction::Invalid(read) => self.observe(&thought, &action, &format!("Invalid action: {read}")),
        }
    }

    fn search(&mut self, search: SearchStep) -> MachineStep {
        if search.title.trim().is_empty() {
            let observed = environment::not_found(&search.title, &[]);
            return self.observe(&search.thought, &search.action, &observed);
        }
        let parameters = &self.settings.parameters;
        let titles = vec![search.title.clone()];
        let passages = match parameters.titles {
            TitleMatch::Folded => PassageSet::FoldedTitles(titles),
            TitleMatch::Exact => PassageSet::Titles(titles),
        };
        let request = Request::new(&parameters.corpus, PassagesPayload { passages, read: true });
        self.state = ReactState::Page(search);
        MachineStep::Ask(vec![request])
    }

    fn page(&mut self, search: SearchStep, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut response = Response::only(responses)?;
        let texts = std::mem::take(&mut response.passages);
        response.found()?;
        let page = page_titled(&search.title, &texts);
        if page.is_empty() {
            let parameters = &self.settings.parameters;
            let ask = RetrievePayload { read: true, ..RetrievePayload::new(&search.title, parameters.similar) };
            let request = Request::new(&parameters.retriever, ask);
            self.state = ReactState::Similar(search);
            return Ok(MachineStep::Ask(vec![request]));
        }
        self.seen.extend(page.iter().map(|text| text.passage));
        self.page = ReactPage::new(&page, self.settings.parameters.sentences_by);
        let observed = self.page.beginning(self.settings.parameters.sentences);
        Ok(self.observe(&search.thought, &search.action, &observed))
    }

    fn similar(&mut self, search: SearchStep, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut response = Response::only(responses)?;
        let texts = std::mem::take(&mut response.passages);
        response.hits()?;
        let mut titles: Vec<&str> = Vec::new();
        for text in &texts {
            if !titles.contains(&text.title.as_str()) && titles.len() < self.settings.parameters.similar as usize {
                titles.push(&text.title);
            }
        }
        let observed = environment::not_found(&search.title, &titles);
        Ok(self.observe(&search.thought, &search.action, &observed))
    }

    /// Writes a step into the episode, and goes on to the next.
    fn observe(&mut self, thought: &str, action: &str, observed: &str) -> MachineStep {
        let number = self.number;
        self.episode.push_str(&format!(
            "Thought {number}: {thought}\nAction {number}: {action}\nObservation {number}: {observed}\n"
        ));
        self.note(thought, action);
        self.outcome.add_note("observation", observed);
        if number >= self.settings.parameters.most_steps {
            return self.finish(String::new());
        }
        self.number += 1;
        self.ask_thought()
    }

    fn note(&mut self, thought: &str, action: &str) {
        self.outcome.add_note("thought", thought);
        self.outcome.add_note("action", action);
    }

    fn finish(&mut self, answer: String) -> MachineStep {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.answer = Some(answer);
        outcome.ranked = ranking::by_position(self.seen.iter().copied());
        outcome.iterations = self.number;
        outcome.format = Some(outcome.repairs == 0);
        MachineStep::Done(outcome)
    }

    /// Asks the generator to write on behind the episode and `begun`.
    fn generate(&self, begun: &str, stop: String, step: &'static str) -> MachineStep {
        let parameters = &self.settings.parameters;
        let mut builder = PromptBuilder::new();
        self.settings.template.append_to(&mut builder, |_, builder| builder.text(&self.question));
        builder.speak_as(ChatRole::Assistant);
        builder.text(&self.episode);
        builder.text(begun);
        let generate = GeneratePayload {
            prompt: builder.finish(),
            max_tokens: parameters.max_tokens,
            stop: vec![stop],
            sampling: parameters.temperature.sampling(),
            format: TextFormat::Text,
            logprobs: false,
        };
        MachineStep::Ask(vec![Request::new(&parameters.generator, generate).at_step(step)])
    }
}

/// The passages of the page with this title; of several titles that are alike, the exact one, else the first.
fn page_titled<'a>(title: &str, texts: &'a [PassageText]) -> Vec<&'a PassageText> {
    let exact = texts.iter().find(|text| text.title == title);
    let Some(chosen) = exact.or(texts.first()) else { return Vec::new() };
    texts.iter().filter(|text| text.title == chosen.title).collect()
}
