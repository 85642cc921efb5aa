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
//! there are several workers, the thread of a dense index hands its queries to all of them ([`super::dense::shards`]).

use super::archive::Archivist;
use super::catalogue::Catalogue;
use super::dense::query::Inlet;
use super::served::{Recorded, Served};
use super::shelf::Shelf;
use super::thread::{ServiceThread, Task, spawn};
use super::usage::{ServiceCounters, UsageCounters, add};
use crate::fault::Fault;
use crate::mode::Mode;
use hopeval_methods::{FailureKind, Request, Response};
use hopeval_operators::Key;
use hopeval_operators::serve::{Answered, Backend, Submission};
use hopeval_operators::ticket::Ticket;
use hopeval_results::Location;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

/// Answers the requests of one worker.
pub struct Desk {
    catalogue: Arc<Catalogue>,
    shelf: Shelf,
    usage: ServiceCounters,
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
        usage: &ServiceCounters,
        manner: Manner,
        fault: &Fault,
        inlet: Option<&Inlet>,
    ) -> Self {
        let Manner { batch, mode, worker } = manner;
        let mut queues = BTreeMap::new();
        for (name, service) in catalogue.journalled() {
            let (sender, tasks) = channel();
            let thread = ServiceThread {
                corpus: Arc::clone(&catalogue.corpus),
                name: Arc::clone(name),
                usage: Arc::clone(usage),
                fault: fault.clone(),
                worker,
                batch,
                inlet: inlet.cloned(),
            };
            let service = Arc::clone(service);
            spawn(&format!("service {name}"), move || service.serve(&thread, &tasks));
            queues.insert(Arc::clone(name), sender);
        }
        let (archive, receiver) = channel();
        let reader = shelf.reader();
        let clerk = Archivist { queues: queues.clone(), usage: Arc::clone(usage) };
        spawn("archive", move || clerk.run(&receiver, &reader));
        Self {
            catalogue: Arc::clone(catalogue),
            shelf,
            usage: Arc::clone(usage),
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

    fn usage_of(&self, request: &Request) -> Option<&UsageCounters> {
        self.usage.get(&request.service.0)
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
            if let Some(usage) = self.usage_of(request) {
                add(&usage.requests, 1);
                add(&usage.unique, u64::from(new));
            }
            let info = self.catalogue.info(&request.service);
            if info.is_none_or(|info| !info.journalled) {
                // A look-up in the mapped corpus computes nothing.
                let response = self.catalogue.answer(request);
                at_once.push((submission.ticket, Answered { response: Served::now(response), record: None }));
                continue;
            }
            let (recent, location) = self.known(&submission.key, request);
            if let Some(served) = recent {
                if let Some(usage) = self.usage_of(request) {
                    add(&usage.journalled, 1);
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
