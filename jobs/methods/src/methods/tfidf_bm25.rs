//! `tfidf_bm25`: a TF-IDF pool, widened by the links of its passages, re-ranked by BM25.
//!
//! The baseline "TF-IDF + BM25" of PromptRank (section 3, "Baselines", and table 1): "retrieved documents and their
//! hyperlinks are reranked using BM25". The pool is the paper's F = 100. Its code ranks with BM25Okapi (k1 2, b .75)
//! and fits it on the ranked passages alone, hence `statistics = "restriction"`. The services choose the variants of
//! BM25 and TF-IDF.
//!
//! ```text
//! state   | responses                   | next    | asks or ends with
//! --------+-----------------------------+---------+------------------------------------------------------------
//! Start   | none                        | Pooled  | retriever: Retrieve(question, pool)
//! Pooled  | hits                        | Linked  | Links(passage) for the best `expand` of the pool
//! Pooled  | no hits                     | end     | ranked: nothing
//! Pooled  | hits, and `expand` is 0     | Ranked  | reranker: Retrieve(question, k, within the pool)
//! Linked  | links, one list per passage | Ranked  | reranker: Retrieve(question, k, within pool and links)
//! Ranked  | hits                        | end     | ranked: the hits
//! ```
//!
//! A failed retrieval ends in that failure, and so does an indeterminate failure of links. Links with a failure in
//! every run (a corpus without links refuses) are no links. A passage not returned by BM25 is not ranked, and a hit
//! outside the widened pool is a retriever's fault and left out.

use crate::machine::{ContextMode, Machine, MachineStep, Method, MethodError, MethodSetting, Question, ServiceUse};
use crate::outcome::Outcome;
use crate::ranking;
use crate::registry::{ConfigurableMethod, MethodInfo, ParameterInfo, at_least_one};
use crate::request::{
    Direction, LinksPayload, PassageId, Request, RequestKind, RetrievePayload, ServiceName, Statistics,
};
use crate::response::{Failure, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One configuration.
pub(crate) struct TfidfBm25 {
    parameters: Arc<TfidfBm25Parameters>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TfidfBm25Parameters {
    retriever: ServiceName,
    reranker: ServiceName,
    #[serde(default = "ServiceName::corpus")]
    links: ServiceName,
    #[serde(default = "default_pool")]
    pool: u32,
    #[serde(default)]
    expand: Option<u32>,
    #[serde(default)]
    links_per_passage: Option<u32>,
    #[serde(default = "default_statistics")]
    statistics: Statistics,
    #[serde(default = "default_k")]
    k: u32,
}

fn default_pool() -> u32 {
    100
}

fn default_statistics() -> Statistics {
    Statistics::Restriction
}

fn default_k() -> u32 {
    100
}

impl ConfigurableMethod for TfidfBm25 {
    const INFO: MethodInfo = MethodInfo {
        kind: "tfidf_bm25",
        description: "A TF-IDF pool and the passages it links to, re-ranked by BM25",
        paper: "PromptRank (Khalifa et al., 2023), section 3: baseline TF-IDF + BM25",
        parameters: &[
            ParameterInfo {
                name: "retriever",
                values: "name of a retriever",
                default: None,
                documentation: "Finds the pool: TF-IDF in the paper.",
            },
            ParameterInfo {
                name: "reranker",
                values: "name of a retriever",
                default: None,
                documentation: "Ranks the widened pool: BM25 in the paper.",
            },
            ParameterInfo {
                name: "links",
                values: "name of a service",
                default: Some("\"corpus\""),
                documentation: "Knows the links of passages.",
            },
            ParameterInfo {
                name: "pool",
                values: "integer, at least 1",
                default: Some("100"),
                documentation: "Passages in the pool (F in the paper).",
            },
            ParameterInfo {
                name: "expand",
                values: "integer, or nothing for all",
                default: Some("null"),
                documentation: "How many passages of the pool, the best ones, have their links followed.",
            },
            ParameterInfo {
                name: "links_per_passage",
                values: "integer, or nothing for all",
                default: Some("null"),
                documentation: "How many links of a passage are followed, the first ones.",
            },
            ParameterInfo {
                name: "statistics",
                values: "\"corpus\" or \"restriction\"",
                default: Some("\"restriction\""),
                documentation: "Whether BM25's statistics are the corpus's or those of the widened pool alone.",
            },
            ParameterInfo {
                name: "k",
                values: "integer, at least 1",
                default: Some("100"),
                documentation: "Passages ranked, the best ones; by default more if the job's measures look at more.",
            },
        ],
    };

    type Parameters = TfidfBm25Parameters;

    fn ranking_length(largest_cut_off: u32) -> Option<(&'static str, u32)> {
        Some(("k", largest_cut_off.max(default_k())))
    }

    fn new(parameters: TfidfBm25Parameters, _: &MethodSetting) -> Result<Self, MethodError> {
        at_least_one(Self::INFO.kind, "pool", parameters.pool)?;
        at_least_one(Self::INFO.kind, "k", parameters.k)?;
        Ok(Self { parameters: Arc::new(parameters) })
    }
}

impl Method for TfidfBm25 {
    fn kind(&self) -> &'static str {
        Self::INFO.kind
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn gives_answers(&self) -> bool {
        false
    }

    fn most_ranked(&self) -> Option<u32> {
        let TfidfBm25Parameters { pool, expand, links_per_passage, k, .. } = *self.parameters;
        let expanded = expand.unwrap_or(pool).min(pool);
        let links = expanded.saturating_mul(links_per_passage.unwrap_or(u32::MAX));
        Some(k.min(pool.saturating_add(links)))
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let parameters = &self.parameters;
        vec![
            ServiceUse::new("retriever", &parameters.retriever, RequestKind::Retrieve),
            ServiceUse::new("links", &parameters.links, RequestKind::Links),
            ServiceUse::new("reranker", &parameters.reranker, RequestKind::Retrieve),
        ]
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let TfidfBm25Parameters { pool, expand, .. } = *self.parameters;
        Some(vec![(RequestKind::Retrieve, 2), (RequestKind::Links, expand.unwrap_or(pool).min(pool).into())])
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(TfidfBm25Machine {
            parameters: Arc::clone(&self.parameters),
            query: question.text.clone(),
            pool: Vec::new(),
            state: TfidfBm25State::Start,
        })
    }
}

struct TfidfBm25Machine {
    parameters: Arc<TfidfBm25Parameters>,
    query: String,
    /// The passages of the pool, best first; then those of the widened pool, ascending.
    pool: Vec<PassageId>,
    state: TfidfBm25State,
}

enum TfidfBm25State {
    Start,
    Pooled,
    Linked,
    Ranked,
}

impl Machine for TfidfBm25Machine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match self.state {
            TfidfBm25State::Start => Ok(self.retrieve()),
            TfidfBm25State::Pooled => self.pooled(responses),
            TfidfBm25State::Linked => self.linked(responses),
            TfidfBm25State::Ranked => self.ranked(responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl TfidfBm25Machine {
    fn retrieve(&mut self) -> MachineStep {
        self.state = TfidfBm25State::Pooled;
        let ask = RetrievePayload::new(&self.query, self.parameters.pool);
        MachineStep::Ask(vec![Request::new(&self.parameters.retriever, ask)])
    }

    fn pooled(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let hits = Response::only(responses)?.hits()?;
        let ranked = ranking::from_hits(hits, self.parameters.pool);
        self.pool = ranked.into_iter().map(|entry| entry.passage).collect();
        if self.pool.is_empty() {
            return Ok(MachineStep::Done(Outcome { iterations: 1, ..Outcome::default() }));
        }
        let expand = self.parameters.expand.unwrap_or(u32::MAX) as usize;
        if expand == 0 {
            let pool = std::mem::take(&mut self.pool);
            return Ok(self.rerank(pool));
        }
        self.state = TfidfBm25State::Linked;
        let links = |&passage| LinksPayload { passage, direction: Direction::Outgoing, read: false };
        let asks = self.pool.iter().take(expand).map(links);
        Ok(MachineStep::Ask(asks.map(|ask| Request::new(&self.parameters.links, ask)).collect()))
    }

    fn linked(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let most = self.parameters.links_per_passage.unwrap_or(u32::MAX) as usize;
        let mut widened = std::mem::take(&mut self.pool);
        for response in responses {
            widened.extend(response.links_if_any()?.into_iter().take(most));
        }
        Ok(self.rerank(widened))
    }

    fn rerank(&mut self, passages: Vec<PassageId>) -> MachineStep {
        self.state = TfidfBm25State::Ranked;
        let allowed = ranking::as_set(passages);
        self.pool.clone_from(&allowed);
        let ask = RetrievePayload::new(&self.query, self.parameters.k).within(allowed, self.parameters.statistics);
        MachineStep::Ask(vec![Request::new(&self.parameters.reranker, ask)])
    }

    fn ranked(&self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut hits = Response::only(responses)?.hits()?;
        hits.retain(|hit| self.pool.binary_search(&hit.passage).is_ok());
        let ranked = ranking::from_hits(hits, self.parameters.k);
        Ok(MachineStep::Done(Outcome { ranked, iterations: 1, ..Outcome::default() }))
    }
}
