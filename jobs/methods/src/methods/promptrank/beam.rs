//! The machine: a beam search over paths, in the states of the table in [`super`].

use super::parameters::{LinkTies, PromptRankParameters, RerankUnit, TieOrder};
use super::{PromptRankSettings, documents, likelihood, prompting, reading};
use crate::machine::{Machine, MachineStep};
use crate::outcome::{Outcome, PassagePath};
use crate::ranking::{self, MeetingOrder};
use crate::request::{LinksPayload, PassageId, Request, RetrievePayload, Statistics};
use crate::response::{Failure, FailureKind, Response, RetrievalHit};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Passages in the order of a path.
type PathPassages = Vec<PassageId>;

/// One question.
pub(super) struct PromptRankMachine {
    settings: Arc<PromptRankSettings>,
    question: String,
    /// The scored text: the question, with a question mark if the parameters want one.
    target: String,
    /// The retriever's passages, best first.
    pool: PathPassages,
    /// The score of passages read together by the model: a path with `rerank = "path"`, else one passage. `None` for
    /// refused ones.
    scores: BTreeMap<PathPassages, Option<f64>>,
    /// Links of a passage, most similar to the question first.
    links: BTreeMap<PassageId, PathPassages>,
    /// The documents in the order of `ties = "pool"`; empty for other orders.
    met: MeetingOrder,
    /// All paths with a score.
    paths: Vec<PassagePath>,
    /// The paths of the last hop, best first; during expansion, the best of them.
    beam: Vec<PassagePath>,
    /// The number of scored hops.
    hops: u32,
    /// The first refusal of a score.
    refused: Option<Failure>,
    state: PromptRankState,
}

enum PromptRankState {
    Start,
    Pooled,
    /// Waits for the scores of `asked`. The scores of `paths` follow from them.
    Scored {
        paths: Vec<PathPassages>,
        asked: Vec<PathPassages>,
    },
    /// Waits for the links of these passages.
    Linked(Vec<PassageId>),
    /// Waits for the order of the links of these passages.
    Followed(Vec<(PassageId, PathPassages)>),
    /// Waits for the spans of the best paths.
    Read,
}

impl Machine for PromptRankMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match std::mem::replace(&mut self.state, PromptRankState::Start) {
            PromptRankState::Start => Ok(self.retrieve()),
            PromptRankState::Pooled => self.pooled(responses),
            PromptRankState::Scored { paths, asked } => self.scored(paths, asked, responses),
            PromptRankState::Linked(parents) => self.linked(parents, responses),
            PromptRankState::Followed(parents) => self.followed(parents, responses),
            PromptRankState::Read => self.read_answer(responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl PromptRankMachine {
    pub(super) fn new(settings: Arc<PromptRankSettings>, question: &str) -> Self {
        let marked = settings.parameters.question_mark && !question.ends_with('?');
        Self {
            target: if marked { format!("{question}?") } else { question.to_owned() },
            question: question.to_owned(),
            settings,
            pool: Vec::new(),
            scores: BTreeMap::new(),
            links: BTreeMap::new(),
            met: MeetingOrder::default(),
            paths: Vec::new(),
            beam: Vec::new(),
            hops: 0,
            refused: None,
            state: PromptRankState::Start,
        }
    }

    fn retrieve(&mut self) -> MachineStep {
        self.state = PromptRankState::Pooled;
        let parameters = &self.settings.parameters;
        let ask = RetrievePayload::new(&self.question, parameters.pool);
        MachineStep::Ask(vec![Request::new(&parameters.retriever, ask)])
    }

    fn pooled(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let hits = Response::only(responses)?.hits()?;
        let ranked = ranking::from_hits(hits, self.settings.parameters.pool);
        self.pool = ranked.into_iter().map(|entry| entry.passage).collect();
        if self.pool.is_empty() {
            return Ok(MachineStep::Done(Outcome { iterations: 1, ..Outcome::default() }));
        }
        let alone = self.pool.iter().map(|&passage| vec![passage]).collect();
        self.request_scores(alone)
    }

    /// Requests the missing scores for `paths`, all of one length.
    fn request_scores(&mut self, paths: Vec<PathPassages>) -> Result<MachineStep, Failure> {
        let mut seen = BTreeSet::new();
        let asked: Vec<PathPassages> = paths
            .iter()
            .map(|path| self.read_together(path))
            .filter(|passages| !self.scores.contains_key(passages) && seen.insert(passages.clone()))
            .collect();
        if asked.is_empty() {
            return self.settle_scores(paths);
        }
        let PromptRankSettings { parameters, contexts } = &*self.settings;
        let one = |passages: &PathPassages| {
            let ask = |context| prompting::score_payload(parameters, context, passages, &self.target);
            contexts.iter().map(ask).map(|ask| Request::new(&parameters.scorer, ask)).collect::<Vec<_>>()
        };
        let requests = asked.iter().flat_map(one).collect();
        self.state = PromptRankState::Scored { paths, asked };
        Ok(MachineStep::Ask(requests))
    }

    /// The passages read by the model to score the last step of a path.
    fn read_together(&self, path: &[PassageId]) -> PathPassages {
        match (self.settings.parameters.rerank, path.last()) {
            (RerankUnit::Passage, Some(&last)) => vec![last],
            _ => path.to_vec(),
        }
    }

    fn scored(
        &mut self,
        paths: Vec<PathPassages>,
        asked: Vec<PathPassages>,
        responses: Vec<Response>,
    ) -> Result<MachineStep, Failure> {
        let contexts = self.settings.contexts.len();
        check_count(&responses, asked.len() * contexts)?;
        let mut responses = responses.into_iter();
        for passages in asked {
            let score = self.combine_contexts(responses.by_ref().take(contexts))?;
            self.scores.insert(passages, score);
        }
        self.settle_scores(paths)
    }

    /// The score of passages read in this hop, from the responses in each context; `None` if one is refused in every
    /// run.
    fn combine_contexts(&mut self, responses: impl Iterator<Item = Response>) -> Result<Option<f64>, Failure> {
        let settings = Arc::clone(&self.settings);
        let parameters = &settings.parameters;
        let mut contexts = Vec::with_capacity(settings.contexts.len());
        let mut refused = false;
        for response in responses {
            match response.result {
                Err(failure) if failure.kind.is_determinate() => {
                    refused = true;
                    self.refused.get_or_insert(failure);
                }
                _ => contexts.push(likelihood::counted_logprobs(&response.scores()?, parameters)?),
            }
        }
        if refused {
            return Ok(None);
        }
        let ensemble = parameters.ensemble_at(self.hops + 1);
        likelihood::combined_score(&contexts, ensemble, parameters.normalise).map(Some)
    }

    /// Gives `paths` their scores and continues from them.
    fn settle_scores(&mut self, paths: Vec<PathPassages>) -> Result<MachineStep, Failure> {
        self.hops += 1;
        let path = |passages: PathPassages| self.path_score(&passages).map(|score| PassagePath { passages, score });
        self.beam = paths.into_iter().filter_map(path).collect();
        self.note_meetings();
        best_first(&mut self.beam, self.settings.parameters.ties);
        self.paths.extend(self.beam.iter().cloned());
        match self.refused.take() {
            Some(refused) if self.paths.is_empty() => Err(refused),
            refused => {
                self.refused = refused;
                self.expand_paths()
            }
        }
    }

    /// Notes the order of the documents of this hop, whose paths are in the order of their requests: the pool's, then
    /// behind each expanded path its new documents, the better first. The authors' dict of scores grows in this order.
    fn note_meetings(&mut self) {
        if self.settings.parameters.ties != TieOrder::Pool {
            return;
        }
        if self.hops == 1 {
            self.pool.iter().for_each(|&passage| _ = self.met.note(passage));
        }
        let parent = |path: &PassagePath| path.passages.split_last().map(|(_, parents)| parents.to_vec());
        let mut beam = self.beam.clone();
        for expansion in beam.chunk_by_mut(|a, b| self.hops > 1 && parent(a) == parent(b)) {
            best_first(expansion, TieOrder::Pool);
            expansion.iter().filter_map(|path| path.passages.last()).for_each(|&passage| _ = self.met.note(passage));
        }
    }

    /// The score of a path. If its passages are read one by one, it is their mean.
    fn path_score(&self, path: &[PassageId]) -> Option<f64> {
        match self.settings.parameters.rerank {
            RerankUnit::Path => self.scores.get(path).copied().flatten(),
            RerankUnit::Passage => {
                let own = |&passage: &PassageId| self.scores.get(&[passage][..]).copied().flatten();
                let own: Option<Vec<f64>> = path.iter().map(own).collect();
                own.map(|scores| likelihood::mean(&scores))
            }
        }
    }

    /// Requests the links of the best paths, or ends.
    fn expand_paths(&mut self) -> Result<MachineStep, Failure> {
        let parameters = &self.settings.parameters;
        self.beam.truncate(parameters.paths_to_expand(self.hops) as usize);
        if self.hops >= parameters.hops || self.beam.is_empty() {
            return Ok(self.finish_search());
        }
        let mut parents: Vec<PassageId> = Vec::new();
        for last in self.beam.iter().filter_map(|path| path.passages.last()) {
            if !self.links.contains_key(last) && !parents.contains(last) {
                parents.push(*last);
            }
        }
        if parents.is_empty() {
            return self.extend_paths();
        }
        let direction = parameters.link_direction;
        let links = |&passage| Request::new(&parameters.links, LinksPayload { passage, direction, read: false });
        let requests = parents.iter().map(links).collect();
        self.state = PromptRankState::Linked(parents);
        Ok(MachineStep::Ask(requests))
    }

    fn linked(&mut self, parents: Vec<PassageId>, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        check_count(&responses, parents.len())?;
        let mut followed = Vec::new();
        for (parent, response) in parents.into_iter().zip(responses) {
            let mut links = response.links_if_any()?;
            links.retain(|&link| link != parent);
            if links.is_empty() {
                self.links.insert(parent, links);
            } else {
                followed.push((parent, links));
            }
        }
        if followed.is_empty() {
            return self.extend_paths();
        }
        // All links are ranked, for any L: the path decides which of them count, and ties are decided here.
        let parameters = &self.settings.parameters;
        let ranker = parameters.link_ranker.as_ref().unwrap_or(&parameters.retriever);
        let rank = |(_, links): &(PassageId, PathPassages)| {
            let links = ranking::as_set(links.iter().copied());
            let ask = RetrievePayload::new(&self.question, links.len() as u32);
            Request::new(ranker, ask.within(links, Statistics::Restriction))
        };
        let requests = followed.iter().map(rank).collect();
        self.state = PromptRankState::Followed(followed);
        Ok(MachineStep::Ask(requests))
    }

    fn followed(
        &mut self,
        parents: Vec<(PassageId, PathPassages)>,
        responses: Vec<Response>,
    ) -> Result<MachineStep, Failure> {
        check_count(&responses, parents.len())?;
        for ((parent, links), response) in parents.into_iter().zip(responses) {
            let ordered = order_links(&links, response.hits()?, &self.settings.parameters);
            self.links.insert(parent, ordered);
        }
        self.extend_paths()
    }

    /// Extends each path by the best new links of its last passage.
    fn extend_paths(&mut self) -> Result<MachineStep, Failure> {
        let most = self.settings.parameters.links_per_passage.at(self.hops) as usize;
        let mut longer = Vec::new();
        for PassagePath { passages, .. } in &self.beam {
            let links = passages.last().and_then(|last| self.links.get(last)).into_iter().flatten();
            let new = links.filter(|link| !passages.contains(link)).take(most);
            longer.extend(new.map(|&link| passages.iter().copied().chain([link]).collect::<PathPassages>()));
        }
        if longer.is_empty() { Ok(self.finish_search()) } else { self.request_scores(longer) }
    }

    /// Puts all paths in order, and asks the reader, if there is one.
    fn finish_search(&mut self) -> MachineStep {
        let parameters = &self.settings.parameters;
        best_first(&mut self.paths, parameters.ties);
        let Some(reader) = parameters.reader.as_ref().filter(|_| !self.paths.is_empty()) else {
            return MachineStep::Done(self.final_outcome(None));
        };
        let read = self.paths.iter().take(parameters.read_paths as usize);
        let requests =
            read.map(|path| Request::new(reader, reading::read_payload(parameters, &self.question, path))).collect();
        self.state = PromptRankState::Read;
        MachineStep::Ask(requests)
    }

    fn read_answer(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let parameters = &self.settings.parameters;
        check_count(&responses, self.paths.len().min(parameters.read_paths as usize))?;
        let answer = reading::best_answer(parameters, &self.paths, responses)?;
        Ok(MachineStep::Done(self.final_outcome(answer)))
    }

    fn final_outcome(&mut self, answer: Option<String>) -> Outcome {
        let parameters = &self.settings.parameters;
        let mut ranked = match parameters.rerank {
            RerankUnit::Path => documents::ranked_documents(&self.paths, parameters.document_score, &self.met),
            RerankUnit::Passage => {
                let alone = self.scores.iter().filter_map(|(passages, score)| {
                    score.map(|score| PassagePath { passages: passages.clone(), score })
                });
                documents::ranked_documents(&alone.collect::<Vec<_>>(), parameters.document_score, &self.met)
            }
        };
        ranking::append_missing(&mut ranked, &self.pool);
        Outcome { answer, ranked, paths: std::mem::take(&mut self.paths), iterations: self.hops, ..Outcome::default() }
    }
}

/// Links, the most similar first, each once. Hits outside the links are a retriever's fault and left out.
fn order_links(links: &[PassageId], hits: Vec<RetrievalHit>, parameters: &PromptRankParameters) -> PathPassages {
    let place = |passage: PassageId| links.iter().position(|&link| link == passage);
    let later_first = parameters.link_ties == LinkTies::Later;
    let ranked = ranking::from_hits(hits, u32::MAX);
    let mut ranked: Vec<(PassageId, f64, usize)> =
        ranked.into_iter().filter_map(|hit| Some((hit.passage, hit.score, place(hit.passage)?))).collect();
    if later_first {
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.2.cmp(&a.2)));
    }
    let mut ordered: PathPassages = ranked.into_iter().map(|(passage, ..)| passage).collect();
    // The retriever weighs no word with statistics of one or two passages, and returns none of them.
    if parameters.link_ranker.is_none() {
        let mut rest = ranking::as_set(links.iter().copied().filter(|link| !ordered.contains(link)));
        if later_first {
            rest.sort_by_key(|&passage| Reverse(place(passage)));
        }
        ordered.extend(rest);
    }
    ordered
}

/// Puts the better paths first. The sort is stable: `pool` keeps the order of equally good ones.
fn best_first(paths: &mut [PassagePath], ties: TieOrder) {
    paths.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then_with(|| match ties {
            TieOrder::SmallerId => a.passages.cmp(&b.passages),
            TieOrder::Pool => Ordering::Equal,
        })
    });
}

/// Checks that every request of the round has a response.
fn check_count(responses: &[Response], requests: usize) -> Result<(), Failure> {
    if responses.len() == requests {
        return Ok(());
    }
    let message = format!("{} responses to {requests} requests", responses.len());
    Err(Failure { kind: FailureKind::Dropped, message })
}
