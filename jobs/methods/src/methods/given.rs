//! `given`: ranks the passages given with the question by the dataset.
//!
//! The distractor setting, ranked by a retriever or in the dataset's order. Readers with given passages (FSM, section
//! 4) see that order.
//!
//! ```text
//! state | order     | responses  | next  | asks or ends with
//! ------+-----------+------------+-------+---------------------------------------------------------
//! Start | any       | none       | end   | Refused, if the dataset gives no passages
//! Start | dataset   | none       | end   | ranked: the candidates
//! Start | retriever | none       | Asked | Retrieve(question, all, within candidates)
//! Asked | retriever | hits       | end   | ranked: the hits, then the other candidates as the dataset has them
//! Asked | retriever | failure    | end   | that failure
//! ```

use crate::machine::{ContextMode, Machine, MachineStep, Method, MethodError, MethodSetting, Question, ServiceUse};
use crate::outcome::Outcome;
use crate::ranking;
use crate::registry::{ConfigurableMethod, MethodInfo, ParameterInfo};
use crate::request::{PassageId, Request, RequestKind, RetrievePayload, ServiceName, Statistics};
use crate::response::{Failure, FailureKind, Response};
use serde::{Deserialize, Serialize};

/// One configuration.
pub(crate) struct GivenPassages {
    /// `None`: the dataset's order.
    retriever: Option<ServiceName>,
    statistics: Statistics,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenParameters {
    #[serde(default)]
    retriever: Option<ServiceName>,
    #[serde(default = "default_order")]
    order: GivenOrder,
    #[serde(default = "default_statistics")]
    statistics: Statistics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GivenOrder {
    Retriever,
    Dataset,
}

fn default_order() -> GivenOrder {
    GivenOrder::Retriever
}

fn default_statistics() -> Statistics {
    Statistics::Corpus
}

impl ConfigurableMethod for GivenPassages {
    const INFO: MethodInfo = MethodInfo {
        kind: "given",
        description: "The passages that the dataset gives with the question, ranked",
        paper: "the distractor setting of HotpotQA (Yang et al., 2018), section 5.1; FSM, section 4",
        parameters: &[
            ParameterInfo {
                name: "retriever",
                values: "name of a retriever",
                default: None,
                documentation: "Ranks the passages; need not be given with order = \"dataset\".",
            },
            ParameterInfo {
                name: "order",
                values: "\"retriever\" or \"dataset\"",
                default: Some("\"retriever\""),
                documentation: "By the retriever's score, or as the dataset lists them.",
            },
            ParameterInfo {
                name: "statistics",
                values: "\"corpus\" or \"restriction\"",
                default: Some("\"corpus\""),
                documentation: "Whether the retriever's statistics are the corpus's or those of the given passages \
                                alone.",
            },
        ],
    };

    type Parameters = GivenParameters;

    fn new(parameters: GivenParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let retriever = match (parameters.order, parameters.retriever) {
            (GivenOrder::Dataset, _) => None,
            (GivenOrder::Retriever, Some(retriever)) => Some(retriever),
            (GivenOrder::Retriever, None) => {
                return Err(MethodError::Value {
                    kind: Self::INFO.kind,
                    parameter: "retriever",
                    found: "nothing".to_owned(),
                    allowed: "must name a retriever unless order = \"dataset\"",
                });
            }
        };
        Ok(Self { retriever, statistics: parameters.statistics })
    }
}

impl Method for GivenPassages {
    fn kind(&self) -> &'static str {
        Self::INFO.kind
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Given
    }

    fn gives_answers(&self) -> bool {
        false
    }

    fn most_ranked(&self) -> Option<u32> {
        // As many as the dataset gives with a question.
        None
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let retriever = self.retriever.iter();
        retriever.map(|name| ServiceUse::new("retriever", name, RequestKind::Retrieve)).collect()
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        Some(self.retriever.iter().map(|_| (RequestKind::Retrieve, 1)).collect())
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(GivenMachine {
            retriever: self.retriever.clone(),
            statistics: self.statistics,
            query: question.text.clone(),
            candidates: question.candidates.clone(),
            state: GivenState::Start,
        })
    }
}

struct GivenMachine {
    retriever: Option<ServiceName>,
    statistics: Statistics,
    query: String,
    candidates: Vec<PassageId>,
    state: GivenState,
}

enum GivenState {
    Start,
    Asked,
}

impl Machine for GivenMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        match (&self.state, &self.retriever) {
            (GivenState::Start, _) if self.candidates.is_empty() => MachineStep::Done(Outcome::failed(Failure {
                kind: FailureKind::Refused,
                message: "the dataset gives no passages with this question".to_owned(),
            })),
            (GivenState::Start, None) => {
                let ranked = ranking::by_position(self.candidates.iter().copied());
                MachineStep::Done(Outcome { ranked, ..Outcome::default() })
            }
            (GivenState::Start, Some(retriever)) => {
                let allowed = ranking::as_set(self.candidates.iter().copied());
                let k = u32::try_from(allowed.len()).unwrap_or(u32::MAX);
                let ask = RetrievePayload::new(&self.query, k).within(allowed, self.statistics);
                let request = Request::new(retriever, ask);
                self.state = GivenState::Asked;
                MachineStep::Ask(vec![request])
            }
            (GivenState::Asked, _) => MachineStep::Done(self.ranked_outcome(responses).unwrap_or_else(Outcome::failed)),
        }
    }
}

impl GivenMachine {
    fn ranked_outcome(&self, responses: Vec<Response>) -> Result<Outcome, Failure> {
        let mut hits = Response::only(responses)?.hits()?;
        hits.retain(|hit| self.candidates.contains(&hit.passage));
        let mut ranked = ranking::from_hits(hits, u32::MAX);
        ranking::append_missing(&mut ranked, &self.candidates);
        Ok(Outcome { ranked, iterations: 1, ..Outcome::default() })
    }
}
