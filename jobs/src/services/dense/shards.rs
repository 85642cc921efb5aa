//! Dense retrieval by all workers of a run: each searches its part of the rows, and the asking worker merges the
//! rankings.
//!
//! ```text
//!   serve --> service thread: embeds a batch --vector, k, restriction--> QueryInlet ==to every worker==> IndexShards
//!     ^                                                                                                    |
//!     |                                                   search thread, one for each index: its part of the rows,
//!     |                                                   with all waiting queries of all workers
//!     |                                                                                                    |
//!     +-- ticket -- Hit::merge, usage <==back to the asker, in the order of the workers====================+
//! ```
//!
//! So the waiting queries of all workers share one pass over the rows, and a search reads only the rows of a host's
//! workers. Scores do not depend on the part and rankings are a total order, so the answer has the same bits as a
//! search of the whole index. If one part cannot be searched, the query fails: half a ranking is useless.

use super::DenseService;
use super::query::{PartResult, QueryInlet, VectorQuery};
use super::retriever::{VectorRetriever, index_refusal};
use crate::error::JobError;
use crate::services::dense_vectors::DenseVectorsService;
use crate::services::service::{Services, downcast_service};
use crate::services::thread::take_batch;
use crate::services::timing::{elapsed_us, share_evenly};
use crate::thread_start::start_thread;
use hopeval_index::{DenseQuery, Hit, SearchScratch};
use hopeval_methods::{Failure, FailureKind, ServiceName};
use hopeval_operators::scatter::{self, QueryShard};
use hopeval_operators::ticket::Ticket;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
#[cfg(test)]
mod tests;

/// One worker's part in a search by several workers.
pub struct ShardedSearch {
    /// The entry of its own queries.
    pub inlet: QueryInlet,
    /// The queries from that entry, for the dataflow.
    pub queries: scatter::QueryReceiver<VectorQuery, PartResult>,
    /// Its parts of the indexes, for the queries of all workers.
    pub shards: IndexShards,
}

impl ShardedSearch {
    /// For worker `worker` of `workers`. `None` for a single worker or without dense indexes; so all workers of a run,
    /// in any process, get the same variant.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn open(services: &Services, worker: usize, workers: usize) -> Result<Option<Self>, JobError> {
        if workers == 1 || vector_retrievers(services).next().is_none() {
            return Ok(None);
        }
        let (inlet, queries) = scatter::query_channel();
        Ok(Some(Self { inlet, queries, shards: IndexShards::open(services, worker, workers)? }))
    }
}

/// The retrievers with vectors among the services of a process, by name.
fn vector_retrievers(services: &Services) -> impl Iterator<Item = (Arc<str>, Arc<dyn VectorRetriever>)> {
    services.iter().filter_map(|(name, service)| {
        let retriever: Arc<dyn VectorRetriever> = match downcast_service::<DenseService>(service) {
            Some(dense) => dense,
            None => downcast_service::<DenseVectorsService>(service)?,
        };
        Some((Arc::clone(name), retriever))
    })
}

/// A query with the ticket for its part's ranking.
type QueuedQuery = (VectorQuery, Ticket<PartResult>);

/// One worker's parts of all dense indexes.
pub struct IndexShards {
    queues: BTreeMap<Arc<str>, Sender<Vec<QueuedQuery>>>,
}

impl IndexShards {
    /// Part `worker` of `workers` of each index, each with its own search thread.
    fn open(services: &Services, worker: usize, workers: usize) -> Result<Self, JobError> {
        let mut queues = BTreeMap::new();
        for (name, dense) in vector_retrievers(services) {
            let (sender, receiver) = channel();
            start_thread(&format!("shard {name}"), move || {
                search_part(&IndexPart { dense: &*dense, part: worker as u32, parts: workers as u32 }, &receiver);
            })?;
            queues.insert(name, sender);
        }
        Ok(Self { queues })
    }
}

impl QueryShard for IndexShards {
    type Query = VectorQuery;
    type Found = PartResult;

    fn submit(&mut self, batch: Vec<QueuedQuery>) {
        let mut by_service: BTreeMap<ServiceName, Vec<QueuedQuery>> = BTreeMap::new();
        for waiting in batch {
            by_service.entry(waiting.0.service.clone()).or_default().push(waiting);
        }
        for (service, batch) in by_service {
            // A closed channel drops the tickets; their queries are then answered as dropped.
            if let Some(queue) = self.queues.get(&service.0) {
                drop(queue.send(batch));
            }
        }
    }

    fn dropped(&self) -> PartResult {
        let message = "a worker dropped its part of the search".to_owned();
        PartResult { ranking: Err(Failure { kind: FailureKind::Dropped, message }), service_us: 0 }
    }
}

/// One worker's part of one index.
struct IndexPart<'a> {
    dense: &'a dyn VectorRetriever,
    part: u32,
    parts: u32,
}

impl IndexPart<'_> {
    /// The rankings of its passages for a batch, in the batch's order.
    fn rank_passages<'q>(
        &self,
        queries: impl Iterator<Item = &'q VectorQuery>,
        scratch: &mut SearchScratch,
    ) -> Vec<Result<Vec<Hit>, Failure>> {
        let Some(index) = self.dense.index_if_open() else {
            // The index is opened before the dataflow is built.
            let message = "the index is not open: this is a bug".to_owned();
            return queries
                .map(|_| Err(Failure { kind: FailureKind::Unavailable, message: message.clone() }))
                .collect();
        };
        let queries = queries.map(|VectorQuery { vector, k, within, .. }| DenseQuery {
            vector,
            k: *k,
            within: within.as_deref(),
        });
        let queries: Vec<_> = queries.collect();
        let rankings = index.part(self.part, self.parts).search(&queries, scratch).into_iter();
        rankings.map(|ranking| ranking.map_err(|error| index_refusal(&error))).collect()
    }
}

/// The search thread: takes all waiting queries, so that one pass over the part serves them together.
fn search_part(part: &IndexPart<'_>, receiver: &Receiver<Vec<QueuedQuery>>) {
    let mut scratch = SearchScratch::default();
    while let Some(batches) = take_batch(receiver, usize::MAX) {
        let begun = Instant::now();
        let batch: Vec<QueuedQuery> = batches.into_iter().flatten().collect();
        let rankings = part.rank_passages(batch.iter().map(|(query, _)| query), &mut scratch);
        let shares = share_evenly(elapsed_us(begun), batch.len());
        let found = rankings.into_iter().zip(shares).map(|(ranking, service_us)| PartResult { ranking, service_us });
        Ticket::answer_all(batch.into_iter().map(|(_, ticket)| ticket).zip(found));
    }
}
