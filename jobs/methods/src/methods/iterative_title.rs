//! `iterative_title`: hops by following the links of the best passages, and ranks the passages on the paths.
//!
//! A retriever-only relative of PromptRank's path expansion. In section 2.1, the most promising paths are expanded by
//! the best few links of their last passage. This method needs no language model and up to 2 * `hops` - 1 dependent
//! rounds for each question.
//!
//! ```text
//! state    | responses                   | next     | asks or ends with
//! ---------+-----------------------------+----------+-----------------------------------------------------------
//! Start    | none                        | Hits     | Retrieve(question, pool)
//! Hits     | hits                        | expand   | the pool begins: each hit is a path of one passage
//! Linked   | links, one list per passage | Linked   | no links at all: expand
//! Linked   | links, one list per passage | Followed | Retrieve(query, width, within links) for each with links
//! Followed | hits, one list per passage  | expand   | each hit extends the path of the passage it is linked from
//! (expand) |                             | Linked   | Links(passage) for the `beam` best passages not yet expanded
//! (expand) | `hops` are used up, or none | end      | ranked and paths
//! ```
//!
//! # Expansion
//! A hit's own score is the retriever's; the score of a path is the mean of its passages' own scores. A passage is as
//! good as its best path (PromptRank's "document scores", section 3). This may be the path of it alone. So a link of a
//! good passage rises. Ties go to the smaller passage id.
//!
//! # Merge
//! `after_parent`: the hits of the first retrieval in their order, each followed at once by its kept links, best first,
//! and each of these by its own: the order of a person who clicks on links. A passage stands at its first place; the
//! score is the reciprocal rank. `path_mean`: by the best path's score.
//!
//! The query of a hop is the question, or the question and the title of the passage with the ranked links. A failed
//! retrieval ends in that failure, and so does an indeterminate failure of links. Links with a failure in every run are
//! no links.

use crate::machine::{ContextMode, Machine, MachineStep, Method, MethodError, MethodSetting, Question, ServiceUse};
use crate::outcome::{Outcome, PassagePath, RankedPassage};
use crate::ranking;
use crate::registry::{ConfigurableMethod, MethodInfo, ParameterInfo, at_least_one};
use crate::request::{
    Direction, LinksPayload, PassageId, Request, RequestKind, RetrievePayload, ServiceName, Statistics,
};
use crate::response::{Failure, PassageText, Response};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One configuration.
pub(crate) struct IterativeTitle {
    parameters: Arc<IterativeTitleParameters>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IterativeTitleParameters {
    retriever: ServiceName,
    #[serde(default = "ServiceName::corpus")]
    links: ServiceName,
    #[serde(default = "default_hops")]
    hops: u32,
    #[serde(default = "default_beam")]
    beam: u32,
    #[serde(default = "default_pool")]
    pool: u32,
    #[serde(default = "default_width")]
    width: u32,
    #[serde(default = "default_query")]
    query: LinkQuery,
    #[serde(default = "default_statistics")]
    statistics: Statistics,
    #[serde(default = "default_merge")]
    merge: MergeRule,
    #[serde(default = "default_k")]
    k: u32,
}

/// The rule to merge hits and links into one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MergeRule {
    AfterParent,
    PathMean,
}

/// The query to rank the links of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum LinkQuery {
    #[serde(rename = "question")]
    Question,
    #[serde(rename = "question+title")]
    QuestionAndTitle,
}

fn default_hops() -> u32 {
    3
}

fn default_beam() -> u32 {
    1
}

fn default_pool() -> u32 {
    20
}

fn default_width() -> u32 {
    3
}

fn default_query() -> LinkQuery {
    LinkQuery::Question
}

fn default_statistics() -> Statistics {
    Statistics::Corpus
}

fn default_merge() -> MergeRule {
    MergeRule::AfterParent
}

fn default_k() -> u32 {
    20
}

impl ConfigurableMethod for IterativeTitle {
    const INFO: MethodInfo = MethodInfo {
        kind: "iterative_title",
        description: "Hops by following the links of the best passages",
        paper: "the project's own, after the path expansion of PromptRank (Khalifa et al., 2023), section 2.1",
        parameters: &[
            ParameterInfo {
                name: "retriever",
                values: "name of a retriever",
                default: None,
                documentation: "Finds the first passages and ranks links.",
            },
            ParameterInfo {
                name: "links",
                values: "name of a service",
                default: Some("\"corpus\""),
                documentation: "Knows the links of passages.",
            },
            ParameterInfo {
                name: "hops",
                values: "integer, at least 1",
                default: Some("3"),
                documentation: "Passages on the longest path; 1 is one_step.",
            },
            ParameterInfo {
                name: "beam",
                values: "integer, at least 1",
                default: Some("1"),
                documentation: "Passages expanded at each hop, the best ones.",
            },
            ParameterInfo {
                name: "pool",
                values: "integer, at least 1",
                default: Some("20"),
                documentation: "Passages found by the first retrieval.",
            },
            ParameterInfo {
                name: "width",
                values: "integer, at least 1",
                default: Some("3"),
                documentation: "Links kept of each expanded passage, the best ones (L in PromptRank).",
            },
            ParameterInfo {
                name: "query",
                values: "\"question\" or \"question+title\"",
                default: Some("\"question\""),
                documentation: "What links are ranked by; the title is that of the passage that has the links.",
            },
            ParameterInfo {
                name: "statistics",
                values: "\"corpus\" or \"restriction\"",
                default: Some("\"corpus\""),
                documentation: "Whether links are ranked with the corpus's statistics or those of the links alone.",
            },
            ParameterInfo {
                name: "merge",
                values: "\"after_parent\" or \"path_mean\"",
                default: Some("\"after_parent\""),
                documentation: "Whether links rank right after the passage that has them, or by the mean score of the \
                                path.",
            },
            ParameterInfo {
                name: "k",
                values: "integer, at least 1",
                default: Some("20"),
                documentation: "Passages ranked, the best ones; by default as many as the job's measures look at.",
            },
        ],
    };

    type Parameters = IterativeTitleParameters;

    fn ranking_length(largest_cut_off: u32) -> Option<(&'static str, u32)> {
        Some(("k", largest_cut_off))
    }

    fn new(parameters: IterativeTitleParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let IterativeTitleParameters { hops, beam, pool, width, k, .. } = parameters;
        for (name, value) in [("hops", hops), ("beam", beam), ("pool", pool), ("width", width), ("k", k)] {
            at_least_one(Self::INFO.kind, name, value)?;
        }
        Ok(Self { parameters: Arc::new(parameters) })
    }
}

impl Method for IterativeTitle {
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
        let IterativeTitleParameters { hops, beam, pool, width, k, .. } = *self.parameters;
        let links = (hops - 1).saturating_mul(beam).saturating_mul(width);
        Some(k.min(pool.saturating_add(links)))
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let parameters = &self.parameters;
        vec![
            ServiceUse::new("retriever", &parameters.retriever, RequestKind::Retrieve),
            ServiceUse::new("links", &parameters.links, RequestKind::Links),
        ]
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let IterativeTitleParameters { hops, beam, .. } = *self.parameters;
        let expanded = u64::from(hops - 1) * u64::from(beam);
        Some(vec![(RequestKind::Retrieve, expanded + 1), (RequestKind::Links, expanded)])
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(IterativeTitleMachine {
            parameters: Arc::clone(&self.parameters),
            question: question.text.clone(),
            pool: BTreeMap::new(),
            found: Vec::new(),
            links: BTreeMap::new(),
            titles: BTreeMap::new(),
            hop: 0,
            state: IterativeTitleState::Start,
        })
    }
}

struct IterativeTitleMachine {
    parameters: Arc<IterativeTitleParameters>,
    question: String,
    pool: BTreeMap<PassageId, PoolEntry>,
    /// The hits of the first retrieval, best first.
    found: Vec<PassageId>,
    /// The kept links of each expanded passage, best first.
    links: BTreeMap<PassageId, Vec<PassageId>>,
    /// Titles of the pool's passages, read only if queries need them.
    titles: BTreeMap<PassageId, String>,
    /// Hops begun so far.
    hop: u32,
    state: IterativeTitleState,
}

/// A passage of the pool with its best path.
struct PoolEntry {
    /// First hop first; ends with the passage itself.
    path: Vec<PassageId>,
    /// Sum of the own scores along the path.
    sum: f64,
    expanded: bool,
}

impl PoolEntry {
    fn path_score(&self) -> f64 {
        self.sum / self.path.len() as f64
    }
}

enum IterativeTitleState {
    Start,
    Hits,
    /// Waits for the links of these passages.
    Linked(Vec<PassageId>),
    /// Waits for the ranked links of these passages.
    Followed(Vec<PassageId>),
}

impl Machine for IterativeTitleMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match std::mem::replace(&mut self.state, IterativeTitleState::Start) {
            IterativeTitleState::Start => Ok(self.retrieve()),
            IterativeTitleState::Hits => self.take_hits(responses),
            IterativeTitleState::Linked(parents) => self.linked(&parents, responses),
            IterativeTitleState::Followed(parents) => self.followed(&parents, responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl IterativeTitleMachine {
    fn retrieve(&mut self) -> MachineStep {
        self.state = IterativeTitleState::Hits;
        let ask =
            RetrievePayload { read: self.reads_titles(), ..RetrievePayload::new(&self.question, self.parameters.pool) };
        MachineStep::Ask(vec![Request::new(&self.parameters.retriever, ask)])
    }

    fn take_hits(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut response = Response::only(responses)?;
        self.remember_titles(std::mem::take(&mut response.passages));
        let hits = response.hits()?;
        for RankedPassage { passage, score } in ranking::from_hits(hits, self.parameters.pool) {
            self.pool.insert(passage, PoolEntry { path: vec![passage], sum: score, expanded: false });
            self.found.push(passage);
        }
        self.hop = 1;
        Ok(self.expand_best())
    }

    /// Requests the links of the best passages not yet expanded, or ends.
    fn expand_best(&mut self) -> MachineStep {
        if self.hop >= self.parameters.hops {
            return self.finish_ranking();
        }
        let mut open: Vec<(PassageId, f64)> = self
            .pool
            .iter()
            .filter(|(_, entry)| !entry.expanded)
            .map(|(&id, entry)| (id, entry.path_score()))
            .collect();
        best_first(&mut open);
        let parents: Vec<PassageId> = open.into_iter().take(self.parameters.beam as usize).map(|(id, _)| id).collect();
        if parents.is_empty() {
            return self.finish_ranking();
        }
        self.hop += 1;
        for parent in &parents {
            if let Some(entry) = self.pool.get_mut(parent) {
                entry.expanded = true;
            }
        }
        let links = |&passage| LinksPayload { passage, direction: Direction::Outgoing, read: false };
        let requests = parents.iter().map(links).map(|ask| Request::new(&self.parameters.links, ask)).collect();
        self.state = IterativeTitleState::Linked(parents);
        MachineStep::Ask(requests)
    }

    fn linked(&mut self, parents: &[PassageId], responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut followed = Vec::new();
        let mut requests = Vec::new();
        for (&parent, response) in parents.iter().zip(responses) {
            let mut links = ranking::as_set(response.links_if_any()?);
            // A path does not return to its passages.
            links.retain(|passage| self.pool.get(&parent).is_none_or(|entry| !entry.path.contains(passage)));
            if !links.is_empty() {
                followed.push(parent);
                let ask = RetrievePayload::new(self.link_query(parent), self.parameters.width);
                let ask =
                    RetrievePayload { read: self.reads_titles(), ..ask.within(links, self.parameters.statistics) };
                requests.push(Request::new(&self.parameters.retriever, ask));
            }
        }
        if requests.is_empty() {
            return Ok(self.expand_best());
        }
        self.state = IterativeTitleState::Followed(followed);
        Ok(MachineStep::Ask(requests))
    }

    fn followed(&mut self, parents: &[PassageId], responses: Vec<Response>) -> Result<MachineStep, Failure> {
        // All paths are extended from their state before this hop, so the order of parents has no effect.
        let mut extended = Vec::new();
        for (&parent, mut response) in parents.iter().zip(responses) {
            self.remember_titles(std::mem::take(&mut response.passages));
            let hits = response.hits()?;
            let Some(entry) = self.pool.get(&parent) else { continue };
            for RankedPassage { passage, score } in ranking::from_hits(hits, self.parameters.width) {
                if !entry.path.contains(&passage) {
                    self.links.entry(parent).or_default().push(passage);
                    let path = entry.path.iter().copied().chain([passage]).collect();
                    extended.push((passage, PoolEntry { path, sum: entry.sum + score, expanded: false }));
                }
            }
        }
        for (passage, path) in extended {
            self.admit_path(passage, path);
        }
        Ok(self.expand_best())
    }

    /// Keeps the better path of a passage; of two equally good ones, the earlier.
    fn admit_path(&mut self, passage: PassageId, mut path: PoolEntry) {
        match self.pool.get_mut(&passage) {
            Some(known) if path.path_score().total_cmp(&known.path_score()).is_gt() => {
                path.expanded = known.expanded;
                *known = path;
            }
            Some(_) => {}
            None => {
                self.pool.insert(passage, path);
            }
        }
    }

    fn finish_ranking(&self) -> MachineStep {
        let mut scored: Vec<(PassageId, f64)> = self.pool.iter().map(|(&id, entry)| (id, entry.path_score())).collect();
        best_first(&mut scored);
        let path = |&(id, score): &(PassageId, f64)| {
            let path = &self.pool.get(&id)?.path;
            (path.len() > 1).then(|| PassagePath { passages: path.clone(), score })
        };
        let paths = scored.iter().filter_map(path).take(self.parameters.k as usize).collect();
        let mut ranked = match self.parameters.merge {
            MergeRule::AfterParent => ranking::by_position(self.links_after_parents()),
            MergeRule::PathMean => {
                scored.into_iter().map(|(passage, score)| RankedPassage { passage, score }).collect()
            }
        };
        ranked.truncate(self.parameters.k as usize);
        MachineStep::Done(Outcome { ranked, paths, iterations: self.hop, ..Outcome::default() })
    }

    /// The pool, depth first.
    fn links_after_parents(&self) -> Vec<PassageId> {
        let mut order = Vec::with_capacity(self.pool.len());
        let mut seen = BTreeSet::new();
        let mut next: Vec<PassageId> = self.found.iter().rev().copied().collect();
        while let Some(passage) = next.pop() {
            if seen.insert(passage) {
                order.push(passage);
                next.extend(self.links.get(&passage).into_iter().flatten().rev());
            }
        }
        order
    }

    fn reads_titles(&self) -> bool {
        self.parameters.query == LinkQuery::QuestionAndTitle
    }

    fn remember_titles(&mut self, passages: Vec<PassageText>) {
        self.titles.extend(passages.into_iter().map(|text| (text.passage, text.title)));
    }

    fn link_query(&self, parent: PassageId) -> String {
        match self.titles.get(&parent) {
            Some(title) if self.reads_titles() => format!("{} {title}", self.question),
            _ => self.question.clone(),
        }
    }
}

fn best_first(scored: &mut [(PassageId, f64)]) {
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
}
