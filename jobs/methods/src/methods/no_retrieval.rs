//! `no_retrieval`: a language model answers from what it knows, after demonstrations.
//!
//! NoR QA of IRCoT (section 4.1, appendix E: direct and chain-of-thought prompting), and the direct prompt of
//! EfficientRAG (section 2.1). A question with a text of its own (IIRC) is asked under that text.
//!
//! ```text
//! state | responses | next  | asks or ends with
//! ------+-----------+-------+--------------------------------------------------------
//! Start | none      | Asked | generator: Generate(demonstrations, the question's text, question)
//! Asked | a text    | end   | answer: behind its last "answer is", else the whole text
//! Asked | failure   | end   | that failure
//! ```
//!
//! The demonstrations' passages are not shown. A text without an answer is an empty answer, not a failure.

use crate::demonstration::DemonstrationSet;
use crate::few_shot::{self, AnswerStyle, FewShotForm, FewShotPrompt, PackingRule, ShownPassage};
use crate::fragment::Fragment;
use crate::machine::{
    ContextMode, Machine, MachineStep, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse,
};
use crate::outcome::Outcome;
use crate::reasoning::read_answer;
use crate::registry::{ConfigurableMethod, MethodInfo};
use crate::request::{Request, RequestKind, ServiceName};
use crate::response::{Failure, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One configuration.
pub(crate) struct NoRetrieval {
    parameters: NoRetrievalParameters,
    prompt: Arc<FewShotPrompt>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoRetrievalParameters {
    generator: ServiceName,
    #[serde(default)]
    style: AnswerStyle,
    #[serde(default = "few_shot::default_demonstrations")]
    demonstrations: DemonstrationSet,
    #[serde(default)]
    demonstration_ids: Option<Vec<String>>,
    #[serde(default)]
    instruction: String,
    #[serde(default = "few_shot::default_title_label")]
    title_label: String,
    #[serde(default)]
    context_tokens: Option<u32>,
    #[serde(default = "few_shot::default_max_tokens")]
    max_tokens: u32,
}

const KIND: &str = "no_retrieval";

impl ConfigurableMethod for NoRetrieval {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model answers from what it knows, after demonstrations",
        paper: "IRCoT (Trivedi et al., 2023), section 4.1: NoR QA; EfficientRAG (Zhuang et al., 2024), section 2.1",
        parameters: &[
            few_shot::GENERATOR,
            few_shot::STYLE,
            few_shot::DEMONSTRATIONS,
            few_shot::DEMONSTRATION_IDS,
            few_shot::INSTRUCTION,
            few_shot::TITLE_LABEL,
            few_shot::CONTEXT_TOKENS,
            few_shot::MAX_TOKENS,
        ],
    };

    type Parameters = NoRetrievalParameters;

    fn new(parameters: NoRetrievalParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let form = FewShotForm {
            style: parameters.style,
            with_passages: false,
            distractors: 0,
            instruction: parameters.instruction.clone(),
            title_label: parameters.title_label.clone(),
            shown_words: None,
            context_tokens: parameters.context_tokens,
            max_tokens: parameters.max_tokens,
            packing: PackingRule::Whole,
        };
        let ids = parameters.demonstration_ids.as_deref();
        let prompt = FewShotPrompt::new(KIND, &parameters.demonstrations, ids, form)?;
        Ok(Self { parameters, prompt: Arc::new(prompt) })
    }
}

impl Method for NoRetrieval {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Closed
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn gives_ranking(&self) -> bool {
        false
    }

    fn most_ranked(&self) -> Option<u32> {
        Some(0)
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        Some(vec![(RequestKind::Generate, 1)])
    }

    fn wording(&self) -> Option<PromptWording> {
        let is_own = self.parameters.instruction.is_empty();
        Some(few_shot::wording([&self.parameters.demonstrations], is_own, self.prompt.words()))
    }

    fn fragments(&self) -> Vec<Fragment> {
        self.prompt.fragments().cloned().collect()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        vec![ServiceUse::new("generator", &self.parameters.generator, RequestKind::Generate)]
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(NoRetrievalMachine {
            generator: self.parameters.generator.clone(),
            prompt: Arc::clone(&self.prompt),
            question: question.text.clone(),
            pinned: question.context.as_ref().map(ShownPassage::from),
            state: NoRetrievalState::Start,
        })
    }
}

struct NoRetrievalMachine {
    generator: ServiceName,
    prompt: Arc<FewShotPrompt>,
    question: String,
    pinned: Option<ShownPassage>,
    state: NoRetrievalState,
}

enum NoRetrievalState {
    Start,
    Asked,
}

impl Machine for NoRetrievalMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        match self.state {
            NoRetrievalState::Start => {
                self.state = NoRetrievalState::Asked;
                let ask = self.prompt.payload(self.pinned.as_slice(), self.pinned.iter().len(), &self.question, &[]);
                MachineStep::Ask(vec![Request::new(&self.generator, ask)])
            }
            NoRetrievalState::Asked => MachineStep::Done(answered(responses).unwrap_or_else(Outcome::failed)),
        }
    }
}

fn answered(responses: Vec<Response>) -> Result<Outcome, Failure> {
    let text = Response::only(responses)?.generation()?.text;
    let mut outcome = Outcome { answer: Some(read_answer(&text).to_owned()), ..Outcome::default() };
    outcome.add_note("reading", text.trim());
    Ok(outcome)
}
