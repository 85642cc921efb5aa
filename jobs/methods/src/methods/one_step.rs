//! `one_step`: the question is the query, and the best `k` passages are the result.
//!
//! The One-step Retriever (OneR) of IRCoT, section 4.1, with K in {5, 7, 9, 11, 13, 15}; the baseline of every
//! multi-hop retriever.
//!
//! ```text
//! state | responses        | next  | asks or ends with
//! ------+------------------+-------+--------------------------------
//! Start | none             | Asked | Retrieve(question, k)
//! Asked | hits             | end   | ranked: the hits
//! Asked | failure          | end   | that failure
//! ```

use crate::machine::{
    ChunkList, ContextMode, Machine, MachineStep, Method, MethodError, MethodSetting, Question, ServiceUse,
};
use crate::outcome::Outcome;
use crate::ranking;
use crate::registry::{ConfigurableMethod, MethodInfo, ParameterInfo, at_least_one};
use crate::request::{Request, RequestKind, RetrievePayload, ServiceName};
use crate::response::{Failure, Response};
use serde::{Deserialize, Serialize};

/// One configuration.
pub(crate) struct OneStep {
    parameters: OneStepParameters,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneStepParameters {
    retriever: ServiceName,
    #[serde(default = "default_k")]
    k: u32,
}

fn default_k() -> u32 {
    10
}

impl ConfigurableMethod for OneStep {
    const INFO: MethodInfo = MethodInfo {
        kind: "one_step",
        description: "The passages that a retriever finds for the question",
        paper: "IRCoT (Trivedi et al., 2023), section 4.1: One-step Retriever (OneR)",
        parameters: &[
            ParameterInfo {
                name: "retriever",
                values: "name of a retriever",
                default: None,
                documentation: "Finds the passages.",
            },
            ParameterInfo {
                name: "k",
                values: "integer, at least 1",
                default: Some("10"),
                documentation: "Passages ranked, the best ones; by default as many as the job's measures look at.",
            },
        ],
    };

    type Parameters = OneStepParameters;

    fn ranking_length(largest_cut_off: u32) -> Option<(&'static str, u32)> {
        Some(("k", largest_cut_off))
    }

    fn new(parameters: OneStepParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        at_least_one(Self::INFO.kind, "k", parameters.k)?;
        Ok(Self { parameters })
    }
}

impl Method for OneStep {
    fn kind(&self) -> &'static str {
        Self::INFO.kind
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn chunk_list(&self) -> Option<ChunkList> {
        Some(ChunkList::Ranking)
    }

    fn gives_answers(&self) -> bool {
        false
    }

    fn most_ranked(&self) -> Option<u32> {
        Some(self.parameters.k)
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        vec![ServiceUse::new("retriever", &self.parameters.retriever, RequestKind::Retrieve)]
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        Some(vec![(RequestKind::Retrieve, 1)])
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(OneStepMachine {
            parameters: self.parameters.clone(),
            query: question.text.clone(),
            state: OneStepState::Start,
        })
    }
}

struct OneStepMachine {
    parameters: OneStepParameters,
    query: String,
    state: OneStepState,
}

enum OneStepState {
    Start,
    Asked,
}

impl Machine for OneStepMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        match self.state {
            OneStepState::Start => {
                self.state = OneStepState::Asked;
                let ask = RetrievePayload::new(std::mem::take(&mut self.query), self.parameters.k);
                MachineStep::Ask(vec![Request::new(&self.parameters.retriever, ask)])
            }
            OneStepState::Asked => MachineStep::Done(self.ranked_outcome(responses).unwrap_or_else(Outcome::failed)),
        }
    }
}

impl OneStepMachine {
    fn ranked_outcome(&self, responses: Vec<Response>) -> Result<Outcome, Failure> {
        let hits = Response::only(responses)?.hits()?;
        Ok(Outcome { ranked: ranking::from_hits(hits, self.parameters.k), iterations: 1, ..Outcome::default() })
    }
}
