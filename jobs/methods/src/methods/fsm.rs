//! `fsm`: FSM1 and FSM2, a language model that is led through a question as through a finite state machine.
//!
//! FSM (arXiv 2407.02964; SG-FSM, NAACL 2025 Findings 335), section 2.2 and appendix B. The released code lacks the
//! state machine; what the paper leaves open is a parameter, with the authors' values of what exists by `as = "code"`.
//!
//! ```text
//! state     | reply, as read                       | next      | asks
//! ----------+--------------------------------------+-----------+------------------------------------------------------
//! Start     | -                                    | Reading   | Passages: the candidates
//! Reading   | texts                                | Decompose | is the question simple? else its first sub-question
//! Decompose | simple                               | Search    | the question, for the last time
//! Decompose | a sub-question                       | Judge     | is it the same as the question? (`judge`)
//! Judge     | identical                            | Search    | the question, for the last time
//! Judge     | not identical                        | Search    | the sub-question over the paragraphs
//! Search    | a candidate's title, a short answer  | Check     | is the answer simple? (`check_answers`)
//! Check     | simple, or a part of it              | Revise    | the question with the answer in it, and the relation
//! Check     | the same, after the last search      | (stage 2) |
//! Revise    | a question; `most_rounds` are over   | (stage 2) |
//! Revise    | a question                           | Decompose | the new question
//! (stage 2) | FSM1, or nothing was found           | end       |
//! (stage 2) | FSM2                                 | Review    | found paragraphs, steps and the question
//! Review    | an answer                            | end       |
//! any       | breaks its form, `repairs` left      | same      | the text again in its form
//! any       | breaks its form, `backtracks` left   | Decompose | the round again with the next draw (Review: itself)
//! any       | breaks its form, nothing left        | (stage 2) | Review: the last sub-answer, or a parse failure
//! any       | failure of the request               | end       | that failure
//! ```

pub(crate) mod paragraphs;
pub(crate) mod parameters;
mod prompts;
pub(crate) mod replies;
pub(crate) mod sampling;
mod walk;

use crate::fragment::Fragment;
use crate::machine::{ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse};
use crate::registry::{ConfigurableMethod, MethodInfo};
use crate::request::RequestKind;
use parameters::FsmParameters;
use prompts::FsmPrompts;
use std::sync::Arc;

const KIND: &str = "fsm";

/// One configuration.
pub(crate) struct Fsm {
    settings: Arc<FsmSettings>,
}

struct FsmSettings {
    parameters: FsmParameters,
    prompts: FsmPrompts,
}

impl ConfigurableMethod for Fsm {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A question answered sub-question by sub-question over the paragraphs given with it",
        paper: "FSM (Wang et al., 2024; arXiv 2407.02964), section 2.2: FSM1 and FSM2",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = FsmParameters;

    const AS_CODE: &'static [(&'static str, &'static str)] = parameters::AS_CODE;

    fn new(parameters: FsmParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        parameters.check()?;
        let prompts = FsmPrompts::new(&parameters)?;
        Ok(Self { settings: Arc::new(FsmSettings { parameters, prompts }) })
    }
}

impl Method for Fsm {
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
        let FsmParameters { most_rounds, backtracks, .. } = self.settings.parameters;
        // A round finds one paragraph.
        Some(most_rounds.saturating_add(backtracks))
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let parameters = &self.settings.parameters;
        let backtracks = u64::from(parameters.most_backtracks());
        // Five steps a round, and the review; each with its rewritings. A backtrack takes a round or a review again.
        let texts = (u64::from(parameters.most_rounds) + backtracks) * 5 + 1 + backtracks;
        let generations = texts * (1 + u64::from(parameters.repairs));
        Some(vec![(RequestKind::Generate, generations), (RequestKind::Passages, 1)])
    }

    fn wording(&self) -> Option<PromptWording> {
        Some(self.settings.prompts.wording())
    }

    fn fragments(&self) -> Vec<Fragment> {
        self.settings.prompts.fragments()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let parameters = &self.settings.parameters;
        vec![
            parameters.sampling().service_use(&parameters.generator),
            ServiceUse::new("passages", &parameters.passages, RequestKind::Passages),
        ]
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(walk::FsmMachine::new(Arc::clone(&self.settings), question))
    }
}
