//! The service thread of a retriever with vectors: alone, or with the parts of all workers ([`super::shards`]).
//!
//! A query with its vector goes to every worker, and the thread of the asking worker merges their rankings.

use super::embedding::EmbeddedQuery;
use super::query::{PartResult, QueryInlet, VectorQuery};
use super::retriever::{VectorRetriever, query_response};
use crate::fault::RunFault;
use crate::services::thread::{ServiceTask, ServiceThread, queue_time_us, task_answer};
use crate::services::timing::{AnswerTiming, elapsed_us, share_evenly};
use crate::services::usage::ServiceCounters;
use hopeval_index::{Hit, SearchScratch};
use hopeval_methods::{AnswerWork, Failure, PromptReport, Request, Response, ServiceName};
use hopeval_operators::scatter::QueryEnd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Serves one worker of a run: alone, or with the parts of all workers.
pub(in crate::services) fn serve_queries(
    retriever: &dyn VectorRetriever,
    thread: &ServiceThread,
    tasks: &Receiver<ServiceTask>,
) {
    if let Some(inlet) = &thread.inlet {
        return serve_sharded(thread, retriever, tasks, inlet);
    }
    let (mut scratch, usage) = (SearchScratch::default(), thread.usage.get(&thread.name));
    thread.serve_batches(tasks, |requests| {
        retriever.retrieve_batch(&thread.corpus, requests, &mut scratch, usage, thread.worker)
    });
}

/// The service thread of a dense index with several workers: embeds waiting queries, and lets all workers rank.
fn serve_sharded(
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

    fn answer_query(self, response: Response, search_time: SearchTime) {
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
pub(super) fn merge_rankings(found: Vec<PartResult>, k: usize) -> Result<Vec<Hit>, Failure> {
    let rankings: Vec<Vec<Hit>> = found.into_iter().map(|found| found.ranking).collect::<Result<_, _>>()?;
    Ok(Hit::merge(rankings.iter().map(Vec::as_slice), k))
}
