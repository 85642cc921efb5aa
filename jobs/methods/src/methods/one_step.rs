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

use crate::machine::{ContextMode, Machine, Method, MethodError, Question, ServiceUse, Setting, Step};
use crate::outcome::Outcome;
use crate::ranking;
use crate::registry::{Configured, MethodInfo, ParameterInfo, at_least_one};
use crate::request::{Kind, Request, Retrieve, ServiceName};
use crate::response::{Failure, Response};
use serde::{Deserialize, Serialize};

/// One configuration.
pub(crate) struct OneStep {
    parameters: Parameters,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    retriever: ServiceName,
    #[serde(default = "default_k")]
    k: u32,
}

fn default_k() -> u32 {
    10
}

impl Configured for OneStep {
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
                documentation: "Passages ranked, the best ones.",
            },
        ],
    };

    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Setting) -> Result<Self, MethodError> {
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

    fn answers(&self) -> bool {
        false
    }

    fn services(&self) -> Vec<ServiceUse> {
        vec![ServiceUse { parameter: "retriever", service: self.parameters.retriever.clone(), kind: Kind::Retrieve }]
    }

    fn most_requests(&self) -> Option<Vec<(Kind, u64)>> {
        Some(vec![(Kind::Retrieve, 1)])
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(Asking { parameters: self.parameters.clone(), query: question.text.clone(), state: State::Start })
    }
}

struct Asking {
    parameters: Parameters,
    query: String,
    state: State,
}

enum State {
    Start,
    Asked,
}

impl Machine for Asking {
    fn step(&mut self, responses: Vec<Response>) -> Step {
        match self.state {
            State::Start => {
                self.state = State::Asked;
                let ask = Retrieve::new(std::mem::take(&mut self.query), self.parameters.k);
                Step::Ask(vec![Request::new(&self.parameters.retriever, ask)])
            }
            State::Asked => Step::Done(self.ranked(responses).unwrap_or_else(Outcome::failed)),
        }
    }
}

impl Asking {
    fn ranked(&self, responses: Vec<Response>) -> Result<Outcome, Failure> {
        let hits = Response::only(responses)?.hits()?;
        Ok(Outcome { ranked: ranking::from_hits(hits, self.parameters.k), iterations: 1, ..Outcome::default() })
    }
}
