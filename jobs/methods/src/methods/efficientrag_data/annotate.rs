//! The machine of `efficientrag_data`: decompose, copy words, shorten queries, find negatives.

use super::{AnnotationSettings, prompting, reply};
use crate::annotation::{AnnotatedHop, Annotation};
use crate::machine::{Machine, MachineStep, Question};
use crate::outcome::Outcome;
use crate::ranking;
use crate::request::{PassageId, Request, RetrievePayload};
use crate::response::{Failure, FailureKind, Response};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One question.
pub(super) struct AnnotationMachine {
    settings: Arc<AnnotationSettings>,
    /// One gold passage for each slot, each once, in path order.
    passages: Vec<PassageId>,
    /// Gold sub-questions or evidences, as the prompt has them; `None` where the dataset has neither.
    evidence: Option<String>,
    /// Every gold passage.
    gold: BTreeSet<PassageId>,
    /// The known part of the annotation. The first hop's query is the question.
    annotation: Annotation,
    state: AnnotationState,
}

/// The response that the machine waits for. A number counts the earlier requests for it.
enum AnnotationState {
    Start,
    Decomposed(u32),
    /// The words of these steps.
    Labelled(Vec<usize>, u32),
    /// The query of the hop behind the last known one.
    Filtered(u32),
    Searched,
}

impl Machine for AnnotationMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match std::mem::replace(&mut self.state, AnnotationState::Start) {
            AnnotationState::Start => self.begin_annotation(),
            AnnotationState::Decomposed(asked) => self.decomposed(asked, responses),
            AnnotationState::Labelled(steps, asked) => self.labelled(&steps, asked, responses),
            AnnotationState::Filtered(asked) => self.filtered(asked, responses),
            AnnotationState::Searched => self.searched(responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

/// A failure with a message that begins with its stage, one of [`crate::annotation::STAGES`].
fn stage_failure(kind: FailureKind, stage: &str, reason: &str) -> Failure {
    Failure { kind, message: format!("{stage}: {reason}") }
}

/// Reads a generated text by `read`: its value, or the reason for its absence. A failed request is an outer error.
fn read_text<T>(
    response: Response,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Result<T, String>, Failure> {
    Ok(read(&response.generation()?.text))
}

/// The question's gold steps as numbered lines: sub-questions with their answers (MuSiQue), else evidences (2Wiki).
fn evidence_lines(question: &Question) -> Option<String> {
    let step = |(question, answer): &(String, Option<String>)| match answer {
        Some(answer) => format!("{question} {answer}"),
        None => question.clone(),
    };
    let lines: Vec<String> = match &question.decomposition[..] {
        [] => question.evidences.iter().map(|triple| triple.join(", ")).collect(),
        steps => steps.iter().map(step).collect(),
    };
    let numbered: Vec<String> = (1..).zip(&lines).map(|(number, line)| format!("{number}. {line}")).collect();
    (!numbered.is_empty()).then(|| numbered.join("\n"))
}

impl AnnotationMachine {
    pub(super) fn new(settings: Arc<AnnotationSettings>, question: &Question) -> Self {
        let mut passages = Vec::new();
        for &first in question.gold.iter().filter_map(|slot| slot.first()) {
            if !passages.contains(&first) {
                passages.push(first);
            }
        }
        let gold = question.gold.iter().flatten().copied().collect();
        let first = AnnotatedHop { query: question.text.clone(), found: Vec::new() };
        let annotation = Annotation { steps: Vec::new(), hops: vec![first] };
        let evidence = evidence_lines(question);
        Self { settings, passages, evidence, gold, annotation, state: AnnotationState::Start }
    }

    fn begin_annotation(&mut self) -> Result<MachineStep, Failure> {
        if self.passages.is_empty() {
            return Err(stage_failure(FailureKind::Refused, "passages", "the question has no gold passages"));
        }
        if self.evidence.is_none() && self.settings.templates.shows_evidence() {
            let reason = "the question has neither gold sub-questions nor evidences, and the prompt has {evidence}";
            return Err(stage_failure(FailureKind::Refused, "decomposition", reason));
        }
        Ok(self.decompose(0))
    }

    fn decompose(&mut self, asked: u32) -> MachineStep {
        self.state = AnnotationState::Decomposed(asked);
        let question = &self.annotation.hops[0].query;
        let (passages, evidence) = (&self.passages, self.evidence.as_deref());
        MachineStep::Ask(vec![prompting::decomposition_request(&self.settings, asked, question, passages, evidence)])
    }

    fn decomposed(&mut self, asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let most = self.settings.parameters.most_steps;
        let response = Response::only(responses)?;
        match read_text(response, |text| reply::parse_decomposition(text, &self.passages, most))? {
            Ok(steps) => {
                self.annotation.steps = steps;
                let all = (0..self.annotation.steps.len()).collect();
                Ok(self.label(all, 0))
            }
            Err(reason) => self.next_draw(asked, "decomposition", &reason).map(|asked| self.decompose(asked)),
        }
    }

    fn label(&mut self, steps: Vec<usize>, asked: u32) -> MachineStep {
        let all = &self.annotation.steps;
        let request = |&at: &usize| {
            prompting::labelling_request(&self.settings, asked, &reply::resolved_question(&all[at], all), &all[at])
        };
        let requests = steps.iter().map(request).collect();
        self.state = AnnotationState::Labelled(steps, asked);
        MachineStep::Ask(requests)
    }

    fn labelled(&mut self, steps: &[usize], asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut responses = responses.into_iter();
        let mut left = Vec::new();
        let mut why = String::new();
        for &at in steps {
            let response = Response::only(responses.by_ref().take(1).collect())?;
            match read_text(response, |text| reply::parse_string(text, "extracted_words"))? {
                Ok(words) => self.annotation.steps[at].words = words,
                Err(reason) => {
                    left.push(at);
                    why = format!("sub-question {}: {reason}", at + 1);
                }
            }
        }
        if !left.is_empty() {
            return self.next_draw(asked, "labelling", &why).map(|asked| self.label(left, asked));
        }
        Ok(self.go_on())
    }

    /// Requests the next hop's query. If all queries are known, requests the passages found by them.
    fn go_on(&mut self) -> MachineStep {
        let hops = self.annotation.depths().into_iter().max().map_or(0, |deepest| deepest + 1);
        if self.annotation.hops.len() < hops { self.filter(0) } else { self.search() }
    }

    fn filter(&mut self, asked: u32) -> MachineStep {
        let Annotation { steps, hops } = &self.annotation;
        let depths = self.annotation.depths();
        let found = (0..steps.len()).filter(|&at| depths[at] + 1 == hops.len() && self.annotation.is_needed(at));
        let information: Vec<&str> = found.map(|at| steps[at].words.as_str()).collect();
        let query = hops.last().map_or("", |hop| hop.query.as_str());
        let request = prompting::filtering_request(&self.settings, asked, query, &information);
        self.state = AnnotationState::Filtered(asked);
        MachineStep::Ask(vec![request])
    }

    fn filtered(&mut self, asked: u32, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let response = Response::only(responses)?;
        match read_text(response, |text| reply::parse_string(text, "filtered_query"))? {
            Ok(query) => {
                self.annotation.hops.push(AnnotatedHop { query, found: Vec::new() });
                Ok(self.go_on())
            }
            Err(reason) => self.next_draw(asked, "filtering", &reason).map(|asked| self.filter(asked)),
        }
    }

    fn search(&mut self) -> MachineStep {
        self.state = AnnotationState::Searched;
        let parameters = &self.settings.parameters;
        // Gold is removed from the hits, so `k` remain.
        let k = parameters.k.saturating_add(self.gold.len() as u32);
        let request = |hop: &AnnotatedHop| Request::new(&parameters.retriever, RetrievePayload::new(&hop.query, k));
        MachineStep::Ask(self.annotation.hops.iter().map(request).collect())
    }

    fn searched(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut responses = responses.into_iter();
        for hop in &mut self.annotation.hops {
            let hits = Response::only(responses.by_ref().take(1).collect())?.hits()?;
            let found = ranking::from_hits(hits, u32::MAX).into_iter().map(|hit| hit.passage);
            let others = found.filter(|passage| !self.gold.contains(passage));
            hop.found = others.take(self.settings.parameters.k as usize).collect();
        }
        let annotation =
            serde_json::to_string(&self.annotation).expect("plain data can be written as JSON; this is a bug");
        Ok(MachineStep::Done(Outcome {
            answer: Some(annotation),
            iterations: self.annotation.hops.len() as u32,
            ..Outcome::default()
        }))
    }

    /// The number of the next draw, or the stage's failure if its draws are used up.
    fn next_draw(&self, asked: u32, stage: &str, reason: &str) -> Result<u32, Failure> {
        let next = asked + 1;
        if next < self.settings.parameters.most_draws() {
            return Ok(next);
        }
        Err(stage_failure(FailureKind::ParseFailure, stage, reason))
    }
}
