//! Retrieval by words: BM25 and TF-IDF over an index, and TF-IDF fitted on the passages of each request.

use super::{Engine, cannot, corpus};
use hopeval_corpus::Corpus;
use hopeval_index::{Hit, Query, Scratch, link_tfidf};
use hopeval_methods::request;
use hopeval_methods::response::Hit as Found;
use hopeval_methods::{Answer, Ask, FailureKind, Request, Response, Work};

/// Answers a batch, in its order.
pub(super) fn retrieve(
    corpus: &Corpus,
    engine: &Engine,
    requests: &[&Request],
    scratch: &mut Scratch,
) -> Vec<Response> {
    let mut responses: Vec<Option<Response>> = Vec::with_capacity(requests.len());
    let mut queries = Vec::new();
    for request in requests {
        let Ask::Retrieve(asked) = &request.ask else {
            responses.push(Some(cannot(request)));
            continue;
        };
        if matches!(engine, Engine::LinkTfidf) {
            responses.push(Some(rank_links(corpus, asked)));
            continue;
        }
        let within = asked.within.as_ref().map(|within| corpus::within(corpus, within));
        queries.push(Query { text: &asked.query, k: asked.k as usize, within });
        responses.push(None);
    }
    let found = match engine {
        Engine::Bm25(index) => index.search(&queries, scratch),
        Engine::Tfidf(index) => index.search(&queries, scratch),
        Engine::LinkTfidf | Engine::ShuffledLinks(_) | Engine::Dense(_) | Engine::Lm(_) => Vec::new(),
    };
    let mut found = found.into_iter();
    responses
        .into_iter()
        .map(|response| response.unwrap_or_else(|| ranked(found.next().unwrap_or_default(), Work::default())))
        .collect()
}

fn rank_links(corpus: &Corpus, asked: &request::Retrieve) -> Response {
    let Some(within) = &asked.within else {
        return Response::failure(
            FailureKind::Refused,
            "link_tfidf ranks only what a request allows; it has no `within`",
        );
    };
    let passages = corpus::members(corpus, &within.passages);
    let texts: Vec<(&str, &str)> = passages.iter().map(|&p| (corpus.title(p), corpus.text(p))).collect();
    let ranking = link_tfidf::rank(&asked.query, &texts).into_iter().take(asked.k as usize);
    ranked(ranking.map(|(i, score)| Hit { id: passages[i].0, score }).collect(), Work::default())
}

/// The response with these hits.
pub(super) fn ranked(hits: Vec<Hit>, work: Work) -> Response {
    let hits = hits.into_iter().map(|hit| Found { passage: request::PassageId(hit.id), score: hit.score }).collect();
    Response::answer(Answer::Retrieve(hits), work)
}
