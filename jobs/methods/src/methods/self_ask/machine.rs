//! The machine of `self_ask`: the model's text, and the moves between its requests.

use super::SelfAskSettings;
use super::chain::{self, FOLLOW_UP, INTERMEDIATE, OPENING};
use super::parameters::{Evidence, LastText, ShownDocuments, StopHandling};
use crate::machine::{Machine, MachineStep};
use crate::outcome::Outcome;
use crate::prompt::ChatRole;
use crate::ranking;
use crate::reply_prompt;
use crate::request::{GeneratePayload, PassageId, Request, RetrievePayload, TextFormat};
use crate::response::{Failure, PassageText, Response};
use crate::template::PromptBuilder;
use std::sync::Arc;

/// One question.
pub(super) struct SelfAskMachine {
    settings: Arc<SelfAskSettings>,
    question: String,
    /// The model's text so far, behind the opening.
    text: String,
    /// The last follow-up question.
    follow_up: String,
    /// The passages of each retrieval so far.
    retrieved: Vec<Vec<PassageId>>,
    /// The trace.
    outcome: Outcome,
    state: SelfAskState,
}

/// Numbers count the draws of the same text that were of no use.
enum SelfAskState {
    Start,
    First,
    Written(u32),
    Retrieved,
    Answered,
    Read(u32),
    Ended(u32),
}

impl Machine for SelfAskMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match self.state {
            SelfAskState::Start => Ok(self.begin()),
            SelfAskState::First => self.first(responses),
            SelfAskState::Written(asked) => self.written(asked, responses),
            SelfAskState::Retrieved => self.retrieved(responses),
            SelfAskState::Answered => self.answered(responses),
            SelfAskState::Read(asked) => self.read(asked, responses),
            SelfAskState::Ended(asked) => self.ended(asked, responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl SelfAskMachine {
    pub(super) fn new(settings: Arc<SelfAskSettings>, question: String) -> Self {
        Self {
            settings,
            question,
            text: String::new(),
            follow_up: String::new(),
            retrieved: Vec::new(),
            outcome: Outcome::default(),
            state: SelfAskState::Start,
        }
    }

    fn begin(&mut self) -> MachineStep {
        let parameters = &self.settings.parameters;
        if parameters.first_retrieval && parameters.evidence == Evidence::Documents {
            self.state = SelfAskState::First;
            return self.retrieve(self.question.clone());
        }
        self.write(0)
    }

    fn retrieve(&self, query: String) -> MachineStep {
        let parameters = &self.settings.parameters;
        let read = parameters.evidence == Evidence::Snippet;
        let ask = RetrievePayload { read, ..RetrievePayload::new(query, parameters.k) };
        MachineStep::Ask(vec![Request::new(&parameters.retriever, ask)])
    }

    fn first(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        self.take_hits(Response::only(responses)?)?;
        Ok(self.write(0))
    }

    fn take_hits(&mut self, response: Response) -> Result<(), Failure> {
        let ranked = ranking::from_hits(response.hits()?, self.settings.parameters.k);
        self.retrieved.push(ranked.into_iter().map(|entry| entry.passage).collect());
        Ok(())
    }

    /// Asks for the next piece of text, after `asked` draws of no use.
    fn write(&mut self, asked: u32) -> MachineStep {
        self.state = SelfAskState::Written(asked);
        self.generate("ask", asked, &[INTERMEDIATE])
    }

    /// The text of a response; `None` if it has no stop and is to be drawn again.
    fn taken(&self, asked: u32, responses: Vec<Response>, stops: &[&str]) -> Result<Option<String>, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        Ok(match self.settings.parameters.stops {
            StopHandling::Sent => Some(text),
            StopHandling::Cut => {
                let last = asked + 1 >= self.settings.parameters.most_draws();
                chain::cut_at(&text, stops).or(last.then(String::new))
            }
        })
    }

    fn written(&mut self, asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let marker = self.settings.parameters.final_marker.clone();
        let Some(text) = self.taken(asked, responses, &[INTERMEDIATE, marker.trim()])? else {
            return Ok(self.write(asked + 1));
        };
        let parameters = &self.settings.parameters;
        if self.outcome.iterations < parameters.most_follow_ups
            && let Some(question) = chain::follow_up(&text, parameters.extraction)
        {
            self.text.push_str(&text);
            self.outcome.iterations += 1;
            self.outcome.add_note("follow_up", &question);
            self.follow_up = question.clone();
            self.state = SelfAskState::Retrieved;
            return Ok(self.retrieve(question));
        }
        if let Some(answer) = chain::final_answer(&text, &marker, parameters.extraction) {
            self.text.push_str(&text);
            return Ok(self.finish(answer));
        }
        if parameters.last_text == LastText::Kept {
            self.text.push_str(&text);
        }
        self.text.push_str(&marker);
        Ok(self.end(0))
    }

    fn retrieved(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut response = Response::only(responses)?;
        let texts = std::mem::take(&mut response.passages);
        self.take_hits(response)?;
        match self.settings.parameters.evidence {
            Evidence::Reader => Ok(self.ask_reader(0)),
            Evidence::Documents => {
                self.text.push_str(INTERMEDIATE);
                Ok(self.write(0))
            }
            Evidence::Snippet => match self.snippet(&texts) {
                Some(snippet) => Ok(self.write_answer(&snippet)),
                None => {
                    self.text.push_str(INTERMEDIATE);
                    self.state = SelfAskState::Answered;
                    let (next, marker) = (format!("\n{FOLLOW_UP}"), &self.settings.parameters.final_marker);
                    Ok(self.generate("answer", 0, &[&next, marker]))
                }
            },
        }
    }

    /// The first sentences of the best passage that has any, without the last point.
    fn snippet(&self, texts: &[PassageText]) -> Option<String> {
        let most = self.settings.parameters.snippet_sentences as usize;
        let snippets = texts.iter().map(|text| {
            let sentences = text.sentence_texts().into_iter().filter(|sentence| !sentence.is_empty());
            sentences.take(most).collect::<Vec<_>>().join(" ")
        });
        let snippet = snippets.into_iter().find(|snippet| !snippet.is_empty())?;
        Some(snippet.strip_suffix('.').map(str::to_owned).unwrap_or(snippet))
    }

    /// Writes an intermediate answer into the text, and goes on.
    fn write_answer(&mut self, answer: &str) -> MachineStep {
        self.outcome.add_note("intermediate_answer", answer);
        self.text.push_str(&format!("{INTERMEDIATE} {answer}."));
        self.write(0)
    }

    fn answered(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        self.outcome.add_note("intermediate_answer", text.trim());
        self.text.push_str(&text);
        Ok(self.write(0))
    }

    /// Asks the reader, after `asked` replies of no use.
    fn ask_reader(&mut self, asked: u32) -> MachineStep {
        self.state = SelfAskState::Read(asked);
        let SelfAskSettings { reader, lines, .. } = &*self.settings;
        let passages = self.retrieved.last().map(Vec::as_slice).unwrap_or_default();
        let request = reader.request("reader", asked, |field, builder| match field {
            "knowledge" => lines.append_to(builder, passages),
            _ => builder.text(&self.follow_up),
        });
        MachineStep::Ask(vec![request])
    }

    fn read(&mut self, asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        let rule = self.settings.parameters.answer_json;
        match rule.find(&text, |value| reply_prompt::short_text(value, "answer")) {
            Some(answer) => Ok(self.write_answer(&answer)),
            None if asked + 1 < self.settings.reader.most_draws() => Ok(self.ask_reader(asked + 1)),
            None => Ok(self.write_answer("unknown")),
        }
    }

    /// Asks for the final answer behind its marker, after `asked` draws of no use.
    fn end(&mut self, asked: u32) -> MachineStep {
        self.state = SelfAskState::Ended(asked);
        self.generate("end", asked, &["\n"])
    }

    fn ended(&mut self, asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let Some(text) = self.taken(asked, responses, &["\n"])? else {
            return Ok(self.end(asked + 1));
        };
        self.text.push_str(&text);
        let answer = chain::stated_answer(&text, self.settings.parameters.extraction);
        Ok(self.finish(answer))
    }

    fn finish(&mut self, answer: String) -> MachineStep {
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.add_note("text", self.text.trim());
        outcome.answer = Some(answer);
        outcome.ranked = ranking::by_position(self.retrieved.iter().flatten().copied());
        outcome.paths = ranking::paths_by_position(std::mem::take(&mut self.retrieved));
        MachineStep::Done(outcome)
    }

    /// Asks the generator to continue its text, up to one of `stops`.
    fn generate(&self, step: &'static str, draw: u32, stops: &[&str]) -> MachineStep {
        let SelfAskSettings { parameters, template, lines, .. } = &*self.settings;
        let mut builder = PromptBuilder::new();
        template.append_to(&mut builder, |field, builder| match field {
            "knowledge" => {
                let passages = self.shown_passages();
                lines.append_to(builder, &passages);
                builder.text(if passages.is_empty() { "" } else { "\n" });
            }
            _ => builder.text(&self.question),
        });
        builder.speak_as(ChatRole::Assistant);
        builder.text(OPENING);
        builder.text(&self.text);
        let stop = match parameters.stops {
            StopHandling::Sent => stops.iter().map(|&stop| stop.to_owned()).collect(),
            StopHandling::Cut => Vec::new(),
        };
        let generate = GeneratePayload {
            prompt: builder.finish(),
            max_tokens: parameters.max_tokens,
            stop,
            sampling: parameters.temperature.sampling(),
            format: TextFormat::Text,
            logprobs: false,
        };
        MachineStep::Ask(vec![Request { draw, ..Request::new(&parameters.generator, generate).at_step(step) }])
    }

    /// The passages in front of the question, those of the newest retrieval first.
    fn shown_passages(&self) -> Vec<PassageId> {
        let most = match self.settings.parameters.shown {
            ShownDocuments::All => self.retrieved.len(),
            ShownDocuments::Newest => 1,
        };
        let newest = self.retrieved.iter().rev().take(most).flatten().copied();
        ranking::by_position(newest).into_iter().map(|entry| entry.passage).collect()
    }
}
