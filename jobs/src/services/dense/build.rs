//! Makes missing dense indexes, as dataflows: every worker embeds its part of the passages, and one worker of each
//! place writes the file.
//!
//! ```text
//!   MissingIndex, by one worker of each process --to all--> embed: its rows, a window of requests under way
//!                                                             |        every worker
//!                                                             +--vectors, to each writer--> collect, each at its row
//!                                                                                           one worker of each place
//! ```
//!
//! So all devices of a cluster together embed a corpus once, for any number of hosts. Processes of one host with a
//! common folder share the file. If several hosts write into one folder, the last file stays. All have the same bytes:
//! vectors do not depend on batches, and each has its fixed row. An interrupted build leaves no index; the next build
//! deletes the unfinished file and starts again.

use super::{DenseService, unavailable_failure};
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::fault::RunFault;
use crate::services::service::Services;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_index::{DenseWriter, IndexError};
use hopeval_lm::engine::Completion;
use hopeval_methods::{Failure, FailureKind};
use hopeval_operators::collect::{Collector, collect};
use hopeval_operators::produce::{Production, ProductionFailure, produce};
use hopeval_operators::ticket::Ticket;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use timely::dataflow::operators::probe::Handle;
use timely::dataflow::operators::vec::Broadcast;
use timely::dataflow::operators::{Probe, ToStream};
use timely::worker::Worker;

/// Passages of one worker under way to the encoder, enough that it always has a batch.
const WINDOW: usize = 1024;

/// The longest sleep of a worker while it waits for vectors.
const PARK: Duration = Duration::from_millis(100);

/// The builds of one process, shared by its workers.
#[derive(Default)]
pub struct IndexBuild {
    /// Indexes already claimed by one of its workers.
    claimed: Mutex<BTreeSet<Arc<str>>>,
    /// The index under construction, while this process embeds passages of it.
    current: Mutex<Option<String>>,
    /// Number of its passages embedded by this process.
    embedded: Arc<AtomicU64>,
    /// Finished indexes with these numbers, until they are reported.
    finished: Mutex<Vec<(String, u64)>>,
    fault: RunFault,
}

impl IndexBuild {
    /// A build; its first error goes to `fault`.
    pub fn new(fault: &RunFault) -> Self {
        Self { fault: fault.clone(), ..Self::default() }
    }

    /// Reports the progress: the last number of each finished index once, then that of the index under construction.
    pub fn report_progress(&self, report: ProgressReporter<'_>) {
        for (name, embedded) in std::mem::take(&mut *self.finished.lock().unwrap_or_else(PoisonError::into_inner)) {
            report(&format!("index {name}"), embedded);
        }
        if let Some(name) = &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            report(&format!("index {name}"), self.embedded.load(Ordering::Relaxed));
        }
    }

    /// Whether the caller is the first of its process to ask for this index.
    fn claim_index(&self, name: &Arc<str>) -> bool {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(name))
    }

    /// Notes that a worker begins an index, or (`None`) has finished all.
    fn set_current(&self, name: Option<&str>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_deref() != name {
            let embedded = self.embedded.swap(0, Ordering::Relaxed);
            let ended = std::mem::replace(&mut *current, name.map(str::to_owned));
            let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
            finished.extend(ended.map(|name| (name, embedded)));
        }
    }
}

/// Makes every missing dense index of any process, together with all other workers. Every worker calls it, with the
/// same services.
///
/// # Errors
/// An encoder that cannot be opened, an unreadable folder; also the first error in `building`'s fault. After an error
/// other workers wait for this one, and the dataflow must stay or be dropped as a whole.
pub fn build_indexes(
    worker: &mut Worker,
    corpus: &Arc<Corpus>,
    services: &Services,
    building: &Arc<IndexBuild>,
) -> Result<(), JobError> {
    for (name, dense) in DenseService::dense_services(services) {
        let mut lacks = building.claim_index(&name) && dense.lacks_index(corpus)?;
        if lacks && corpus.is_empty() {
            // There is no row to send, so the file is written directly.
            dense
                .index_writer(corpus)?
                .finish()
                .map_err(|source| JobError::Index { name: dense.name.clone(), source })?;
            lacks = false;
        }
        let missing = lacks
            .then(|| MissingIndex::new(&dense.index_place(corpus, dense.model()?).1, worker.index()))
            .transpose()?;
        let probe = render_build(worker, missing, corpus, &dense, building);
        while !probe.done() {
            if let Some(error) = building.fault.take() {
                return Err(error);
            }
            worker.step_or_park(Some(PARK));
        }
    }
    building.set_current(None);
    Ok(())
}

/// Makes every missing dense index, with one worker in a thread of its own.
///
/// # Errors
/// As [`build_indexes`].
pub(in crate::services) fn build_alone(
    corpus: &Arc<Corpus>,
    services: &Services,
    report: ProgressReporter<'_>,
) -> Result<(), JobError> {
    let building = Arc::new(IndexBuild::default());
    let (corpus, services, shared) = (Arc::clone(corpus), services.clone(), Arc::clone(&building));
    let (sender, receiver) = channel();
    let work = move || {
        let made = timely::execute_directly(move |worker| {
            let made = build_indexes(worker, &corpus, &services, &shared);
            if made.is_err() {
                worker.installed_dataflows().into_iter().for_each(|dataflow| worker.drop_dataflow(dataflow));
            }
            made
        });
        drop(sender.send(made));
    };
    let thread = std::thread::Builder::new().name("index".to_owned()).spawn(work).map_err(thread_failed)?;
    let made = loop {
        match receiver.recv_timeout(PARK) {
            Ok(made) => {
                building.report_progress(report);
                break Some(made);
            }
            Err(RecvTimeoutError::Timeout) => building.report_progress(report),
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    match (made, thread.join()) {
        (Some(made), _) => made,
        (None, Err(panic)) => std::panic::resume_unwind(panic),
        (None, Ok(())) => unreachable!("the thread sends before it ends; this is a bug"),
    }
}

/// A place without the index file, and the worker that would write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct MissingIndex {
    place: String,
    writer: usize,
}

impl MissingIndex {
    /// Worker `writer` lacks the file at `path`. Processes with the same folder have the same place. If that cannot be
    /// determined, each process has its own place.
    fn new(path: &Path, writer: usize) -> Result<Self, JobError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let failed = |source| JobError::Io { path: folder.to_owned(), operation: "cannot read", source };
        let metadata = folder.metadata().map_err(failed)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| writer.to_string());
        Ok(Self { place: format!("{} {} {}", host.trim(), metadata.dev(), metadata.ino()), writer })
    }

    /// One writer for each place: the first worker by index.
    fn choose_writers(mut missing: Vec<Self>) -> Vec<usize> {
        missing.sort();
        missing.dedup_by(|one, other| one.place == other.place);
        missing.into_iter().map(|index| index.writer).collect()
    }
}

/// A vector on its way to a writer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct VectorRow {
    to: usize,
    passage: u32,
    vector: Vec<f32>,
}

/// The dataflow of one index.
fn render_build(
    worker: &mut Worker,
    missing: Option<MissingIndex>,
    corpus: &Arc<Corpus>,
    dense: &Arc<DenseService>,
    building: &Arc<IndexBuild>,
) -> Handle<u64> {
    let (index, workers) = (worker.index() as u64, worker.peers() as u64);
    let embedding = {
        let worker = worker.index();
        let (corpus, dense, building) = (Arc::clone(corpus), Arc::clone(dense), Arc::clone(building));
        move |missing| {
            let writers = MissingIndex::choose_writers(missing);
            let passages = if writers.is_empty() { 0 } else { corpus.len() as u64 };
            if passages > 0 {
                building.set_current(Some(&dense.name));
            }
            let bound = |part: u64| (passages * part / workers) as u32;
            PassageEmbedding { worker, rows: bound(index)..bound(index + 1), corpus, dense, building, writers }
        }
    };
    worker.dataflow::<u64, _, _>(|scope| {
        let missing = missing.to_stream(scope).container::<Vec<_>>().broadcast();
        let (corpus, dense, fault) = (Arc::clone(corpus), Arc::clone(dense), building.fault.clone());
        let collector = IndexCollector { corpus, dense, fault, writer: None };
        collect(produce(missing, WINDOW, embedding), |row| row.to, collector).probe().0
    })
}

/// One worker's part of the passages on their way through the encoder.
struct PassageEmbedding {
    /// The worker; its device embeds.
    worker: usize,
    rows: Range<u32>,
    corpus: Arc<Corpus>,
    dense: Arc<DenseService>,
    building: Arc<IndexBuild>,
    writers: Vec<usize>,
}

impl PassageEmbedding {
    fn completed_vector(&self, completion: Result<Completion, Failure>) -> Result<Vec<f32>, Failure> {
        let model = self.dense.model().map_err(|error| unavailable_failure(&error))?;
        model.vector_response(completion?).0.vector()
    }
}

impl Production for PassageEmbedding {
    type Done = (u32, Result<Completion, Failure>);
    type Item = VectorRow;

    fn is_over(&self) -> bool {
        self.rows.is_empty()
    }

    fn begin_piece(&mut self, ticket: Ticket<Self::Done>) {
        let Some(passage) = self.rows.next() else { return };
        let asked = self.dense.passage_request(&self.corpus, PassageId(passage));
        match asked {
            Ok((_, request)) => {
                let reply = move |completion| ticket.answer((passage, Ok(completion)));
                self.dense.submit(self.worker, request, reply);
            }
            Err(failure) => ticket.answer((passage, Err(failure))),
        }
    }

    fn end_piece(&mut self, done: Option<Self::Done>, items: &mut Vec<VectorRow>) -> Result<(), ProductionFailure> {
        let refused = |passage: String, failure: Failure| {
            let name = self.dense.name.clone();
            let lost = JobError::device_lost(&name, &failure);
            let reason = failure.message;
            self.building.fault.report(lost.unwrap_or(JobError::Embedding { name, passage, reason }));
            ProductionFailure
        };
        let lost = || Failure { kind: FailureKind::Dropped, message: "the engine gave no answer".to_owned() };
        let (passage, completion) = done.ok_or_else(|| refused("one of those under way".to_owned(), lost()))?;
        let id = || self.corpus.id(PassageId(passage)).to_owned();
        let vector = self.completed_vector(completion).map_err(|failure| refused(id(), failure))?;
        self.building.embedded.fetch_add(1, Ordering::Relaxed);
        if let Some((&last, others)) = self.writers.split_last() {
            items.extend(others.iter().map(|&to| VectorRow { to, passage, vector: vector.clone() }));
            items.push(VectorRow { to: last, passage, vector });
        }
        Ok(())
    }
}

/// Writes one file. After a failure the dataflow's time never advances, so no worker takes the file for written.
struct IndexCollector {
    corpus: Arc<Corpus>,
    dense: Arc<DenseService>,
    fault: RunFault,
    /// The file, created for the first row.
    writer: Option<Box<DenseWriter>>,
}

impl IndexCollector {
    fn index_failure(&self, source: IndexError) -> ProductionFailure {
        self.report_failure(JobError::Index { name: self.dense.name.clone(), source })
    }

    fn report_failure(&self, error: JobError) -> ProductionFailure {
        self.fault.report(error);
        ProductionFailure
    }
}

impl Collector for IndexCollector {
    type Item = VectorRow;
    type Done = Result<(), IndexError>;

    fn take_item(&mut self, row: VectorRow) -> Result<(), ProductionFailure> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => Box::new(self.dense.index_writer(&self.corpus).map_err(|error| self.report_failure(error))?),
        };
        self.writer.insert(writer).place(row.passage, &row.vector).map_err(|source| self.index_failure(source))
    }

    /// A thread waits for the disk, because that may take longer than a worker may be silent.
    fn begin_finish(&mut self, ticket: Ticket<Self::Done>) -> Result<(), ProductionFailure> {
        let Some(writer) = self.writer.take() else {
            // This worker received no rows: it is not a writer.
            ticket.answer(Ok(()));
            return Ok(());
        };
        let work = move || ticket.answer(writer.finish());
        let thread = std::thread::Builder::new().name("index".to_owned()).spawn(work);
        thread.map(drop).map_err(|source| self.report_failure(thread_failed(source)))
    }

    fn end_finish(&mut self, done: Option<Self::Done>) -> Result<(), ProductionFailure> {
        match done {
            Some(finished) => finished.map_err(|source| self.index_failure(source)),
            None => Err(self.report_failure(thread_failed(std::io::Error::other("it panicked")))),
        }
    }
}

fn thread_failed(source: std::io::Error) -> JobError {
    JobError::Io { path: "index".into(), operation: "cannot start a thread for", source }
}

#[cfg(test)]
mod tests;
