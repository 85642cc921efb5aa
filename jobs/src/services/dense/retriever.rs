//! Retrievers with an index of vectors, wherever the vectors come from: how they answer a batch.

use super::embedding::{EmbeddedQuery, unavailable_responses};
use crate::error::JobError;
use crate::services::corpus;
use crate::services::sparse::ranking_response;
use crate::services::usage::UsageCounters;
use hopeval_corpus::Corpus;
use hopeval_index::{DenseIndex, Hit, IndexError, SearchScratch};
use hopeval_methods::request::RetrievePayload;
use hopeval_methods::{AnswerWork, Failure, FailureKind, PromptReport, Request, Response};

/// A service that ranks passages by the products of their vectors with that of a query.
pub(in crate::services) trait VectorRetriever: Send + Sync {
    /// Opens the index and whatever gives queries their vectors. Both must exist.
    ///
    /// # Errors
    /// One of them cannot be opened.
    fn open_or_get_index(&self, corpus: &Corpus) -> Result<&DenseIndex, JobError>;

    /// The index, if it is open.
    fn index_if_open(&self) -> Option<&DenseIndex>;

    /// Finds the vectors of a batch's queries. Returns, in the batch's order, each query with its vector or a response
    /// instead, and the device time in microseconds, which also goes to `usage`. The device of `worker` embeds.
    fn embed_queries(
        &self,
        corpus: &Corpus,
        requests: &[&Request],
        usage: Option<&UsageCounters>,
        worker: usize,
    ) -> (Vec<Result<EmbeddedQuery, Box<Response>>>, u64);

    /// Answers a batch, in its order: embeds its queries together, then searches with all of them. The responses
    /// contain the work of embedding. Its device time in microseconds is returned.
    fn retrieve_batch(
        &self,
        corpus: &Corpus,
        requests: &[&Request],
        scratch: &mut SearchScratch,
        usage: Option<&UsageCounters>,
        worker: usize,
    ) -> (Vec<Response>, u64) {
        let index = match self.open_or_get_index(corpus) {
            Ok(index) => index,
            // The index is opened before the dataflow is built.
            Err(error) => return (unavailable_responses(requests, &error), 0),
        };
        let (embedded, device_us) = self.embed_queries(corpus, requests, usage, worker);
        let queries: Vec<_> = embedded.iter().flatten().map(EmbeddedQuery::as_dense_query).collect();
        let mut found = index.search(&queries, scratch).into_iter();
        let answered = embedded.iter().map(|embedded| match embedded {
            Err(response) => Response::clone(response),
            Ok(EmbeddedQuery { work, report, .. }) => match found.next() {
                Some(found) => query_response(*work, report.clone(), found.map_err(|error| index_refusal(&error))),
                None => Response::failure(FailureKind::Dropped, "the index gave no answer"),
            },
        });
        (answered.collect(), device_us)
    }
}

/// A ranking for plans without an index or without the query's vector: passages chosen by a hash of the query.
pub(in crate::services) fn invented_ranking(corpus: &Corpus, asked: &RetrievePayload, work: AnswerWork) -> Response {
    let within = asked.within.as_ref().map(|within| corpus::index_restriction(corpus, within).ids);
    let among = within.as_ref().map_or(corpus.len(), Vec::len);
    let drawn = blake3::hash(asked.query.as_bytes());
    let first = drawn.as_bytes().iter().fold(0, |sum, &byte| (sum * 256 + usize::from(byte)) % among.max(1));
    let place = |n| (first + n) % among;
    let passage = |at| within.as_ref().map_or(at as u32, |ids: &Vec<u32>| ids[at]);
    let hits = (0..among.min(asked.k as usize)).map(|n| Hit { id: passage(place(n)), score: 0.0 });
    ranking_response(hits.collect(), work)
}

/// The failure of a query refused by the index.
pub(super) fn index_refusal(error: &IndexError) -> Failure {
    Failure { kind: FailureKind::ParseFailure, message: error.to_string() }
}

/// The response to a query; `work` is that of embedding it.
pub(super) fn query_response(
    work: AnswerWork,
    report: Option<PromptReport>,
    found: Result<Vec<Hit>, Failure>,
) -> Response {
    let response = match found {
        Ok(hits) => ranking_response(hits, work),
        Err(failure) => Response { work, ..Response::failure(failure.kind, failure.message) },
    };
    Response { prompt: report, ..response }
}
