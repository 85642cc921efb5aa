//! `fsm_baseline`: one prompt over the paragraphs given with the question: the baselines of FSM.
//!
//! FSM (arXiv 2407.02964), appendix B.3: Normal, COT, SP-COT (there a zero-shot prompt with six shapes of
//! decompositions, not the pipeline of its paper) and ReAct (as printed: the model writes thoughts, actions and
//! observations itself).
//!
//! ```text
//! state   | response                      | next    | asks or ends with
//! --------+-------------------------------+---------+------------------------------------------------------
//! Start   | none                          | Reading | Passages: the candidates
//! Reading | texts                         | Asked   | Generate: the prompt over all paragraphs
//! Asked   | an object with an answer      | end     | answer, in setting 2 with support and evidences
//! Asked   | no such object                | end     | parse failure, or the text as the answer (`unreadable`)
//! any     | failure                       | end     | that failure
//! ```

mod parameters;

use crate::fragment::Fragment;
use crate::machine::{
    ContextMode, Machine, MachineStep, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse,
};
use crate::methods::fsm::paragraphs::GivenParagraphs;
use crate::methods::fsm::parameters::check_setting;
use crate::methods::fsm::replies::{self, FormProblem, ReadReply, ReplyReading, excerpt};
use crate::outcome::Outcome;
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::request::{PassageId, Request, RequestKind};
use crate::response::{Failure, FailureKind, Response};
use crate::template::{PromptBuilder, PromptTemplate};
use parameters::{BaselineParameters, BaselinePrompt, UnreadableText};
use std::sync::Arc;

const KIND: &str = "fsm_baseline";
const FIELDS: &[&str] = &["paragraphs", "question"];
const FIELDS_WITH_WORDS: &[&str] = &["paragraphs", "question", "words"];

/// One configuration.
pub(crate) struct FsmBaseline {
    settings: Arc<BaselineSettings>,
}

struct BaselineSettings {
    parameters: BaselineParameters,
    template: PromptTemplate,
    wording: PromptWording,
}

impl ConfigurableMethod for FsmBaseline {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "An answer by one prompt over the paragraphs given with the question",
        paper: "FSM (Wang et al., 2024; arXiv 2407.02964), appendix B.3: Normal, COT, SP-COT, ReAct",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = BaselineParameters;

    const AS_CODE: &'static [(&'static str, &'static str)] = parameters::AS_CODE;

    fn new(parameters: BaselineParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        check_setting(KIND, parameters.setting)?;
        at_least_one(KIND, "final_words", parameters.final_words)?;
        parameters.sampling().check(KIND)?;
        let support = parameters.wants_support();
        let text = parameters.text.as_deref().unwrap_or(parameters.prompt.text(support));
        let fields = if text.contains("{words}") { FIELDS_WITH_WORDS } else { FIELDS };
        let template = PromptTemplate::parse(text, fields).map_err(|mistake| MethodError::Value {
            kind: KIND,
            parameter: "text",
            found: format!("`{{{}}}` {} times", mistake.field, mistake.places),
            allowed: "must have {paragraphs} and {question}, each once, and {words} at most once",
        })?;
        let origin = if parameters.text.is_some() { "job" } else { "hopeval" };
        let wording = PromptWording { origin: origin.into(), text: text.to_owned() };
        Ok(Self { settings: Arc::new(BaselineSettings { parameters, template, wording }) })
    }
}

impl Method for FsmBaseline {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        2
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Given
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn gives_ranking(&self) -> bool {
        false
    }

    fn gives_support(&self) -> bool {
        self.settings.parameters.wants_support()
    }

    fn gives_evidences(&self) -> bool {
        self.settings.parameters.wants_support()
    }

    fn has_form(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        // It does not rank.
        Some(0)
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        Some(vec![(RequestKind::Generate, 1), (RequestKind::Passages, 1)])
    }

    fn wording(&self) -> Option<PromptWording> {
        Some(self.settings.wording.clone())
    }

    fn fragments(&self) -> Vec<Fragment> {
        self.settings.template.fragments().cloned().collect()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let parameters = &self.settings.parameters;
        vec![
            parameters.sampling().service_use(&parameters.generator),
            ServiceUse::new("passages", &parameters.passages, RequestKind::Passages),
        ]
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(BaselineMachine {
            settings: Arc::clone(&self.settings),
            question: question.text.clone(),
            candidates: question.candidates.clone(),
            paragraphs: GivenParagraphs::default(),
            state: BaselineState::Start,
        })
    }
}

struct BaselineMachine {
    settings: Arc<BaselineSettings>,
    question: String,
    candidates: Vec<PassageId>,
    paragraphs: GivenParagraphs,
    state: BaselineState,
}

enum BaselineState {
    Start,
    Reading,
    Asked,
}

impl Machine for BaselineMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let next = match self.state {
            BaselineState::Start => self.read_paragraphs(),
            BaselineState::Reading => self.ask(responses),
            BaselineState::Asked => self.take_reply(responses).map(MachineStep::Done),
        };
        next.unwrap_or_else(|failure| {
            let format = (failure.kind == FailureKind::ParseFailure).then_some(false);
            MachineStep::Done(Outcome { format, ..Outcome::failed(failure) })
        })
    }
}

impl BaselineMachine {
    fn read_paragraphs(&mut self) -> Result<MachineStep, Failure> {
        self.state = BaselineState::Reading;
        let request = GivenParagraphs::request(&self.settings.parameters.passages, &self.candidates)?;
        Ok(MachineStep::Ask(vec![request]))
    }

    fn ask(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        self.paragraphs = GivenParagraphs::from_responses(responses, &self.candidates)?;
        self.state = BaselineState::Asked;
        let parameters = &self.settings.parameters;
        let numbers = parameters.wants_support() && parameters.sentence_numbers;
        let mut builder = PromptBuilder::new();
        self.settings.template.append_to(&mut builder, |field, builder| match field {
            "paragraphs" => self.paragraphs.append_to(builder, &self.paragraphs.ids(), numbers),
            "words" => builder.text(&parameters.final_words.to_string()),
            _ => builder.text(&self.question),
        });
        let payload = parameters.sampling().payload(builder.finish());
        let request = Request::new(&parameters.generator, payload).at_step(parameters.prompt.name());
        Ok(MachineStep::Ask(vec![Request { draw: parameters.draw, ..request }]))
    }

    fn take_reply(&self, responses: Vec<Response>) -> Result<Outcome, Failure> {
        let text = Response::only(responses)?.generation()?.text;
        match self.read(&text) {
            Ok(outcome) => Ok(outcome),
            Err(_) if self.settings.parameters.unreadable == UnreadableText::Answer => {
                Ok(Outcome { answer: Some(text), format: Some(false), iterations: 1, ..Outcome::default() })
            }
            Err(problem) => {
                let message = format!("{problem}: {}", excerpt(&text));
                Err(Failure { kind: FailureKind::ParseFailure, message })
            }
        }
    }

    fn read(&self, text: &str) -> Result<Outcome, FormProblem> {
        let parameters = &self.settings.parameters;
        let is_react = parameters.prompt == BaselinePrompt::React;
        let body = if is_react { finished_part(text) } else { text };
        let mut reply = ReadReply::parse(body, replies::ANSWER)?;
        let mut outcome = Outcome { iterations: 1, ..Outcome::default() };
        outcome.answer = Some(reply.text(replies::ANSWER)?);
        if let Some(explanation) = reply.text_if_any(replies::EXPLAIN) {
            outcome.add_note("explanation", explanation);
        }
        if is_react && body.len() < text.len() {
            outcome.add_note("explanation", text);
        }
        if parameters.wants_support() {
            let named = reply.list(replies::SUPPORT);
            (outcome.supporting, outcome.named_support) = self.paragraphs.find_support(&named, parameters.titles);
            outcome.evidences = reply.triples(replies::EVIDENCES);
        }
        if parameters.reading == ReplyReading::Strict && reply.is_repaired() {
            return Err("it is no JSON of that form".to_owned());
        }
        for (name, count) in &reply.repairs {
            outcome.repairs += count;
            outcome.add_note("repair", format!("{}: {name} {count}", parameters.prompt.name()));
        }
        outcome.format = Some(!reply.is_repaired());
        Ok(outcome)
    }
}

/// The text within the last `Finish[..]`; all of it if there is none.
fn finished_part(text: &str) -> &str {
    let Some((_, result)) = text.rsplit_once("Finish[") else { return text };
    let result = result.trim_end();
    result.strip_suffix(']').unwrap_or(result)
}
