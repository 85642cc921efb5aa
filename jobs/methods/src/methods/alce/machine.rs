//! The machine of `alce`: find, rank, shorten, read, and choose among several answers.

use super::citations::{CitingSentence, citing_sentences, without_citations};
use super::parameters::{PremiseChoice, ReaderVariant, UnsupportedChoice};
use super::prompts::{AlceSettings, DOCUMENT};
use crate::knowledge::compression::compressed_text;
use crate::knowledge::selection::{
    ScoreRule, SelectedPassage, found_texts, item_relevances, pool_passages, select_passages,
};
use crate::knowledge::sentences::{candidate_sentences, relevant_sentences};
use crate::knowledge::{KnowledgePiece, rerank_item};
use crate::machine::{Machine, MachineStep, Question};
use crate::outcome::Outcome;
use crate::prompt::{Content, Prompt};
use crate::ranking;
use crate::request::{EntailPayload, Request, RerankPayload, RetrievePayload};
use crate::response::{Failure, PassageText, Response};
use crate::template::PromptBuilder;
use std::sync::Arc;

/// One question.
pub(super) struct AlceMachine {
    settings: Arc<AlceSettings>,
    question: String,
    pool: Vec<PassageText>,
    /// The most relevant passages, the best first.
    ranked: Vec<SelectedPassage>,
    /// The documents of the prompt.
    pieces: Vec<KnowledgePiece>,
    notes: Outcome,
    state: AlceState,
}

/// The response that the machine waits for.
enum AlceState {
    Start,
    Retrieved,
    Ranked,
    SentencesRanked(Vec<Vec<String>>),
    /// Short texts of the ranked passages from this one to that one.
    Compressed(usize, usize),
    Answered,
    /// The answers, with their sentences.
    Entailed(Vec<(String, Vec<CitingSentence>)>),
}

impl Machine for AlceMachine {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        let stepped = match std::mem::replace(&mut self.state, AlceState::Start) {
            AlceState::Start => Ok(self.retrieve()),
            AlceState::Retrieved => self.retrieved(responses),
            AlceState::Ranked => self.ranked(responses),
            AlceState::SentencesRanked(sentences) => self.sentences_ranked(&sentences, responses),
            AlceState::Compressed(from, to) => self.compressed(from, to, responses),
            AlceState::Answered => self.answered(responses),
            AlceState::Entailed(answers) => self.entailed(&answers, responses),
        };
        stepped.unwrap_or_else(|failure| MachineStep::Done(Outcome::failed(failure)))
    }
}

fn next_response(responses: &mut std::vec::IntoIter<Response>) -> Result<Response, Failure> {
    Response::only(responses.by_ref().take(1).collect())
}

impl AlceMachine {
    pub(super) fn new(settings: Arc<AlceSettings>, question: &Question) -> Self {
        Self {
            settings,
            question: question.text.clone(),
            pool: Vec::new(),
            ranked: Vec::new(),
            pieces: Vec::new(),
            notes: Outcome::default(),
            state: AlceState::Start,
        }
    }

    fn ask(&mut self, state: AlceState, requests: Vec<Request>) -> Result<MachineStep, Failure> {
        self.state = state;
        Ok(MachineStep::Ask(requests))
    }

    fn retrieve(&mut self) -> MachineStep {
        let parameters = &self.settings.parameters;
        let search = RetrievePayload { read: true, ..RetrievePayload::new(&*self.question, parameters.retrieved) };
        let request = Request::new(&parameters.retriever, search).at_step("search");
        self.state = AlceState::Retrieved;
        MachineStep::Ask(vec![request])
    }

    fn retrieved(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let parameters = &self.settings.parameters;
        self.pool = pool_passages([found_texts(Response::only(responses)?, parameters.retrieved)?]);
        if self.pool.is_empty() {
            return self.read();
        }
        let items = self.pool.iter().map(|passage| rerank_item(passage, &parameters.rerank_separator)).collect();
        let rerank = RerankPayload { query: self.question.clone(), items };
        let request = Request::new(&parameters.reranker, rerank).at_step("rerank");
        self.ask(AlceState::Ranked, vec![request])
    }

    fn ranked(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let relevances = item_relevances(Response::only(responses)?, self.pool.len())?;
        self.ranked = select_passages(&[relevances], f64::NEG_INFINITY, ScoreRule::Best);
        match self.settings.parameters.variant {
            ReaderVariant::Vanilla | ReaderVariant::Rerank => {
                self.pieces = self.best().iter().map(|selected| self.whole_piece(selected)).collect();
                self.read()
            }
            ReaderVariant::Sentences => self.rank_sentences(),
            ReaderVariant::Summ | ReaderVariant::Snippet => self.compress(0),
        }
    }

    /// The most relevant passages, as many as are shown.
    fn best(&self) -> &[SelectedPassage] {
        &self.ranked[..self.ranked.len().min(self.settings.parameters.passages as usize)]
    }

    fn whole_piece(&self, selected: &SelectedPassage) -> KnowledgePiece {
        KnowledgePiece::whole(&self.pool[selected.at], 0)
    }

    fn rank_sentences(&mut self) -> Result<MachineStep, Failure> {
        let parameters = &self.settings.parameters;
        let of_passage = |selected: &SelectedPassage| {
            candidate_sentences(&self.pool[selected.at], &self.question, parameters.sentence_rules())
        };
        let sentences: Vec<Vec<String>> = self.best().iter().map(of_passage).collect();
        let request = |sentences: &Vec<String>| {
            let items = sentences.iter().cloned().map(Content::Text).collect();
            let rerank = RerankPayload { query: self.question.clone(), items };
            Request::new(parameters.sentence_scorer(), rerank).at_step("sentences")
        };
        let requests: Vec<Request> = sentences.iter().filter(|list| !list.is_empty()).map(request).collect();
        if requests.is_empty() {
            return self.sentences_ranked(&sentences, Vec::new());
        }
        self.ask(AlceState::SentencesRanked(sentences), requests)
    }

    fn sentences_ranked(
        &mut self,
        sentences: &[Vec<String>],
        responses: Vec<Response>,
    ) -> Result<MachineStep, Failure> {
        let mut responses = responses.into_iter();
        let mut pieces = Vec::with_capacity(sentences.len());
        for (selected, sentences) in self.best().iter().zip(sentences) {
            let kept = if sentences.is_empty() {
                None
            } else {
                let relevances = item_relevances(next_response(&mut responses)?, sentences.len())?;
                relevant_sentences(sentences, &relevances, selected.score, self.settings.parameters.threshold)
            };
            pieces.push(match kept {
                Some(text) => KnowledgePiece::shortened(&self.pool[selected.at], 0, text),
                None => self.whole_piece(selected),
            });
        }
        self.pieces = pieces;
        self.read()
    }

    /// Asks for short texts of as many passages, from this one on, as are still to be shown.
    fn compress(&mut self, from: usize) -> Result<MachineStep, Failure> {
        let parameters = &self.settings.parameters;
        let wanted = (parameters.passages as usize).saturating_sub(self.pieces.len());
        let to = (from + wanted).min(parameters.most_compressed as usize).min(self.ranked.len());
        if to <= from {
            return self.read();
        }
        let request = |selected| self.settings.compression_request(&self.whole_piece(selected), &self.question);
        let requests = self.ranked[from..to].iter().map(request).collect();
        self.ask(AlceState::Compressed(from, to), requests)
    }

    fn compressed(&mut self, from: usize, to: usize, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        let mut responses = responses.into_iter();
        for selected in &self.ranked[from..to] {
            let text = next_response(&mut responses)?.generation()?.text;
            if let Some(text) = compressed_text(&text, self.settings.parameters.irrelevant) {
                self.pieces.push(KnowledgePiece::shortened(&self.pool[selected.at], 0, text));
            }
        }
        self.compress(to)
    }

    fn read(&mut self) -> Result<MachineStep, Failure> {
        let requests = self.settings.reader_requests(&self.pieces, &self.question);
        self.ask(AlceState::Answered, requests)
    }

    fn answered(&mut self, responses: Vec<Response>) -> Result<MachineStep, Failure> {
        if responses.is_empty() {
            Response::only(Vec::new())?;
        }
        let texts = responses.into_iter().map(|response| Ok(first_line(&response.generation()?.text)));
        let mut texts = texts.collect::<Result<Vec<String>, Failure>>()?;
        let parameters = &self.settings.parameters;
        let Some(entailer) = parameters.entailer.clone().filter(|_| parameters.variant == ReaderVariant::Rerank) else {
            let text = texts.swap_remove(0);
            return Ok(self.end(&text));
        };
        let most = parameters.most_sentences as usize;
        let answers: Vec<(String, Vec<CitingSentence>)> = texts
            .into_iter()
            .map(|text| {
                let sentences = citing_sentences(&text, self.pieces.len(), most);
                (text, sentences)
            })
            .collect();
        let sentences = answers.iter().flat_map(|(_, sentences)| sentences);
        let request = |sentence: &CitingSentence| {
            let entail = EntailPayload { premise: self.premise(sentence), hypothesis: sentence.text.clone() };
            Request::new(&entailer, entail).at_step("entail")
        };
        let requests: Vec<Request> = sentences.filter(|sentence| !sentence.cited.is_empty()).map(request).collect();
        if requests.is_empty() {
            return self.entailed(&answers, Vec::new());
        }
        self.ask(AlceState::Entailed(answers), requests)
    }

    /// The documents that must entail a sentence, a line each.
    fn premise(&self, sentence: &CitingSentence) -> Prompt {
        let all: Vec<usize> = (0..self.pieces.len()).collect();
        let shown = match self.settings.parameters.premise {
            PremiseChoice::Cited => &sentence.cited,
            PremiseChoice::All => &all,
        };
        let mut builder = PromptBuilder::new();
        for (position, &at) in shown.iter().enumerate() {
            if position > 0 {
                builder.text("\n");
            }
            self.pieces[at].append_to(&mut builder, DOCUMENT);
        }
        builder.finish()
    }

    /// The answer with the highest share of entailed sentences, the first of equal ones.
    fn entailed(
        &mut self,
        answers: &[(String, Vec<CitingSentence>)],
        responses: Vec<Response>,
    ) -> Result<MachineStep, Failure> {
        let mut responses = responses.into_iter();
        let least = self.settings.parameters.entailed_at;
        let mut best: (f64, Option<&str>) = (0.0, None);
        for (text, sentences) in answers {
            let mut entailed = 0u32;
            for _ in sentences.iter().filter(|sentence| !sentence.cited.is_empty()) {
                entailed += u32::from(next_response(&mut responses)?.entailment()? >= least);
            }
            let share = f64::from(entailed) / sentences.len().max(1) as f64;
            self.notes.add_note("citation_recall", share.to_string());
            if share > best.0 {
                best = (share, Some(text));
            }
        }
        let text = match (best.1, self.settings.parameters.unsupported) {
            (Some(text), _) => text,
            (None, UnsupportedChoice::First) => answers.first().map_or("", |(text, _)| text),
            (None, UnsupportedChoice::Empty) => "",
        };
        Ok(self.end(text))
    }

    fn end(&mut self, text: &str) -> MachineStep {
        let mut outcome = std::mem::take(&mut self.notes);
        outcome.add_note("cited_answer", text);
        outcome.answer = Some(without_citations(text));
        outcome.ranked = ranking::by_position(self.pieces.iter().filter_map(|piece| piece.passage));
        outcome.iterations = 1;
        MachineStep::Done(outcome)
    }
}

/// The first line that is not empty.
fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}
