//! The machine of `efficientrag`: retrieve, label, filter, and rank the pool.

use super::EfficientRagSettings;
use super::parameters::{EmptyQuery, PoolMembers, PoolOrder, QuerySource};
use super::reader;
use crate::machine::{Machine, MachineStep};
use crate::outcome::{Outcome, PassagePath, RankedPassage};
use crate::prompt::Content;
use crate::ranking;
use crate::request::{FilterPayload, LabelPayload, PassageId, Request, RetrievePayload};
use crate::response::{ChunkLabels, Failure, FailureKind, Response};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One question.
pub(super) struct EfficientRagMachine {
    settings: Arc<EfficientRagSettings>,
    question: String,
    /// The query of the current iteration.
    query: String,
    /// Every query so far, without the spaces around it.
    queries: BTreeSet<String>,
    /// Every chunk labelled so far, in order.
    labelled: Vec<LabelledChunk>,
    /// Iterations begun so far.
    iteration: u32,
    state: EfficientRagState,
}

/// A labelled chunk. The same passage may be labelled in several iterations.
struct LabelledChunk {
    passage: PassageId,
    iteration: u32,
    tag: ChunkTag,
    /// The largest logit of the other tags, less the logit of `<TERMINATE>`.
    margin: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkTag {
    Continue,
    Terminate,
    Finish,
}

/// The tags by their position in a checkpoint.
const TAGS: [ChunkTag; 3] = [ChunkTag::Continue, ChunkTag::Terminate, ChunkTag::Finish];

const TERMINATE: usize = 1;

enum EfficientRagState {
    Start,
    Retrieved,
    /// Waits for the labels of these chunks.
    Labelled(Vec<PassageId>),
    Filtered,
    /// Waits for the answer, after this many earlier requests for it.
    Answered(u32),
}

impl Machine for EfficientRagMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match std::mem::replace(&mut self.state, EfficientRagState::Start) {
            EfficientRagState::Start => Ok(self.retrieve()),
            EfficientRagState::Retrieved => self.retrieved(responses),
            EfficientRagState::Labelled(chunks) => self.labelled(&chunks, responses),
            EfficientRagState::Filtered => self.filtered(responses),
            EfficientRagState::Answered(asked) => self.answered(asked, responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

impl EfficientRagMachine {
    pub(super) fn new(settings: Arc<EfficientRagSettings>, question: String) -> Self {
        Self {
            settings,
            query: question.clone(),
            question,
            queries: BTreeSet::new(),
            labelled: Vec::new(),
            iteration: 0,
            state: EfficientRagState::Start,
        }
    }

    fn retrieve(&mut self) -> MachineStep {
        self.iteration += 1;
        self.queries.insert(self.query.trim().to_owned());
        self.state = EfficientRagState::Retrieved;
        let parameters = &self.settings.parameters;
        // Requests the chunks to be skipped in addition, so `k` remain.
        let passed_over = if parameters.exclude_seen { self.seen_passages().len() as u32 } else { 0 };
        let ask = RetrievePayload::new(&self.query, parameters.k.saturating_add(passed_over));
        MachineStep::Ask(vec![Request::new(&parameters.retriever, ask)])
    }

    fn retrieved(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let hits = Response::only(responses)?.hits()?;
        let parameters = &self.settings.parameters;
        let seen = if parameters.exclude_seen { self.seen_passages() } else { BTreeSet::new() };
        let found = ranking::from_hits(hits, u32::MAX).into_iter().map(|hit| hit.passage);
        let chunks: Vec<PassageId> =
            found.filter(|passage| !seen.contains(passage)).take(parameters.k as usize).collect();
        if chunks.is_empty() {
            return Ok(self.request_answer(0));
        }
        let query = self.query_for(parameters.label_query);
        let label = |&passage: &PassageId| LabelPayload {
            query: query.to_owned(),
            chunk: Content::Passage { passage, form: parameters.chunk_form() },
        };
        let requests = chunks.iter().map(|chunk| Request::new(&parameters.labeler, label(chunk))).collect();
        self.state = EfficientRagState::Labelled(chunks);
        Ok(MachineStep::Ask(requests))
    }

    fn labelled(&mut self, chunks: &[PassageId], responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut responses = responses.into_iter();
        let mut information = Vec::new();
        let mut continues = false;
        for &passage in chunks {
            let labels = Response::only(responses.by_ref().take(1).collect())?.labels()?;
            let (tag, margin) = decide_tag(&labels, self.settings.parameters.tags)?;
            self.labelled.push(LabelledChunk { passage, iteration: self.iteration, tag, margin });
            if tag == ChunkTag::Continue {
                continues = true;
                information.push(labels.information);
            }
        }
        let parameters = &self.settings.parameters;
        if !continues || self.iteration >= parameters.max_iterations {
            return Ok(self.request_answer(0));
        }
        information.retain(|text| !text.trim().is_empty());
        let ask = FilterPayload { query: self.query_for(parameters.filter_query).to_owned(), information };
        self.state = EfficientRagState::Filtered;
        Ok(MachineStep::Ask(vec![Request::new(&parameters.filter, ask)]))
    }

    fn filtered(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let next = Response::only(responses)?.next_query()?;
        let parameters = &self.settings.parameters;
        let known = next.trim();
        if (known.is_empty() && parameters.empty_query == EmptyQuery::Stop)
            || (parameters.stop_on_repeated_query && self.queries.contains(known))
        {
            return Ok(self.request_answer(0));
        }
        self.query = next;
        Ok(self.retrieve())
    }

    /// Requests the answer, or ends without one. `asked` counts the earlier requests.
    fn request_answer(&mut self, asked: u32) -> MachineStep {
        let passages: Vec<PassageId> = if self.settings.parameters.read_repeats {
            self.kept_by_iteration().into_iter().flat_map(|path| path.passages).collect()
        } else {
            self.ranked_pool().iter().map(|entry| entry.passage).collect()
        };
        match reader::answer_request(&self.settings, &self.question, &passages, asked) {
            Some(request) => {
                self.state = EfficientRagState::Answered(asked);
                MachineStep::Ask(vec![request])
            }
            None => self.end_with(None),
        }
    }

    fn answered(&mut self, asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        match reader::answer_in(&self.settings, Response::only(responses)?)? {
            Some(answer) => Ok(self.end_with(Some(answer))),
            None if reader::asks_again(&self.settings, asked) => Ok(self.request_answer(asked + 1)),
            // An extractive reader may find no span, but a language model was asked for JSON.
            None if self.settings.parameters.generator.is_some() => Err(reader::unparsed_failure()),
            None => Ok(self.end_with(None)),
        }
    }

    fn end_with(&self, answer: Option<String>) -> MachineStep {
        MachineStep::Done(Outcome {
            answer,
            ranked: self.ranked_pool(),
            paths: self.kept_by_iteration(),
            iterations: self.iteration,
            ..Outcome::default()
        })
    }

    /// The pool, each passage once.
    fn ranked_pool(&self) -> Vec<RankedPassage> {
        let (kept, terminated): (Vec<&LabelledChunk>, Vec<&LabelledChunk>) =
            self.labelled.iter().partition(|chunk| chunk.tag != ChunkTag::Terminate);
        let all = self.settings.parameters.pool == PoolMembers::All;
        let chunks = kept.into_iter().chain(terminated.into_iter().filter(|_| all));
        match self.settings.parameters.order {
            PoolOrder::Found => ranking::by_position(chunks.map(|chunk| chunk.passage)),
            PoolOrder::Tag => {
                let mut ranked: Vec<RankedPassage> =
                    chunks.map(|chunk| RankedPassage { passage: chunk.passage, score: chunk.margin }).collect();
                ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
                let mut seen = BTreeSet::new();
                ranked.retain(|entry| seen.insert(entry.passage));
                ranked
            }
        }
    }

    /// The kept chunks of each iteration, with repeats of earlier ones, scored by the reciprocal of the iteration.
    fn kept_by_iteration(&self) -> Vec<PassagePath> {
        let kept = |iteration| {
            let chunks = self.labelled.iter().filter(move |chunk| chunk.iteration == iteration);
            chunks.filter(|chunk| chunk.tag != ChunkTag::Terminate).map(|chunk| chunk.passage).collect()
        };
        (1..=self.iteration)
            .map(|iteration| PassagePath { passages: kept(iteration), score: 1.0 / f64::from(iteration) })
            .filter(|path| !path.passages.is_empty())
            .collect()
    }

    fn query_for(&self, source: QuerySource) -> &str {
        match source {
            QuerySource::Current => &self.query,
            QuerySource::Original => &self.question,
        }
    }

    fn seen_passages(&self) -> BTreeSet<PassageId> {
        self.labelled.iter().map(|chunk| chunk.passage).collect()
    }
}

/// The tag, and the margin of the best other tag over `<TERMINATE>`.
fn decide_tag(labels: &ChunkLabels, tags: u32) -> Result<(ChunkTag, f64), Failure> {
    let logits = &labels.tag_logits;
    let failure = |message| Failure { kind: FailureKind::ParseFailure, message };
    if logits.len() != tags as usize {
        return Err(failure(format!("the labeler has {} tags, the parameter `tags` says {tags}", logits.len())));
    }
    if let Some(logit) = logits.iter().find(|logit| !logit.is_finite()) {
        return Err(failure(format!("the logit of a tag is {logit}")));
    }
    let mut best = 0;
    for (index, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = index;
        }
    }
    let others = logits.iter().enumerate().filter(|(index, _)| *index != TERMINATE).map(|(_, &logit)| f64::from(logit));
    let margin = others.fold(f64::NEG_INFINITY, f64::max) - f64::from(logits[TERMINATE]);
    Ok((TAGS[best], margin))
}
