//! `react`: a language model thinks, acts and observes in turns until it finishes.
//!
//! ReAct (Yao et al., ICLR 2023, sections 2 and 3). The model continues its own text. Its actions look pages up by
//! title and sentences up by words; what they show is written into the text as an observation.
//!
//! ```text
//! state   | responses                | next    | asks or ends with
//! --------+--------------------------+---------+---------------------------------------------------------------------
//! Start   | none                     | Thought | generator: Generate(episode, "Thought 1:"; stop "\nObservation 1:")
//! Thought | a thought and an action  | (act)   |
//! Thought | another text             | Action  | generator: Generate(.., its first line, "Action i:"; stop "\n")
//! Action  | an action                | (act)   |
//! (act)   | Search[title]            | Page    | corpus: Passages(title), read
//! (act)   | Lookup[words]            | (next)  | observes the page's next sentence with the words
//! (act)   | Finish[answer]           | end     | answer, ranked: the pages seen
//! (act)   | another action           | (next)  | observes that it is invalid
//! Page    | passages                 | (next)  | observes the page's first sentences
//! Page    | none                     | Similar | retriever: Retrieve(title, similar), read
//! Similar | hits                     | (next)  | observes that there is no such page, and the titles of the hits
//! (next)  | fewer than `most_steps`  | Thought | as from Start, with the next number
//! (next)  | `most_steps`             | end     | the empty answer, ranked: the pages seen
//! any     | failure                  | end     | that failure
//! ```
//!
//! # Pages
//! Wikipedia's live search stands behind the paper's environment; here it is the corpus. A page is every passage with
//! one title, in the corpus's order: the title searched for, else the first of those that are the same up to case,
//! underscores and spaces (`titles = "folded"`). Texts of observations are those of the authors' environment.
//!
//! # Paper and code
//! The second call for an action, `think[..]` and the texts are the code's; the paper does not speak of them. Named
//! differences: `sentences_by` (the code cuts at a point and a space) and `blank_line` (the code's `No more results.`
//! has a line break of its own). The paper's variants that fall back on a chain of thought are not here.
//!
//! # Outcome
//! [`crate::Outcome::iterations`] counts steps, [`crate::Outcome::repairs`] the second calls; the format is kept
//! without any. An empty answer is an answer: the authors score it.

mod environment;
mod episode;
mod parameters;

use crate::Fragment;
use crate::machine::{
    ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceAbility, ServiceUse,
};
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::request::RequestKind;
use crate::template::PromptTemplate;
use parameters::ReactParameters;
use std::sync::Arc;

const KIND: &str = "react";

/// The project's own wording, with six examples as the paper's prompt (appendix C.1).
const PROMPT: &str = include_str!("../../prompts/react/prompt.txt");

/// One configuration.
pub(crate) struct React {
    settings: Arc<ReactSettings>,
}

/// Settings shared by all machines of a configuration.
struct ReactSettings {
    parameters: ReactParameters,
    template: PromptTemplate,
}

impl ConfigurableMethod for React {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model thinks, acts on the corpus and observes, until it finishes",
        paper: "ReAct (Yao et al., 2023), section 3",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = ReactParameters;

    const AS_CODE: &'static [(&'static str, &'static str)] = &[("sentences_by", "\"points\""), ("blank_line", "true")];

    fn complete_parameters(parameters: &mut ReactParameters) {
        parameters.prompt.get_or_insert_with(|| PROMPT.to_owned());
    }

    fn new(parameters: ReactParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let counts = [
            ("most_steps", parameters.most_steps),
            ("sentences", parameters.sentences),
            ("similar", parameters.similar),
            ("max_tokens", parameters.max_tokens),
        ];
        for (name, value) in counts {
            at_least_one(KIND, name, value)?;
        }
        parameters.temperature.check(KIND)?;
        let text = parameters.prompt.as_deref().unwrap_or(PROMPT);
        let template = PromptTemplate::parse(text, &["question"]).map_err(|_| MethodError::Value {
            kind: KIND,
            parameter: "prompt",
            found: "a text".to_owned(),
            allowed: "must have {question} exactly once",
        })?;
        Ok(Self { settings: Arc::new(ReactSettings { parameters, template }) })
    }
}

impl Method for React {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn has_form(&self) -> bool {
        true
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        // Any number of passages may have one title.
        None
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let steps = u64::from(self.settings.parameters.most_steps);
        let kinds = [(RequestKind::Generate, 2), (RequestKind::Passages, 1), (RequestKind::Retrieve, 1)];
        Some(kinds.map(|(kind, each)| (kind, each * steps)).to_vec())
    }

    fn wording(&self) -> Option<PromptWording> {
        let text = self.settings.parameters.prompt.as_deref().unwrap_or(PROMPT);
        let origin = if text == PROMPT { "hopeval" } else { "job" };
        Some(PromptWording { origin: origin.into(), text: text.to_owned() })
    }

    fn fragments(&self) -> Vec<Fragment> {
        self.settings.template.fragments().cloned().collect()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let ReactParameters { generator, retriever, corpus, temperature, .. } = &self.settings.parameters;
        vec![
            ServiceUse::new("generator", generator, RequestKind::Generate)
                .with_need(ServiceAbility::Continue)
                .with_sampling(&temperature.sampling()),
            ServiceUse::new("retriever", retriever, RequestKind::Retrieve),
            ServiceUse::new("corpus", corpus, RequestKind::Passages),
        ]
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(episode::ReactMachine::new(Arc::clone(&self.settings), question.text.clone()))
    }
}
