//! `oracle`: the gold passages in path order, and the gold answer. A control: the upper bound of all methods.
//!
//! ```text
//! state | next | ends with
//! ------+------+--------------------------------------------------------------------------------
//! Start | end  | ranked: one passage per gold slot; the path they make; the first gold answer
//! ```
//!
//! If several passages satisfy a slot, the first one not taken by an earlier slot fills it. A slot without a passage in
//! the corpus stays out, so the oracle's own recall measures the gaps of the corpus.

use crate::machine::{ContextMode, Machine, MachineStep, Method, MethodError, MethodSetting, Question, ServiceUse};
use crate::outcome::{Outcome, PassagePath};
use crate::ranking;
use crate::registry::{ConfigurableMethod, MethodInfo, ParameterInfo};
use crate::request::PassageId;
use crate::response::Response;
use serde::{Deserialize, Serialize};

/// One configuration.
pub(crate) struct Oracle {
    parameters: OracleParameters,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OracleParameters {
    #[serde(default = "default_answer")]
    answer: bool,
}

fn default_answer() -> bool {
    true
}

impl ConfigurableMethod for Oracle {
    const INFO: MethodInfo = MethodInfo {
        kind: "oracle",
        description: "The gold passages in path order and the gold answer, as an upper bound",
        paper: "control",
        parameters: &[ParameterInfo {
            name: "answer",
            values: "true or false",
            default: Some("true"),
            documentation: "Whether it answers with the first gold answer.",
        }],
    };

    type Parameters = OracleParameters;

    fn new(parameters: OracleParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        Ok(Self { parameters })
    }
}

impl Method for Oracle {
    fn kind(&self) -> &'static str {
        Self::INFO.kind
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Oracle
    }

    fn gives_answers(&self) -> bool {
        self.parameters.answer
    }

    fn reads_gold(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        // As many as the question has gold.
        None
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        Vec::new()
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        let passages = fill_slots(&question.gold);
        let answer = question.answers.first().filter(|_| self.parameters.answer).cloned();
        let paths =
            if passages.is_empty() { Vec::new() } else { vec![PassagePath { passages: passages.clone(), score: 1.0 }] };
        Box::new(OracleMachine(Outcome { ranked: ranking::by_position(passages), paths, answer, ..Outcome::default() }))
    }
}

/// One passage for each slot with one left.
fn fill_slots(slots: &[Vec<PassageId>]) -> Vec<PassageId> {
    let mut passages: Vec<PassageId> = Vec::with_capacity(slots.len());
    for slot in slots {
        let left = slot.iter().copied().find(|passage| !passages.contains(passage));
        passages.extend(left);
    }
    passages
}

struct OracleMachine(Outcome);

impl Machine for OracleMachine {
    fn step(&mut self, _: Vec<Response>) -> MachineStep {
        MachineStep::Done(std::mem::take(&mut self.0))
    }
}
