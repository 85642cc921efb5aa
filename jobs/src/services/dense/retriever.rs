//! Retrievers with an index of vectors, wherever the vectors come from: how they answer a batch, and how a run finds
//! them.

use super::embedding::{EmbeddedQuery, unavailable_responses};
use super::{DenseService, index_refusal, query_response, shards};
use crate::error::JobError;
use crate::services::corpus;
use crate::services::dense_vectors::DenseVectorsService;
use crate::services::service::{Services, downcast_service};
use crate::services::sparse::ranking_response;
use crate::services::thread::{ServiceTask, ServiceThread};
use crate::services::usage::UsageCounters;
use hopeval_corpus::Corpus;
use hopeval_index::{DenseIndex, Hit, SearchScratch};
use hopeval_methods::request::RetrievePayload;
use hopeval_methods::{AnswerWork, FailureKind, Request, Response};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

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

/// The retrievers with vectors among the services of a process, by name.
pub(super) fn vector_retrievers(services: &Services) -> impl Iterator<Item = (Arc<str>, Arc<dyn VectorRetriever>)> {
    services.iter().filter_map(|(name, service)| {
        let retriever: Arc<dyn VectorRetriever> = match downcast_service::<DenseService>(service) {
            Some(dense) => dense,
            None => downcast_service::<DenseVectorsService>(service)?,
        };
        Some((Arc::clone(name), retriever))
    })
}

/// Serves one worker of a run: alone, or with the parts of all workers.
pub(in crate::services) fn serve_queries(
    retriever: &dyn VectorRetriever,
    thread: &ServiceThread,
    tasks: &Receiver<ServiceTask>,
) {
    if let Some(inlet) = &thread.inlet {
        return shards::serve_sharded(thread, retriever, tasks, inlet);
    }
    let (mut scratch, usage) = (SearchScratch::default(), thread.usage.get(&thread.name));
    thread.serve_batches(tasks, |requests| {
        retriever.retrieve_batch(&thread.corpus, requests, &mut scratch, usage, thread.worker)
    });
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
