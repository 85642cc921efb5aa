//! `tfidf_bm25`: a TF-IDF pool, widened by the links of its passages, re-ranked by BM25.
//!
//! The baseline "TF-IDF + BM25" of PromptRank (section 3, "Baselines", and table 1): "retrieved documents and their
//! hyperlinks are reranked using BM25". There are two readings of it, and `rerank` chooses one:
//!
//! * `passage`, the default: as the sentence says, the pool (the paper's F = 100) and its links are one list, which the
//!   service `reranker` ranks. BM25 is fitted on the ranked passages alone, hence `statistics = "restriction"`.
//! * `path`: as the authors' code. The best 5 of the pool make paths with their 3 links of greatest cosine; BM25Okapi
//!   (k1 2, b .75) is fitted on the paths' texts, without titles, in nltk's words with their case; a passage is as good
//!   as its best path or its cosine within the pool. [`paths`] has its machine.
//!
//! `as = "code"` is `path` with `fit = "growing"`: the code fits BM25 anew inside its loop over the five passages, on
//! the paths so far, and passages keep their best score of all five fits. It also ends questions with a question mark,
//! which is one of BM25's words. Not kept: the code cuts first-hop and second-hop texts after 230 tokens of the
//! language model's tokenizer, and ranks all of pool and paths, not the first `k`. The command line of the code does
//! not offer the mode, so which run gave the published row is not known.
//!
//! # The machine of `passage`
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

mod paths;

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
    #[serde(default)]
    reranker: Option<ServiceName>,
    #[serde(default)]
    rerank: RerankUnit,
    #[serde(default)]
    link_ranker: Option<ServiceName>,
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
    #[serde(default)]
    fit: PathFit,
    #[serde(default)]
    question_mark: bool,
    #[serde(default = "default_k")]
    k: u32,
}

/// The unit that BM25 scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RerankUnit {
    #[default]
    Passage,
    Path,
}

/// The paths that BM25 is fitted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PathFit {
    /// All of the question, once.
    #[default]
    Whole,
    /// After each expanded passage those so far.
    Growing,
}

/// Passages that the authors' code expands, and links of each that it follows.
const EXPANDED: u32 = 5;
const LINKS: u32 = 3;

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
                values: "name of a retriever; with rerank = \"path\" left out",
                default: None,
                documentation: "Ranks the widened pool: BM25 in the paper.",
            },
            ParameterInfo {
                name: "rerank",
                values: "\"passage\" or \"path\"",
                default: Some("\"passage\""),
                documentation: "What BM25 scores: the passages of pool and links, or as the code paths of two.",
            },
            ParameterInfo {
                name: "link_ranker",
                values: "name of a retriever, with rerank = \"path\"; else nothing",
                default: Some("null"),
                documentation: "With paths: ranks links, gives the pool its cosines; the code's is of kind link_tfidf.",
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
                values: "integer, or nothing for all, with rerank = \"path\" 5",
                default: Some("null"),
                documentation: "How many passages of the pool, the best ones, have their links followed.",
            },
            ParameterInfo {
                name: "links_per_passage",
                values: "integer, or nothing for all, with rerank = \"path\" 3",
                default: Some("null"),
                documentation: "How many links of a passage are followed: the first ones, with paths the most similar.",
            },
            ParameterInfo {
                name: "statistics",
                values: "\"corpus\" or \"restriction\"",
                default: Some("\"restriction\""),
                documentation: "Whether BM25's statistics are the corpus's or those of the widened pool alone.",
            },
            ParameterInfo {
                name: "fit",
                values: "\"whole\" or \"growing\"",
                default: Some("\"whole\""),
                documentation: "With paths: whether BM25 is fitted once, or after each expanded passage again.",
            },
            ParameterInfo {
                name: "question_mark",
                values: "true or false",
                default: Some("false"),
                documentation: "With paths: whether a question without a question mark gets one, as in the code.",
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

    const AS_CODE: &'static [(&'static str, &'static str)] =
        &[("rerank", "\"path\""), ("fit", "\"growing\""), ("question_mark", "true")];

    fn complete_parameters(parameters: &mut TfidfBm25Parameters) {
        if parameters.rerank == RerankUnit::Path {
            parameters.expand.get_or_insert(EXPANDED);
            parameters.links_per_passage.get_or_insert(LINKS);
        }
    }

    fn new(parameters: TfidfBm25Parameters, _: &MethodSetting) -> Result<Self, MethodError> {
        at_least_one(Self::INFO.kind, "pool", parameters.pool)?;
        at_least_one(Self::INFO.kind, "k", parameters.k)?;
        parameters.check_services()?;
        Ok(Self { parameters: Arc::new(parameters) })
    }
}

impl TfidfBm25Parameters {
    /// Checks that the services of its form are named, and no other.
    fn check_services(&self) -> Result<(), MethodError> {
        let (needed, unused) = match self.rerank {
            RerankUnit::Passage => (("reranker", &self.reranker), ("link_ranker", &self.link_ranker)),
            RerankUnit::Path => (("link_ranker", &self.link_ranker), ("reranker", &self.reranker)),
        };
        let wrong = |parameter, found: String, allowed| {
            Err(MethodError::Value { kind: TfidfBm25::INFO.kind, parameter, found, allowed })
        };
        match (needed, unused) {
            ((parameter, None), _) => wrong(
                parameter,
                "nothing".to_owned(),
                "must name a retriever: `reranker` with rerank = \"passage\", `link_ranker` with rerank = \"path\"",
            ),
            (_, (parameter, Some(service))) => wrong(
                parameter,
                format!("\"{service}\""),
                "must be left out: `reranker` with rerank = \"path\", `link_ranker` with rerank = \"passage\"",
            ),
            _ => Ok(()),
        }
    }
}

impl Method for TfidfBm25 {
    fn kind(&self) -> &'static str {
        Self::INFO.kind
    }

    fn version(&self) -> u32 {
        2
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
        let mut used = vec![
            ServiceUse::new("retriever", &parameters.retriever, RequestKind::Retrieve),
            ServiceUse::new("links", &parameters.links, RequestKind::Links),
        ];
        let retriever = |parameter| move |name| ServiceUse::new(parameter, name, RequestKind::Retrieve);
        used.extend(parameters.reranker.iter().map(retriever("reranker")));
        used.extend(parameters.link_ranker.iter().map(retriever("link_ranker")));
        used
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let TfidfBm25Parameters { pool, expand, rerank, .. } = *self.parameters;
        let expanded = u64::from(expand.unwrap_or(pool).min(pool));
        let ranked = if rerank == RerankUnit::Path { expanded } else { 0 };
        Some(vec![(RequestKind::Retrieve, 2 + ranked), (RequestKind::Links, expanded)])
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        if self.parameters.rerank == RerankUnit::Path {
            return Box::new(paths::PathMachine::new(Arc::clone(&self.parameters), &question.text));
        }
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
        let reranker = self.parameters.reranker.as_ref().unwrap_or(&self.parameters.retriever);
        MachineStep::Ask(vec![Request::new(reranker, ask)])
    }

    fn ranked(&self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut hits = Response::only(responses)?.hits()?;
        hits.retain(|hit| self.pool.binary_search(&hit.passage).is_ok());
        let ranked = ranking::from_hits(hits, self.parameters.k);
        Ok(MachineStep::Done(Outcome { ranked, iterations: 1, ..Outcome::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{build_method, resolve_parameters};
    use serde_json::{Value, json};

    const SETTING: MethodSetting = MethodSetting::of_corpus(10);

    #[test]
    fn the_code_s_form_has_its_numbers() {
        let given = json!({"retriever": "t", "link_ranker": "l", "as": "code"});
        let resolved = resolve_parameters("tfidf_bm25", &given, &SETTING).unwrap();
        for (name, expected) in [
            ("rerank", json!("path")),
            ("expand", json!(5)),
            ("links_per_passage", json!(3)),
            ("fit", json!("growing")),
            ("question_mark", json!(true)),
            ("reranker", Value::Null),
        ] {
            assert_eq!(resolved[name], expected, "{name}");
        }
        let method = build_method("tfidf_bm25", &given, &SETTING).unwrap();
        assert_eq!(method.most_requests(), Some(vec![(RequestKind::Retrieve, 7), (RequestKind::Links, 5)]));
        assert_eq!(method.service_uses().len(), 3);
    }

    #[test]
    fn each_form_has_its_services() {
        for (given, expected) in [
            (json!({"retriever": "t"}), "`reranker` = nothing: must name a retriever"),
            (json!({"retriever": "t", "rerank": "path"}), "`link_ranker` = nothing: must name a retriever"),
            (json!({"retriever": "t", "reranker": "b", "link_ranker": "l"}), "`link_ranker` = \"l\": must be left out"),
            (
                json!({"retriever": "t", "reranker": "b", "link_ranker": "l", "rerank": "path"}),
                "`reranker` = \"b\": must be left out",
            ),
        ] {
            let Err(error) = build_method("tfidf_bm25", &given, &SETTING) else { panic!("{given} was accepted") };
            assert!(error.to_string().contains(expected), "{given}: {error}");
        }
    }
}
