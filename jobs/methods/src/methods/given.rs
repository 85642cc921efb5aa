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

use crate::machine::{ContextMode, Machine, Method, MethodError, Question, ServiceUse, Setting, Step};
use crate::outcome::Outcome;
use crate::ranking;
use crate::registry::{Configured, MethodInfo, ParameterInfo};
use crate::request::{Kind, PassageId, Request, Retrieve, ServiceName, Statistics};
use crate::response::{Failure, FailureKind, Response};
use serde::{Deserialize, Serialize};

/// One configuration.
pub(crate) struct Given {
    /// `None`: the dataset's order.
    retriever: Option<ServiceName>,
    statistics: Statistics,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    #[serde(default)]
    retriever: Option<ServiceName>,
    #[serde(default = "default_order")]
    order: Order,
    #[serde(default = "default_statistics")]
    statistics: Statistics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Retriever,
    Dataset,
}

fn default_order() -> Order {
    Order::Retriever
}

fn default_statistics() -> Statistics {
    Statistics::Corpus
}

impl Configured for Given {
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

    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Setting) -> Result<Self, MethodError> {
        let retriever = match (parameters.order, parameters.retriever) {
            (Order::Dataset, _) => None,
            (Order::Retriever, Some(retriever)) => Some(retriever),
            (Order::Retriever, None) => {
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

impl Method for Given {
    fn kind(&self) -> &'static str {
        Self::INFO.kind
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Given
    }

    fn answers(&self) -> bool {
        false
    }

    fn services(&self) -> Vec<ServiceUse> {
        let retriever = self.retriever.iter();
        retriever
            .map(|name| ServiceUse { parameter: "retriever", service: name.clone(), kind: Kind::Retrieve })
            .collect()
    }

    fn most_requests(&self) -> Option<Vec<(Kind, u64)>> {
        Some(self.retriever.iter().map(|_| (Kind::Retrieve, 1)).collect())
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(Ranking {
            retriever: self.retriever.clone(),
            statistics: self.statistics,
            query: question.text.clone(),
            candidates: question.candidates.clone(),
            state: State::Start,
        })
    }
}

struct Ranking {
    retriever: Option<ServiceName>,
    statistics: Statistics,
    query: String,
    candidates: Vec<PassageId>,
    state: State,
}

enum State {
    Start,
    Asked,
}

impl Machine for Ranking {
    fn step(&mut self, responses: Vec<Response>) -> Step {
        match (&self.state, &self.retriever) {
            (State::Start, _) if self.candidates.is_empty() => Step::Done(Outcome::failed(Failure {
                kind: FailureKind::Refused,
                message: "the dataset gives no passages with this question".to_owned(),
            })),
            (State::Start, None) => {
                let ranked = ranking::by_position(self.candidates.iter().copied());
                Step::Done(Outcome { ranked, ..Outcome::default() })
            }
            (State::Start, Some(retriever)) => {
                let allowed = ranking::as_set(self.candidates.iter().copied());
                let k = u32::try_from(allowed.len()).unwrap_or(u32::MAX);
                let ask = Retrieve::new(&self.query, k).within(allowed, self.statistics);
                let request = Request::new(retriever, ask);
                self.state = State::Asked;
                Step::Ask(vec![request])
            }
            (State::Asked, _) => Step::Done(self.ranked(responses).unwrap_or_else(Outcome::failed)),
        }
    }
}

impl Ranking {
    fn ranked(&self, responses: Vec<Response>) -> Result<Outcome, Failure> {
        let mut hits = Response::only(responses)?.hits()?;
        hits.retain(|hit| self.candidates.contains(&hit.passage));
        let mut ranked = ranking::from_hits(hits, u32::MAX);
        ranking::complete(&mut ranked, &self.candidates);
        Ok(Outcome { ranked, iterations: 1, ..Outcome::default() })
    }
}
