//! The calls of a retriever, and its answers as rankings of the corpus's passages.

use crate::services::corpus::index_restriction;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_endpoint::{EndpointCall, FoundPassage, RetrieveCall};
use hopeval_methods::request::{PassageId as RankedId, RetrievalRestriction, RetrievePayload, Statistics};
use hopeval_methods::response::RetrievalHit;
use hopeval_methods::{Answer, AnswerWork, FailureKind, Request, RequestPayload, Response};
use std::collections::BTreeSet;

/// The call for a retrieval, with the corpus's own ids.
///
/// # Errors
/// The response to a request that no call can answer: of no passage, or with statistics that the contract lacks.
pub(super) fn retrieval_call(corpus: &Corpus, asked: &RetrievePayload) -> Result<EndpointCall, Box<Response>> {
    let within = asked.within.as_ref().map(|within| allowed_passages(corpus, within)).transpose()?;
    if asked.k == 0 || within.as_ref().is_some_and(Vec::is_empty) {
        return Err(Box::new(Response::answer(Answer::Retrieve(Vec::new()), AnswerWork::default())));
    }
    let within = within.map(|ids| ids.into_iter().map(|id| corpus.id(PassageId(id)).to_owned()).collect());
    Ok(EndpointCall::Retrieve(RetrieveCall { query: asked.query.clone(), k: asked.k, within }))
}

/// The passages of a restriction, sorted.
fn allowed_passages(corpus: &Corpus, within: &RetrievalRestriction) -> Result<Vec<u32>, Box<Response>> {
    if within.statistics == Statistics::Restriction {
        let message = "a retriever over HTTP ranks with its own statistics; allowed: `statistics = \"corpus\"`, or a \
                       service of kind `bm25`, `tfidf` or `link_tfidf` for rankings within a few passages";
        return Err(Box::new(Response::failure(FailureKind::Refused, message)));
    }
    Ok(index_restriction(corpus, within).ids)
}

/// The passages that a retriever found, in its order. Of several ids of one passage the first one counts: a corpus
/// drops equal passages, and their ids still find the one that is kept.
///
/// # Errors
/// A message that names the field: an id that the corpus lacks, a passage outside of the request's own.
pub(super) fn found_passages(
    corpus: &Corpus,
    request: &Request,
    found: &[FoundPassage],
) -> Result<Vec<RetrievalHit>, String> {
    let within = match &request.ask {
        RequestPayload::Retrieve(RetrievePayload { within: Some(within), .. }) => {
            Some(index_restriction(corpus, within).ids)
        }
        _ => None,
    };
    let (mut ranking, mut seen) = (Vec::with_capacity(found.len()), BTreeSet::new());
    for (place, FoundPassage { id, score }) in found.iter().enumerate() {
        let wrong = |allowed: &str| format!("field `results[{place}].id`: found `{id}`; allowed: {allowed}");
        let passage = corpus.by_external_id(id).ok_or_else(|| wrong("ids of the corpus's passages"))?;
        if within.as_ref().is_some_and(|ids| ids.binary_search(&passage.0).is_err()) {
            return Err(wrong("ids of the request's `within`"));
        }
        if seen.insert(passage) {
            ranking.push(RetrievalHit { passage: RankedId(passage.0), score: *score });
        }
    }
    Ok(ranking)
}

/// A ranking for plans, which ask no server: the first passages that the request allows.
pub(super) fn invented_ranking(corpus: &Corpus, asked: &RetrievePayload) -> Vec<RetrievalHit> {
    let ids: Vec<u32> = match &asked.within {
        Some(within) => index_restriction(corpus, within).ids,
        None => (0..asked.k.min(corpus.len() as u32)).collect(),
    };
    let hit = |(rank, id): (usize, u32)| RetrievalHit { passage: RankedId(id), score: -(rank as f64) };
    ids.into_iter().take(asked.k as usize).enumerate().map(hit).collect()
}
