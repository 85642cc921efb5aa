//! The machine of `rerank = "path"`: paths of a passage and one of its links, scored by BM25 over their texts.
//!
//! ```text
//! state    | responses                     | next     | asks or ends with
//! ---------+-------------------------------+----------+---------------------------------------------------------------
//! Start    | none                          | Pooled   | retriever: Retrieve(question, pool), with texts
//! Pooled   | hits                          | Linked   | link_ranker: Retrieve(question, all, within the pool), and
//!          |                               |          | Links(passage) for the best `expand` of the pool
//! Pooled   | no hits                       | end      | ranked: nothing
//! Linked   | similarities, lists of links  | Followed | link_ranker: Retrieve(question, all, within the links), with
//!          |                               |          | texts, for each passage with links
//! Linked   | similarities, no links at all | end      | ranked: the pool, by its similarities
//! Followed | hits                          | end      | ranked: passages of pool and paths
//! ```
//!
//! A passage's score is the greatest of its cosine within the pool and of the scores of the paths with it: numbers of
//! two scales, as in the authors' code. The expanded passages are the retriever's best, whatever their cosine. Equally
//! similar links: the one that stands later in the passage comes first. Equally good passages: those of the pool first,
//! in its order, then the others in the order in which the search met them. Links that the ranker leaves out are not
//! followed.

use super::{PathFit, TfidfBm25Parameters};
use crate::machine::{Machine, MachineStep};
use crate::okapi::{OkapiConstants, okapi_scores};
use crate::outcome::{Outcome, PassagePath};
use crate::ranking::{self, MeetingOrder};
use crate::request::{Direction, LinksPayload, PassageId, Request, RetrievePayload, ServiceName, Statistics};
use crate::response::{Failure, FailureKind, Response, RetrievalHit};
use hopeval_pytext::treebank_words;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The numbers of the authors' call of `BM25Okapi`.
const CONSTANTS: OkapiConstants = OkapiConstants { k1: 2.0, b: 0.75 };

/// One question.
pub(super) struct PathMachine {
    parameters: Arc<TfidfBm25Parameters>,
    query: String,
    /// The retriever's passages, best first.
    pool: Vec<PassageId>,
    /// The cosine of each passage of the pool.
    cosines: BTreeMap<PassageId, f64>,
    /// The texts of pool and links.
    texts: BTreeMap<PassageId, String>,
    state: PathState,
}

enum PathState {
    Start,
    Pooled,
    Linked,
    /// Waits for the order of the links of these passages, in the order of the pool.
    Followed(Vec<(PassageId, Vec<PassageId>)>),
}

impl Machine for PathMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match std::mem::replace(&mut self.state, PathState::Start) {
            PathState::Start => Ok(self.retrieve()),
            PathState::Pooled => self.pooled(responses),
            PathState::Linked => self.linked(responses),
            PathState::Followed(parents) => self.followed(parents, responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl PathMachine {
    pub(super) fn new(parameters: Arc<TfidfBm25Parameters>, question: &str) -> Self {
        Self {
            parameters,
            query: question.to_owned(),
            pool: Vec::new(),
            cosines: BTreeMap::new(),
            texts: BTreeMap::new(),
            state: PathState::Start,
        }
    }

    fn retrieve(&mut self) -> MachineStep {
        self.state = PathState::Pooled;
        let ask = RetrievePayload { read: true, ..RetrievePayload::new(&self.query, self.parameters.pool) };
        MachineStep::Ask(vec![Request::new(&self.parameters.retriever, ask)])
    }

    fn link_ranker(&self) -> &ServiceName {
        self.parameters.link_ranker.as_ref().unwrap_or(&self.parameters.retriever)
    }

    fn pooled(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let response = Response::only(responses)?;
        self.keep_texts(&response);
        let ranked = ranking::from_hits(response.hits()?, self.parameters.pool);
        self.pool = ranked.into_iter().map(|entry| entry.passage).collect();
        if self.pool.is_empty() {
            return Ok(MachineStep::Done(Outcome { iterations: 1, ..Outcome::default() }));
        }
        let within = ranking::as_set(self.pool.iter().copied());
        let ask = RetrievePayload::new(&self.query, within.len() as u32).within(within, Statistics::Restriction);
        let mut requests = vec![Request::new(self.link_ranker(), ask)];
        let links = |&passage: &PassageId| {
            let ask = LinksPayload { passage, direction: Direction::Outgoing, read: false };
            Request::new(&self.parameters.links, ask)
        };
        requests.extend(self.expanded().iter().map(links));
        self.state = PathState::Linked;
        Ok(MachineStep::Ask(requests))
    }

    /// The passages of the pool that are expanded.
    fn expanded(&self) -> &[PassageId] {
        let most = self.parameters.expand.unwrap_or(u32::MAX) as usize;
        &self.pool[..self.pool.len().min(most)]
    }

    fn linked(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut responses = responses.into_iter();
        let similarities = Response::only(responses.by_ref().take(1).collect())?.hits()?;
        self.cosines = similarities.into_iter().map(|hit| (hit.passage, hit.score)).collect();
        let mut parents = Vec::new();
        for (&parent, response) in self.expanded().iter().zip(responses) {
            let mut links = response.links_if_any()?;
            links.retain(|&link| link != parent);
            if !links.is_empty() {
                parents.push((parent, links));
            }
        }
        if parents.is_empty() {
            return Ok(MachineStep::Done(self.pool_outcome()));
        }
        let rank = |(_, links): &(PassageId, Vec<PassageId>)| {
            let links = ranking::as_set(links.iter().copied());
            let ask = RetrievePayload { read: true, ..RetrievePayload::new(&self.query, links.len() as u32) };
            Request::new(self.link_ranker(), ask.within(links, Statistics::Restriction))
        };
        let requests = parents.iter().map(rank).collect();
        self.state = PathState::Followed(parents);
        Ok(MachineStep::Ask(requests))
    }

    /// Without any path: the pool by its cosines, of equal ones in the retriever's order.
    fn pool_outcome(&self) -> Outcome {
        let mut met = MeetingOrder::default();
        let scores = self.pool_cosines(&mut met);
        Outcome { ranked: met.ranked(scores, self.parameters.k), iterations: 1, ..Outcome::default() }
    }

    /// The pool's passages with their cosines, met in the retriever's order.
    fn pool_cosines(&self, met: &mut MeetingOrder) -> BTreeMap<PassageId, f64> {
        let cosine = |passage: &PassageId| self.cosines.get(passage).copied().unwrap_or_default();
        self.pool.iter().map(|passage| (met.note(*passage), cosine(passage))).collect()
    }

    fn followed(
        &mut self,
        parents: Vec<(PassageId, Vec<PassageId>)>,
        responses: Vec<Response>,
    ) -> Result<MachineStep, Failure> {
        let most = self.parameters.links_per_passage.unwrap_or(u32::MAX) as usize;
        let mut expansions: Vec<Vec<[PassageId; 2]>> = Vec::new();
        for ((parent, links), response) in parents.into_iter().zip(responses) {
            self.keep_texts(&response);
            let ordered = later_link_first(&links, response.hits()?);
            expansions.push(ordered.into_iter().take(most).map(|link| [parent, link]).collect());
        }
        if expansions.iter().all(Vec::is_empty) {
            return Ok(MachineStep::Done(self.pool_outcome()));
        }
        self.final_outcome(&expansions).map(MachineStep::Done)
    }

    /// Scores the paths of all expansions, and the passages on them.
    fn final_outcome(&self, expansions: &[Vec<[PassageId; 2]>]) -> Result<Outcome, Failure> {
        let marked = self.parameters.question_mark && !self.query.ends_with('?');
        let query = treebank_words(&if marked { format!("{}?", self.query) } else { self.query.clone() });
        let paths: Vec<[PassageId; 2]> = expansions.concat();
        let words = paths.iter().map(|path| self.path_words(path)).collect::<Result<Vec<_>, _>>()?;
        let words: Vec<&[String]> = words.iter().map(Vec::as_slice).collect();
        let mut met = MeetingOrder::default();
        let mut best = self.pool_cosines(&mut met);
        let mut scores = Vec::new();
        let mut fitted = 0;
        for expansion in expansions {
            fitted += expansion.len();
            let growing = self.parameters.fit == PathFit::Growing;
            if expansion.is_empty() && growing {
                continue;
            }
            scores = okapi_scores(CONSTANTS, &words[..if growing { fitted } else { words.len() }], &query);
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            for path in order {
                for passage in paths[path] {
                    let score = best.entry(met.note(passage)).or_insert(f64::NEG_INFINITY);
                    *score = score.max(scores[path]);
                }
            }
            if !growing {
                break;
            }
        }
        let ranked = met.ranked(best, self.parameters.k);
        let path = |(passages, score): (&[PassageId; 2], f64)| PassagePath { passages: passages.to_vec(), score };
        let mut paths: Vec<PassagePath> = paths.iter().zip(scores).map(path).collect();
        paths.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(Outcome { ranked, paths, iterations: 2, ..Outcome::default() })
    }

    /// The words of a path: the texts of its passages with a space between them.
    fn path_words(&self, path: &[PassageId; 2]) -> Result<Vec<String>, Failure> {
        let text = |passage: PassageId| {
            let message = || format!("the text of passage {passage} is missing from a response");
            self.texts.get(&passage).ok_or_else(|| Failure { kind: FailureKind::Dropped, message: message() })
        };
        Ok(treebank_words(&format!("{} {}", text(path[0])?, text(path[1])?)))
    }

    fn keep_texts(&mut self, response: &Response) {
        self.texts.extend(response.passages.iter().map(|text| (text.passage, text.text.clone())));
    }
}

/// Links, the most similar first; of equally similar ones the later in the passage. Hits outside the links are a
/// ranker's fault and left out.
fn later_link_first(links: &[PassageId], hits: Vec<RetrievalHit>) -> Vec<PassageId> {
    let place = |passage| links.iter().position(|&link| link == passage);
    let ranked = ranking::from_hits(hits, u32::MAX);
    let mut placed: Vec<_> =
        ranked.into_iter().filter_map(|hit| Some((hit.passage, hit.score, place(hit.passage)?))).collect();
    placed.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.2.cmp(&a.2)));
    placed.into_iter().map(|(passage, ..)| passage).collect()
}
