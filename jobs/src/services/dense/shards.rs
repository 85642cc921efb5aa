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

use super::embedding::EmbeddedQuery;
use super::query::{PartResult, QueryInlet, VectorQuery};
use super::retriever::{VectorRetriever, vector_retrievers};
use super::{index_refusal, query_response};
use crate::error::JobError;
use crate::fault::RunFault;
use crate::services::service::Services;
use crate::services::thread::{ServiceTask, ServiceThread, queue_time_us, take_batch, task_answer};
use crate::services::timing::{AnswerTiming, elapsed_us, share_evenly};
use crate::services::usage::ServiceCounters;
use crate::thread_start::start_thread;
use hopeval_index::{DenseQuery, Hit, SearchScratch};
use hopeval_methods::{AnswerWork, Failure, FailureKind, PromptReport, Request, ServiceName};
use hopeval_operators::scatter::{self, QueryEnd, QueryShard};
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

/// The service thread of a dense index with several workers: embeds waiting queries, and lets all workers rank.
pub(super) fn serve_sharded(
    thread: &ServiceThread,
    dense: &dyn VectorRetriever,
    tasks: &Receiver<ServiceTask>,
    inlet: &QueryInlet,
) {
    while let Some(tasks) = thread.begin_batch(tasks) {
        let begun = Instant::now();
        let requests: Vec<&Request> = tasks.iter().map(|(submission, _)| &submission.request).collect();
        let (embedded, device_us) =
            dense.embed_queries(&thread.corpus, &requests, thread.usage.get(&thread.name), thread.worker);
        let device_us = device_us / tasks.len() as u64;
        let shares = share_evenly(elapsed_us(begun), tasks.len());
        let (mut asked, mut settled) = (Vec::new(), Vec::new());
        for ((task, embedded), embedding_us) in tasks.into_iter().zip(embedded).zip(shares) {
            let (name, usage) = (Arc::clone(&thread.name), Arc::clone(&thread.usage));
            let fault = thread.fault.clone();
            let under_way =
                |work, report, k| PendingQuery { task, name, usage, fault, work, report, k, embedding_us, device_us };
            match embedded {
                Ok(EmbeddedQuery { vector, work, report, k, within }) => {
                    let service = ServiceName(Arc::clone(&thread.name));
                    let under_way = under_way(work, report, k);
                    let end: QueryEnd<PartResult> = Box::new(move |found| under_way.merge_and_answer(found));
                    asked.push((VectorQuery { service, vector, k, within }, end));
                }
                Err(refused) => settled.push((under_way(refused.work, None, 0), refused)),
            }
        }
        inlet.ask_all(asked);
        for (refused, response) in settled {
            refused.answer_query(*response, SearchTime::default());
        }
    }
}

/// A query of this worker during the search by all workers.
struct PendingQuery {
    task: ServiceTask,
    name: Arc<str>,
    usage: ServiceCounters,
    fault: RunFault,
    work: AnswerWork,
    report: Option<PromptReport>,
    k: usize,
    /// Its shares of the encoder's batch.
    embedding_us: u64,
    device_us: u64,
}

/// A query's time in the search threads, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SearchTime {
    /// The sum over all threads: the cost of the search.
    sum_us: u64,
    /// The time of the slowest thread: they search in parallel.
    longest_us: u64,
}

impl PendingQuery {
    /// Merges the results of all parts and answers the query.
    fn merge_and_answer(mut self, found: Vec<PartResult>) {
        let times = || found.iter().map(|found| found.service_us);
        let search_time = SearchTime { sum_us: times().sum(), longest_us: times().max().unwrap_or(0) };
        let response = query_response(self.work, self.report.take(), merge_rankings(found, self.k));
        self.answer_query(response, search_time);
    }

    fn answer_query(self, response: hopeval_methods::Response, search_time: SearchTime) {
        let Self { task, name, usage, fault, embedding_us, device_us, .. } = self;
        if let Some(usage) = usage.get(&name) {
            // The device's time was added with its batch.
            usage.count_response(&response, embedding_us + search_time.sum_us, 0);
        }
        let service_us = embedding_us + search_time.longest_us;
        let timing = AnswerTiming { queue_us: queue_time_us(&task, service_us), service_us, device_us };
        let (ticket, answer) = task_answer(task, response, timing, &fault);
        ticket.answer(answer);
    }
}

/// The best hits of all parts, or the failure of the first failed part.
fn merge_rankings(found: Vec<PartResult>, k: usize) -> Result<Vec<Hit>, Failure> {
    let rankings: Vec<Vec<Hit>> = found.into_iter().map(|found| found.ranking).collect::<Result<_, _>>()?;
    Ok(Hit::merge(rankings.iter().map(Vec::as_slice), k))
}
