//! One round of retrieval: passages of all queries, their relevances, and what is left of them.

use super::parameters::MigresParameters;
use crate::knowledge::selection::{SelectedPassage, found_texts, item_relevances, pool_passages, select_passages};
use crate::knowledge::sentences::{candidate_sentences, relevant_sentences};
use crate::knowledge::{KnowledgePiece, rerank_item};
use crate::prompt::Content;
use crate::request::{Request, RerankPayload, RetrievePayload, ServiceName};
use crate::response::{Failure, PassageText, Response};
use std::vec::IntoIter;

/// A round of retrieval.
#[derive(Clone, Debug, Default)]
pub(super) struct RetrievalRound {
    pub(super) queries: Vec<String>,
    /// Texts for each query and retriever.
    lists: Vec<Vec<PassageText>>,
    /// Each text once.
    pool: Vec<PassageText>,
    /// Those that are relevant enough, the best first.
    pub(super) selected: Vec<SelectedPassage>,
    /// The sentences of the first ones, while their relevances are asked for; empty for passages without any.
    sentences: Vec<Vec<String>>,
    /// The pieces before the memory's filter.
    pub(super) pieces: Vec<KnowledgePiece>,
    /// The pieces in the prompt.
    pub(super) shown: Vec<KnowledgePiece>,
}

/// The next response, or the failure of one that is missing.
pub(super) fn next_response(responses: &mut IntoIter<Response>) -> Result<Response, Failure> {
    Response::only(responses.by_ref().take(1).collect())
}

/// The retrievers, with the passages asked of each for a query.
fn retrievers(parameters: &MigresParameters) -> Vec<(&ServiceName, u32)> {
    match &parameters.mixture {
        None => vec![(&parameters.retriever, parameters.retrieved)],
        Some(second) => {
            vec![(&parameters.retriever, parameters.retrieved_in_mixture), (second, parameters.mixture_retrieved)]
        }
    }
}

fn search_request(retriever: &ServiceName, query: String, k: u32) -> Request {
    Request::new(retriever, RetrievePayload { read: true, ..RetrievePayload::new(query, k) }).at_step("search")
}

impl RetrievalRound {
    pub(super) fn new(queries: Vec<String>) -> Self {
        Self { queries, ..Self::default() }
    }

    pub(super) fn search_requests(&self, parameters: &MigresParameters) -> Vec<Request> {
        let retrievers = retrievers(parameters);
        let of_query = |query: &String| {
            let requests = retrievers.iter().map(|&(retriever, k)| search_request(retriever, query.clone(), k));
            requests.collect::<Vec<_>>()
        };
        self.queries.iter().flat_map(of_query).collect()
    }

    /// Takes the hits. Returns the searches to repeat with more words: those with fewer hits than asked for.
    pub(super) fn take_hits(
        &mut self,
        responses: Vec<Response>,
        parameters: &MigresParameters,
    ) -> Result<Vec<Request>, Failure> {
        let mut responses = responses.into_iter();
        let retrievers = retrievers(parameters);
        let mut again = Vec::new();
        for query in &self.queries {
            for &(retriever, k) in &retrievers {
                let texts = found_texts(next_response(&mut responses)?, k)?;
                if texts.len() < k as usize && !parameters.retry_prefix.is_empty() {
                    again.push(search_request(retriever, format!("{}{query}", parameters.retry_prefix), k));
                }
                self.lists.push(texts);
            }
        }
        Ok(again)
    }

    /// Takes the hits of repeated searches in the place of the first ones.
    pub(super) fn take_repeated(
        &mut self,
        responses: Vec<Response>,
        parameters: &MigresParameters,
    ) -> Result<(), Failure> {
        let mut responses = responses.into_iter();
        let retrievers = retrievers(parameters);
        for (list, &(_, k)) in self.lists.iter_mut().zip(retrievers.iter().cycle()) {
            if list.len() < k as usize {
                *list = found_texts(next_response(&mut responses)?, k)?;
            }
        }
        Ok(())
    }

    /// Asks for the relevance of every passage to every query; nothing if there are no passages.
    pub(super) fn rerank_requests(&mut self, parameters: &MigresParameters) -> Vec<Request> {
        self.pool = pool_passages(std::mem::take(&mut self.lists));
        if self.pool.is_empty() {
            return Vec::new();
        }
        let items: Vec<Content> =
            self.pool.iter().map(|passage| rerank_item(passage, &parameters.rerank_separator)).collect();
        let request = |query: &String| {
            let rerank = RerankPayload { query: query.clone(), items: items.clone() };
            Request::new(&parameters.reranker, rerank).at_step("rerank")
        };
        self.queries.iter().map(request).collect()
    }

    pub(super) fn take_relevances(
        &mut self,
        responses: Vec<Response>,
        parameters: &MigresParameters,
    ) -> Result<(), Failure> {
        let mut responses = responses.into_iter();
        let pool = self.pool.len();
        let of_query = |_: &String| item_relevances(next_response(&mut responses)?, pool);
        let relevances = self.queries.iter().map(of_query).collect::<Result<Vec<_>, _>>()?;
        self.selected = select_passages(&relevances, parameters.threshold, parameters.passage_score);
        Ok(())
    }

    /// A selected passage, whole.
    pub(super) fn whole_piece(&self, selected: &SelectedPassage) -> KnowledgePiece {
        KnowledgePiece::whole(&self.pool[selected.at], selected.query)
    }

    /// A selected passage with a text made of it.
    pub(super) fn shortened_piece(&self, selected: &SelectedPassage, text: String) -> KnowledgePiece {
        KnowledgePiece::shortened(&self.pool[selected.at], selected.query, text)
    }

    /// The best passages, whole.
    pub(super) fn keep_whole(&mut self, parameters: &MigresParameters) {
        let best = self.selected.iter().take(parameters.passages as usize);
        self.pieces = best.map(|selected| self.whole_piece(selected)).collect();
    }

    /// Asks for the relevance of the sentences of the best passages.
    pub(super) fn sentence_requests(&mut self, parameters: &MigresParameters) -> Vec<Request> {
        let mut requests = Vec::new();
        self.sentences.clear();
        for selected in self.selected.iter().take(parameters.passages as usize) {
            let query = &self.queries[selected.query];
            let sentences = candidate_sentences(&self.pool[selected.at], query, parameters.sentence_rules());
            if !sentences.is_empty() {
                let items = sentences.iter().cloned().map(Content::Text).collect();
                let rerank = RerankPayload { query: query.clone(), items };
                requests.push(Request::new(parameters.sentence_scorer(), rerank).at_step("sentences"));
            }
            self.sentences.push(sentences);
        }
        requests
    }

    /// The best passages, with their relevant sentences.
    pub(super) fn keep_sentences(
        &mut self,
        responses: Vec<Response>,
        parameters: &MigresParameters,
    ) -> Result<(), Failure> {
        let mut responses = responses.into_iter();
        let mut pieces = Vec::with_capacity(self.sentences.len());
        for (selected, sentences) in self.selected.iter().zip(&self.sentences) {
            let kept = if sentences.is_empty() {
                None
            } else {
                let relevances = item_relevances(next_response(&mut responses)?, sentences.len())?;
                relevant_sentences(sentences, &relevances, selected.score, parameters.threshold)
            };
            pieces.push(match kept {
                Some(text) => self.shortened_piece(selected, text),
                None => self.whole_piece(selected),
            });
        }
        self.pieces = pieces;
        Ok(())
    }
}
