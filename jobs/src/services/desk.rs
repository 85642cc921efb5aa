//! The desk of one worker: takes requests and sends each to what answers it.
//!
//! ```text
//!   serve --submit--> Desk --not journalled--> corpus lookups, at once
//!                      |----known, not durable yet--> from memory, at once
//!                      |----in the journal--> archive thread: reads ranges ----miss----+
//!                      +----new-----------------------------------------------------> service thread
//! ```
//!
//! A service thread takes whatever waits, up to a batch, and never waits for more. Nothing here blocks the worker. Where
//! there are several workers, the thread of a dense index hands its queries to all of them ([`shards`]).

use super::dense::shards::{self, Inlet};
use super::spent::{Books, Spent, Took, add, elapsed_us, shares};
use super::{Catalogue, Engine, Fault, lm, sparse};
use crate::error::JobError;
use crate::job::Mode;
use crate::run::journal::Shelf;
use crate::run::machines::{Recorded, Served};
use crate::services::record::Record;
use hopeval_index::Scratch;
use hopeval_methods::{Answer, Ask, FailureKind, Request, Response};
use hopeval_operators::Key;
use hopeval_operators::serve::{Answered, Backend, Submission};
use hopeval_operators::ticket::Ticket;
use hopeval_results::Location;
use hopeval_results::journal::SegmentReader;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// A request on its way, and when it came.
pub(super) type Task = (Submission<Request, Served, Recorded>, Instant);

/// The ticket of a request, and what it is answered with.
pub(super) type Settled = (Ticket<Answered<Served, Recorded>>, Answered<Served, Recorded>);

/// Answers the requests of one worker.
pub struct Desk {
    catalogue: Arc<Catalogue>,
    shelf: Shelf,
    books: Books,
    queues: BTreeMap<Arc<str>, Sender<Task>>,
    /// Keys that have reached this worker, by their first eight bytes: a key belongs to one worker alone.
    seen: FxHashSet<u64>,
    /// What was answered before is not looked for where answers are timed.
    mode: Mode,
    archive: Sender<(Task, Location)>,
}

/// How the requests of one worker are answered.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Requests that a retriever takes at once.
    pub batch: usize,
    /// Whether answers are timed.
    pub mode: Mode,
    /// The worker's index, which says which device is its own.
    pub worker: usize,
}

impl Desk {
    /// Opens the services of one worker, each with a thread of its own. Queries of dense indexes go by `inlet` to all workers,
    /// where there is more than this one. What ends the run is told to `fault`.
    pub fn open(
        catalogue: &Arc<Catalogue>,
        shelf: Shelf,
        books: &Books,
        manner: Manner,
        fault: &Fault,
        inlet: Option<&Inlet>,
    ) -> Self {
        let Manner { batch, mode, worker } = manner;
        let mut queues = BTreeMap::new();
        for (name, engine) in &catalogue.engines {
            if catalogue.infos.get(name).is_some_and(|info| !info.journalled) {
                // It is looked up here.
                continue;
            }
            let (sender, receiver) = channel();
            let counter = Counter {
                catalogue: Arc::clone(catalogue),
                engine: Arc::clone(engine),
                name: Arc::clone(name),
                books: Arc::clone(books),
                fault: fault.clone(),
                worker,
            };
            let inlet = inlet.cloned();
            spawn(&format!("service {name}"), move || match (&*counter.engine, inlet) {
                (Engine::Lm(model), _) => lm::serve(&counter, model, &receiver),
                (Engine::Dense(dense), Some(inlet)) => shards::serve(&counter, dense, &receiver, batch, &inlet),
                _ => counter.run(&receiver, batch),
            });
            queues.insert(Arc::clone(name), sender);
        }
        let (archive, receiver) = channel();
        let reader = shelf.reader();
        let clerk = Archivist { queues: queues.clone(), books: Arc::clone(books) };
        spawn("archive", move || clerk.run(&receiver, &reader));
        Self {
            catalogue: Arc::clone(catalogue),
            shelf,
            books: Arc::clone(books),
            queues,
            seen: FxHashSet::default(),
            mode,
            archive,
        }
    }

    /// What is known of a key: computed and not durable yet, or where it stands in the journal. Nothing where requests are
    /// timed, each as if nobody had asked before.
    fn known(&self, key: &Key, request: &Request) -> (Option<Rc<Served>>, Option<Location>) {
        if self.mode == Mode::Latency {
            return (None, None);
        }
        let recent = self.shelf.recent(key).filter(|served| served.response.satisfies(request));
        let location = if recent.is_some() { None } else { self.shelf.locate(key) };
        (recent, location)
    }

    fn spent(&self, request: &Request) -> Option<&Spent> {
        self.books.get(&request.service.0)
    }
}

pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let built = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    // Without threads nothing can be answered; the tickets of what is submitted say so.
    if let Err(error) = built {
        tracing::error!(%error, name, "cannot start a thread");
    }
}

impl Backend for Desk {
    type Request = Request;
    type Response = Served;
    type Record = Recorded;

    fn submit(&mut self, batch: Vec<Submission<Request, Served, Recorded>>) {
        let now = Instant::now();
        let mut at_once = Vec::new();
        for submission in batch {
            let request = &submission.request;
            let [a, b, c, d, e, f, g, h, ..] = submission.key.0;
            let new = self.seen.insert(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
            if let Some(spent) = self.spent(request) {
                add(&spent.requests, 1);
                add(&spent.unique, u64::from(new));
            }
            let info = self.catalogue.info(&request.service);
            if info.is_none_or(|info| !info.journalled) {
                // A look-up in the mapped corpus computes nothing.
                let response = self.catalogue.look_up(request);
                at_once.push((submission.ticket, Answered { response: Served::now(response), record: None }));
                continue;
            }
            let (recent, location) = self.known(&submission.key, request);
            if let Some(served) = recent {
                if let Some(spent) = self.spent(request) {
                    add(&spent.journalled, 1);
                }
                at_once.push((submission.ticket, Answered { response: served.cached(), record: None }));
                continue;
            }
            // A closed channel drops the ticket, and that is answered as such.
            match location {
                Some(location) => drop(self.archive.send(((submission, now), location))),
                None => {
                    if let Some(queue) = self.queues.get(&submission.request.service.0) {
                        drop(queue.send((submission, now)));
                    }
                }
            }
        }
        Ticket::answer_all(at_once);
    }

    fn dropped(&self) -> Served {
        Served::now(Response::failure(FailureKind::Dropped, "the service dropped the request"))
    }
}

/// Reads journalled answers; what cannot be read, or lacks what is wanted, goes to its service.
struct Archivist {
    queues: BTreeMap<Arc<str>, Sender<Task>>,
    books: Books,
}

/// Journalled answers that are read in one go.
const ARCHIVE_BATCH: usize = 256;

impl Archivist {
    fn run(&self, receiver: &Receiver<(Task, Location)>, reader: &SegmentReader) {
        while let Some(batch) = drain(receiver, ARCHIVE_BATCH) {
            let locations: Vec<_> = batch.iter().map(|(_, location)| *location).collect();
            let mut answers = Vec::with_capacity(batch.len());
            for (((mut submission, since), _), bytes) in batch.into_iter().zip(reader.read(&locations)) {
                let served = bytes.ok().and_then(|bytes| Record::read(&bytes)).map(Record::served);
                let spent = self.books.get(&submission.request.service.0);
                match served {
                    Some(served) if served.response.satisfies(&submission.request) => {
                        if let Some(spent) = spent {
                            add(&spent.journalled, 1);
                        }
                        answers.push((submission.ticket, Answered { response: served.cached(), record: None }));
                    }
                    lacking => {
                        if let Some(spent) = spent {
                            add(&spent.unreadable, 1);
                        }
                        if let Some(served) = lacking {
                            keep_temperatures(&mut submission.request, &served.response);
                        }
                        if let Some(queue) = self.queues.get(&submission.request.service.0) {
                            drop(queue.send((submission, since)));
                        }
                    }
                }
            }
            Ticket::answer_all(answers);
        }
    }
}

/// What is computed again must hold what the journalled answer held, too: the new one takes its place.
fn keep_temperatures(request: &mut Request, found: &Response) {
    if let (Ask::Score(score), Ok(Answer::Score(held))) = (&mut request.ask, &found.result) {
        let missing = held.log_sum_exps.iter().map(|(t, _)| *t).filter(|t| !score.temperatures.contains(t));
        let missing: Vec<f64> = missing.collect();
        score.temperatures.extend(missing);
    }
}

/// Waits for something, then takes what else is there, up to `most`; `None` when nobody can send any more.
pub(super) fn drain<T>(receiver: &Receiver<T>, most: usize) -> Option<Vec<T>> {
    let mut batch = vec![receiver.recv().ok()?];
    batch.extend(receiver.try_iter().take(most.saturating_sub(1)));
    Some(batch)
}

/// What a request that was computed is answered with, and what is journalled of it.
///
/// A lost device answers nobody: it is the run's fault, and this thread waits for the process to end. A question that failed
/// for that would be committed, and whoever resumes the run would never ask it again.
pub(super) fn answered(task: Task, response: Response, took: Took, fault: &Fault) -> Settled {
    let (submission, _) = task;
    if let Some(lost) = lost(&submission.request, &response) {
        fault.report(lost);
        loop {
            std::thread::park();
        }
    }
    let kind = submission.request.ask.kind();
    let Took { queue_us, service_us, device_us } = took;
    let served = Served { response, queue_us, service_us, device_us, cached: false };
    let record = Recorded {
        bucket: submission.bucket,
        key: submission.key,
        service: submission.request.service,
        kind,
        served: served.clone(),
    };
    (submission.ticket, Answered { response: served, record: Some(record) })
}

/// What ends the run, if a response says that the device of its service was lost.
fn lost(request: &Request, response: &Response) -> Option<JobError> {
    JobError::device_lost(&request.service.0, response.result.as_ref().err()?)
}

/// Microseconds since a request came, less those of its service.
pub(super) fn waited((_, since): &Task, service_us: u64) -> u64 {
    elapsed_us(*since).saturating_sub(service_us)
}

/// Where one service of one worker is served.
pub(super) struct Counter {
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) engine: Arc<Engine>,
    pub(super) name: Arc<str>,
    pub(super) books: Books,
    pub(super) fault: Fault,
    /// The worker's index, which says which device is its own.
    pub(super) worker: usize,
}

impl Counter {
    /// A retriever, in batches.
    fn run(&self, receiver: &Receiver<Task>, batch: usize) {
        let mut scratch = Scratch::default();
        while let Some(tasks) = drain(receiver, batch) {
            let begun = Instant::now();
            let requests: Vec<&Request> = tasks.iter().map(|(submission, _)| &submission.request).collect();
            let (corpus, spent) = (&self.catalogue.corpus, self.books.get(&self.name));
            let (responses, device_us) = match &*self.engine {
                Engine::Dense(dense) => dense.retrieve(corpus, &requests, &mut scratch, spent, self.worker),
                engine => (sparse::retrieve(corpus, engine, &requests, &mut scratch), 0),
            };
            let device_us = device_us / tasks.len() as u64;
            let shares = shares(elapsed_us(begun), tasks.len());
            Ticket::answer_all(tasks.into_iter().zip(responses).zip(shares).map(|((task, response), service_us)| {
                if let Some(spent) = spent {
                    spent.count(&response, service_us, 0);
                }
                let queue_us = u64::try_from(begun.duration_since(task.1).as_micros()).unwrap_or(u64::MAX);
                answered(task, response, Took { queue_us, service_us, device_us }, &self.fault)
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::request::{Direction, Links};
    use hopeval_methods::{PassageId, ServiceName};

    #[test]
    fn a_lost_device_ends_the_run_so_that_it_can_go_on_and_no_other_failure_does() {
        let request = Request {
            service: ServiceName("scorer".into()),
            ask: Ask::Links(Links { passage: PassageId(0), direction: Direction::Outgoing, read: false }),
            draw: 0,
        };
        for kind in FailureKind::ALL {
            let found = lost(&request, &Response::failure(kind, "an error that the device keeps"));
            let said = found.as_ref().map(ToString::to_string);
            let expected = (kind == FailureKind::DeviceLost)
                .then(|| "[service.scorer] lost its device: an error that the device keeps".to_owned());
            assert_eq!(said, expected);
            assert!(found.is_none_or(|error| error.is_transient()));
        }
    }
}
