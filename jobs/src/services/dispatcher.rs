//! Dispatches the requests of one worker: each goes to memory, to the journal or to its service.
//!
//! ```text
//!   serve --submit--> ServiceDispatcher
//!                       |----not journalled--> corpus look-ups, at once
//!                       |----known, not durable yet--> from memory, at once
//!                       |----in the journal--> JournalReader, in its thread: reads ranges ----miss----+
//!                       +----new------------------------------------------------------------------> service thread
//! ```
//!
//! A service thread takes all waiting requests, up to a batch, and never waits for more. Nothing here blocks the
//! worker. With several workers, the thread of a dense index sends its queries to all of them
//! ([`super::dense::shards`]).

use super::answer_index::AnswerIndex;
use super::catalogue::Catalogue;
use super::dense::query::QueryInlet;
use super::journal_reader::JournalReader;
use super::served::{RecordedResponse, ServedResponse};
use super::thread::{ServiceTask, ServiceThread};
use super::usage::{ServiceCounters, UsageCounters, add};
use crate::error::JobError;
use crate::fault::RunFault;
use crate::mode::TimingMode;
use crate::spending::SpendingLedger;
use crate::thread_start::start_thread;
use crate::write_backlog::WriteBacklog;
use hopeval_methods::{FailureKind, Request, Response};
use hopeval_operators::RequestKey;
use hopeval_operators::gate::Gate;
use hopeval_operators::serve::{Backend, BackendAnswer, LOOK_PAUSE, Submission};
use hopeval_operators::ticket::Ticket;
use hopeval_results::AnswerLocation;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Dispatches the requests of one worker to memory, the journal and the services.
pub struct ServiceDispatcher {
    catalogue: Arc<Catalogue>,
    answer_index: AnswerIndex,
    usage: ServiceCounters,
    queues: BTreeMap<Arc<str>, Sender<ServiceTask>>,
    /// The first eight bytes of all keys seen by this worker. A key belongs to one worker alone.
    seen: FxHashSet<u64>,
    /// In latency mode earlier answers are not looked up, and every answer wakes the worker at once.
    mode: TimingMode,
    journal_reads: Sender<(ServiceTask, AnswerLocation)>,
}

/// Options for answering the requests of one worker.
#[derive(Clone, Copy, Debug)]
pub struct ServingOptions {
    /// The most requests in one batch of a retriever.
    pub batch: usize,
    /// The way of timing answers.
    pub mode: TimingMode,
    /// The worker's index; it selects the worker's device.
    pub worker: usize,
}

/// The parts of a worker that its dispatcher shares with others.
pub struct DispatcherParts<'a> {
    /// The worker's keys of the journal.
    pub answer_index: AnswerIndex,
    /// Counts the work of services.
    pub usage: &'a ServiceCounters,
    /// Receives an error that ends the run.
    pub fault: &'a RunFault,
    /// Lets services begin batches.
    pub gate: &'a Gate,
    /// Records of this worker that are not durable yet.
    pub journal_backlog: &'a WriteBacklog,
    /// Permits spending.
    pub spending: Option<&'a SpendingLedger>,
    /// The entry of queries of dense indexes to all workers; `None` for a single worker.
    pub inlet: Option<&'a QueryInlet>,
}

impl ServiceDispatcher {
    /// Starts the services of one worker, each with its own thread. A later error that ends the run goes to `parts`'
    /// fault.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn open(
        catalogue: &Arc<Catalogue>,
        parts: DispatcherParts<'_>,
        options: ServingOptions,
    ) -> Result<Self, JobError> {
        let DispatcherParts { answer_index, usage, fault, gate, journal_backlog, spending, inlet } = parts;
        let ServingOptions { batch, mode, worker } = options;
        let mut queues = BTreeMap::new();
        for (name, service) in catalogue.journalled_services() {
            let (sender, tasks) = channel();
            let thread = ServiceThread {
                corpus: Arc::clone(&catalogue.corpus),
                name: Arc::clone(name),
                usage: Arc::clone(usage),
                fault: fault.clone(),
                gate: gate.clone(),
                journal_backlog: journal_backlog.clone(),
                worker,
                batch,
                spending: spending.cloned(),
                inlet: inlet.cloned(),
            };
            let service = Arc::clone(service);
            start_thread(&format!("service {name}"), move || service.serve(&thread, &tasks))?;
            queues.insert(Arc::clone(name), sender);
        }
        let (journal_reads, receiver) = channel();
        let segment_reader = answer_index.reader();
        let remote = catalogue.remote_services();
        let journal_reader = JournalReader {
            queues: queues.clone(),
            usage: Arc::clone(usage),
            gate: gate.clone(),
            remote,
            fault: fault.clone(),
        };
        start_thread("journal reads", move || journal_reader.read_answers(&receiver, &segment_reader))?;
        Ok(Self {
            catalogue: Arc::clone(catalogue),
            answer_index,
            usage: Arc::clone(usage),
            queues,
            seen: FxHashSet::default(),
            mode,
            journal_reads,
        })
    }

    /// The known answer to a key: computed and not durable yet, or its location in the journal. In latency mode always
    /// empty, so every request is computed as if it were the first.
    fn known_answer(
        &self,
        key: &RequestKey,
        request: &Request,
    ) -> (Option<Rc<ServedResponse>>, Option<AnswerLocation>) {
        if self.mode == TimingMode::Latency {
            return (None, None);
        }
        let recent = self.answer_index.recent(key).filter(|served| served.response.satisfies(request));
        let location = if recent.is_some() { None } else { self.answer_index.locate(key) };
        (recent, location)
    }

    fn usage_of(&self, request: &Request) -> Option<&UsageCounters> {
        self.usage.get(&request.service.0)
    }
}

impl Backend for ServiceDispatcher {
    type Request = Request;
    type Response = ServedResponse;
    type Record = RecordedResponse;

    fn submit(&mut self, batch: Vec<Submission<Request, ServedResponse, RecordedResponse>>) {
        let now = Instant::now();
        let mut at_once = Vec::new();
        for submission in batch {
            let request = &submission.request;
            let [a, b, c, d, e, f, g, h, ..] = submission.key.0;
            let new = self.seen.insert(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
            if let Some(usage) = self.usage_of(request) {
                add(&usage.requests, 1);
                add(&usage.unique, u64::from(new));
            }
            let info = self.catalogue.info(&request.service);
            if info.is_none_or(|info| !info.journalled) {
                // A look-up in the mapped corpus computes nothing.
                let response = self.catalogue.answer(request);
                at_once.push((
                    submission.ticket,
                    BackendAnswer { response: ServedResponse::without_times(response), record: None },
                ));
                continue;
            }
            let (recent, location) = self.known_answer(&submission.key, request);
            if let Some(served) = recent {
                if let Some(usage) = self.usage_of(request) {
                    add(&usage.journalled, 1);
                }
                at_once.push((submission.ticket, BackendAnswer { response: served.cached(), record: None }));
                continue;
            }
            // A closed channel drops the ticket; the request is then answered as dropped.
            match location {
                Some(location) => drop(self.journal_reads.send(((submission, now), location))),
                None => {
                    if let Some(queue) = self.queues.get(&submission.request.service.0) {
                        drop(queue.send((submission, now)));
                    }
                }
            }
        }
        Ticket::answer_all(at_once);
    }

    fn dropped(&self) -> ServedResponse {
        ServedResponse::without_times(Response::failure(FailureKind::Dropped, "the service dropped the request"))
    }

    fn look_pause(&self) -> Duration {
        match self.mode {
            TimingMode::Throughput => LOOK_PAUSE,
            // A delay would be part of what is measured.
            TimingMode::Latency => Duration::ZERO,
        }
    }
}
