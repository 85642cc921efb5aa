//! Makes dense indexes that are not there, as dataflows: every worker embeds its part of the passages, and every place
//! that lacks the file has it written.
//!
//! ```text
//!   wish, by one worker of each process --to all--> embed: its rows, a window of requests under way
//!                                                     |        every worker
//!                                                     +--vectors, to each writer--> collect, each at its row
//!                                                                                     one worker of each place
//! ```
//!
//! So a corpus is embedded once by all devices of a cluster, whatever hosts want it. Processes of one host that share a
//! folder share the file; of several hosts each writes it, and the last one stays, which has the same bytes: vectors do not
//! depend on batches, and each has its place. A build that does not end leaves no index, and is begun again; the next one
//! clears away what it had written.

use super::{Dense, failed};
use crate::cache::Report;
use crate::error::JobError;
use crate::fault::Fault;
use crate::services::service::Services;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_index::{DenseWriter, IndexError};
use hopeval_lm::engine::Completion;
use hopeval_methods::{Failure, FailureKind};
use hopeval_operators::collect::{Collector, collect};
use hopeval_operators::produce::{Failed, Production, produce};
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

/// Passages of one worker that are under way to the encoder: it always has a batch.
const WINDOW: usize = 1024;

/// How long a worker that waits for vectors sleeps at most.
const PARK: Duration = Duration::from_millis(100);

/// What one process builds, shared by its workers.
#[derive(Default)]
pub struct Building {
    /// Indexes that one of its workers speaks for.
    spoken: Mutex<BTreeSet<Arc<str>>>,
    /// The index that is being made, while passages of it are embedded here.
    current: Mutex<Option<String>>,
    /// Its passages that are embedded here.
    embedded: Arc<AtomicU64>,
    fault: Fault,
}

impl Building {
    /// A build whose first error goes to `fault`.
    pub fn new(fault: &Fault) -> Self {
        Self { fault: fault.clone(), ..Self::default() }
    }

    /// Says how far it is.
    pub fn tell(&self, report: Report<'_>) {
        if let Some(name) = &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            report(&format!("index {name}"), self.embedded.load(Ordering::Relaxed));
        }
    }

    /// Whether the caller is the first of its process to ask for this index.
    fn speaks_for(&self, name: &Arc<str>) -> bool {
        self.spoken.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(name))
    }

    /// One of its workers begins with an index, or has ended.
    fn enter(&self, name: Option<&str>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_deref() != name {
            self.embedded.store(0, Ordering::Relaxed);
            *current = name.map(str::to_owned);
        }
    }
}

/// Makes, together with all other workers, every dense index that a process lacks. Every worker calls it, with the same services.
///
/// # Errors
/// An encoder that cannot be opened, a place that cannot be read; also what went wrong meanwhile, which `building`'s fault
/// has first. Then other workers wait for this one, and the dataflow must stay or be dropped as a whole.
pub fn make(
    worker: &mut Worker,
    corpus: &Arc<Corpus>,
    services: &Services,
    building: &Arc<Building>,
) -> Result<(), JobError> {
    for (name, dense) in Dense::among(services) {
        let mut lacks = building.speaks_for(&name) && dense.lacks(corpus)?;
        if lacks && corpus.is_empty() {
            // Nobody has a row to send.
            dense.writer(corpus)?.finish().map_err(|source| JobError::Index { name: dense.name.clone(), source })?;
            lacks = false;
        }
        let wish = lacks.then(|| Wish::new(&dense.place(corpus, dense.model()?).1, worker.index())).transpose()?;
        let probe = render(worker, wish, corpus, &dense, building);
        while !probe.done() {
            if let Some(error) = building.fault.take() {
                return Err(error);
            }
            worker.step_or_park(Some(PARK));
        }
    }
    building.enter(None);
    Ok(())
}

/// Makes every dense index that is not there, by one worker in a thread of its own.
///
/// # Errors
/// As [`make`].
pub(in crate::services) fn alone(
    corpus: &Arc<Corpus>,
    services: &Services,
    report: Report<'_>,
) -> Result<(), JobError> {
    let building = Arc::new(Building::default());
    let (corpus, services, shared) = (Arc::clone(corpus), services.clone(), Arc::clone(&building));
    let (sender, receiver) = channel();
    let work = move || {
        let made = timely::execute_directly(move |worker| {
            let made = make(worker, &corpus, &services, &shared);
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
            Ok(made) => break Some(made),
            Err(RecvTimeoutError::Timeout) => building.tell(report),
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    match (made, thread.join()) {
        (Some(made), _) => made,
        (None, Err(panic)) => std::panic::resume_unwind(panic),
        (None, Ok(())) => unreachable!("the thread sends before it ends; this is a bug"),
    }
}

/// A place that lacks the file, and who would write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Wish {
    place: String,
    writer: usize,
}

impl Wish {
    /// The wish of `writer` for the file at `path`. Processes that see the same folder have the same place; where that cannot be
    /// told, each has one of its own.
    fn new(path: &Path, writer: usize) -> Result<Self, JobError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let failed = |source| JobError::Io { path: folder.to_owned(), operation: "cannot read", source };
        let metadata = folder.metadata().map_err(failed)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| writer.to_string());
        Ok(Self { place: format!("{} {} {}", host.trim(), metadata.dev(), metadata.ino()), writer })
    }

    /// One writer for each place: the first of those that wish for it.
    fn writers(mut wishes: Vec<Self>) -> Vec<usize> {
        wishes.sort();
        wishes.dedup_by(|one, other| one.place == other.place);
        wishes.into_iter().map(|wish| wish.writer).collect()
    }
}

/// A vector on its way to a writer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    to: usize,
    passage: u32,
    vector: Vec<f32>,
}

/// The dataflow of one index.
fn render(
    worker: &mut Worker,
    wish: Option<Wish>,
    corpus: &Arc<Corpus>,
    dense: &Arc<Dense>,
    building: &Arc<Building>,
) -> Handle<u64> {
    let (index, workers) = (worker.index() as u64, worker.peers() as u64);
    let embedding = {
        let worker = worker.index();
        let (corpus, dense, building) = (Arc::clone(corpus), Arc::clone(dense), Arc::clone(building));
        move |wishes| {
            let writers = Wish::writers(wishes);
            let passages = if writers.is_empty() { 0 } else { corpus.len() as u64 };
            if passages > 0 {
                building.enter(Some(&dense.name));
            }
            let bound = |part: u64| (passages * part / workers) as u32;
            Embedding { worker, rows: bound(index)..bound(index + 1), corpus, dense, building, writers }
        }
    };
    worker.dataflow::<u64, _, _>(|scope| {
        let wishes = wish.to_stream(scope).container::<Vec<_>>().broadcast();
        let (corpus, dense, fault) = (Arc::clone(corpus), Arc::clone(dense), building.fault.clone());
        let scribe = Scribe { corpus, dense, fault, writer: None };
        collect(produce(wishes, WINDOW, embedding), |row| row.to, scribe).probe().0
    })
}

/// One worker's part of the passages on their way through the encoder.
struct Embedding {
    /// The worker, which says whose device embeds.
    worker: usize,
    rows: Range<u32>,
    corpus: Arc<Corpus>,
    dense: Arc<Dense>,
    building: Arc<Building>,
    writers: Vec<usize>,
}

impl Embedding {
    fn vector(&self, completion: Result<Completion, Failure>) -> Result<Vec<f32>, Failure> {
        let model = self.dense.model().map_err(|error| failed(&error))?;
        model.vector(completion?).0.vector()
    }
}

impl Production for Embedding {
    type Done = (u32, Result<Completion, Failure>);
    type Item = Row;

    fn is_over(&self) -> bool {
        self.rows.is_empty()
    }

    fn begin(&mut self, ticket: Ticket<Self::Done>) {
        let Some(passage) = self.rows.next() else { return };
        let asked = self.dense.ask(&self.corpus, PassageId(passage));
        match asked {
            Ok((_, request)) => {
                let reply = move |completion| ticket.answer((passage, Ok(completion)));
                self.dense.submit(self.worker, request, reply);
            }
            Err(failure) => ticket.answer((passage, Err(failure))),
        }
    }

    fn end(&mut self, done: Option<Self::Done>, items: &mut Vec<Row>) -> Result<(), Failed> {
        let refused = |passage: String, failure: Failure| {
            let name = self.dense.name.clone();
            let lost = JobError::device_lost(&name, &failure);
            let reason = failure.message;
            self.building.fault.report(lost.unwrap_or(JobError::Embedding { name, passage, reason }));
            Failed
        };
        let lost = || Failure { kind: FailureKind::Dropped, message: "the engine gave no answer".to_owned() };
        let (passage, completion) = done.ok_or_else(|| refused("one of those under way".to_owned(), lost()))?;
        let id = || self.corpus.id(PassageId(passage)).to_owned();
        let vector = self.vector(completion).map_err(|failure| refused(id(), failure))?;
        self.building.embedded.fetch_add(1, Ordering::Relaxed);
        if let Some((&last, others)) = self.writers.split_last() {
            items.extend(others.iter().map(|&to| Row { to, passage, vector: vector.clone() }));
            items.push(Row { to: last, passage, vector });
        }
        Ok(())
    }
}

/// Writes one file. Time is held for good where that fails: whoever waits for the file must not take it for written.
struct Scribe {
    corpus: Arc<Corpus>,
    dense: Arc<Dense>,
    fault: Fault,
    /// The file, once a row has come.
    writer: Option<Box<DenseWriter>>,
}

impl Scribe {
    fn failed(&self, source: IndexError) -> Failed {
        self.report(JobError::Index { name: self.dense.name.clone(), source })
    }

    fn report(&self, error: JobError) -> Failed {
        self.fault.report(error);
        Failed
    }
}

impl Collector for Scribe {
    type Item = Row;
    type Done = Result<(), IndexError>;

    fn take(&mut self, row: Row) -> Result<(), Failed> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => Box::new(self.dense.writer(&self.corpus).map_err(|error| self.report(error))?),
        };
        self.writer.insert(writer).place(row.passage, &row.vector).map_err(|source| self.failed(source))
    }

    /// A disk may take longer than a worker may be silent, so a thread waits for it.
    fn finish(&mut self, ticket: Ticket<Self::Done>) -> Result<(), Failed> {
        let Some(writer) = self.writer.take() else {
            // Nobody has sent anything here: another place is written to, or none.
            ticket.answer(Ok(()));
            return Ok(());
        };
        let work = move || ticket.answer(writer.finish());
        let thread = std::thread::Builder::new().name("index".to_owned()).spawn(work);
        thread.map(drop).map_err(|source| self.report(thread_failed(source)))
    }

    fn end(&mut self, done: Option<Self::Done>) -> Result<(), Failed> {
        match done {
            Some(finished) => finished.map_err(|source| self.failed(source)),
            None => Err(self.report(thread_failed(std::io::Error::other("it panicked")))),
        }
    }
}

fn thread_failed(source: std::io::Error) -> JobError {
    JobError::Io { path: "index".into(), operation: "cannot start a thread for", source }
}

#[cfg(test)]
mod tests;
