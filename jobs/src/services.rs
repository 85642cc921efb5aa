//! Services: what answers the requests of methods, and with which fingerprint.
//!
//! ```text
//!   serve --submit--> Desk --not journalled--> corpus lookups, at once
//!                      |----known, not durable yet--> from memory, at once
//!                      |----in the journal--> archive thread: reads ranges ----miss----+
//!                      +----new-----------------------------------------------------> service thread
//! ```
//!
//! A service thread takes whatever waits, up to a batch, and never waits for more. Nothing here blocks the worker.

use crate::error::JobError;
use crate::host::{Record, Recorded, Served};
use crate::job::Service;
use crate::journal::Shelf;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_index::{Bm25Index, Hit, Query, Scratch, Statistics, TfidfIndex, Within, link_tfidf};
use hopeval_methods::request::{self, Direction, PassageSet};
use hopeval_methods::response::Hit as Found;
use hopeval_methods::{Answer, Ask, FailureKind, Kind, Request, Response, ServiceName, Work};
use hopeval_operators::serve::{Answered, Backend, Submission};
use hopeval_operators::ticket::Ticket;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The service that every job has: passages and links of its corpus.
pub const CORPUS: &str = "corpus";

/// The engines of a job's services, by name.
pub type Engines = BTreeMap<Arc<str>, Arc<Engine>>;

/// What answers the requests of one service.
pub enum Engine {
    /// BM25.
    Bm25(Bm25Index),
    /// DrQA's TF-IDF.
    Tfidf(TfidfIndex),
    /// TF-IDF fitted on the passages of each request.
    LinkTfidf,
}

/// All services of a run, shared by the workers of a process.
pub struct Catalogue {
    /// The corpus.
    pub corpus: Arc<Corpus>,
    engines: Engines,
    infos: BTreeMap<Arc<str>, Info>,
}

/// What is known of a service.
#[derive(Clone, Debug)]
pub struct Info {
    /// Its kind, as the job names it.
    pub kind: &'static str,
    /// What it can answer.
    pub answers: Vec<Kind>,
    /// Everything that can change an answer.
    pub fingerprint: [u8; 32],
    /// Whether its answers are journalled; corpus lookups are not worth it.
    pub journalled: bool,
}

/// Rises when an engine's answers change although no parameter does.
const NUMERICS: &str = "f64 1";

impl Catalogue {
    /// The services of a job over `corpus`.
    pub fn new(corpus: Arc<Corpus>, engines: Engines, services: &BTreeMap<String, Service>) -> Self {
        let fingerprint = |parts: &[&str]| {
            let mut hasher = blake3::Hasher::new_derive_key("hopeval service 1");
            for part in parts {
                hasher.update(part.as_bytes());
                hasher.update(&[0]);
            }
            *hasher.finalize().as_bytes()
        };
        let digest = corpus.digest().to_owned();
        let mut infos: BTreeMap<Arc<str>, Info> = services
            .iter()
            .map(|(name, service)| {
                // The definition with every default filled in.
                let parameters =
                    serde_json::to_string(service).expect("plain data can be written as JSON; this is a bug");
                let fingerprint = fingerprint(&[service.kind(), &digest, &parameters, NUMERICS]);
                let info = Info { kind: service.kind(), answers: vec![Kind::Retrieve], fingerprint, journalled: true };
                (name.as_str().into(), info)
            })
            .collect();
        let lookups = Info {
            kind: CORPUS,
            answers: vec![Kind::Passages, Kind::Links],
            fingerprint: fingerprint(&[CORPUS, &digest]),
            journalled: false,
        };
        infos.insert(CORPUS.into(), lookups);
        Self { corpus, engines, infos }
    }

    /// A service.
    pub fn info(&self, name: &ServiceName) -> Option<&Info> {
        self.infos.get(&name.0)
    }

    /// All services, by name.
    pub fn infos(&self) -> impl Iterator<Item = (&str, &Info)> {
        self.infos.iter().map(|(name, info)| (name.as_ref(), info))
    }

    /// Checks that every service a configuration uses exists and can answer.
    ///
    /// # Errors
    /// [`JobError::ServiceUse`].
    pub fn check(&self, configuration: &str, method: &dyn hopeval_methods::Method) -> Result<(), JobError> {
        for used in method.services() {
            let reason = match self.info(&used.service) {
                None => "no such service".to_owned(),
                Some(info) if !info.answers.contains(&used.kind) => {
                    format!("a {} service does not answer {}", info.kind, used.kind.name())
                }
                Some(_) => continue,
            };
            let fit = self.infos().filter(|(_, info)| info.answers.contains(&used.kind)).map(|(name, _)| name);
            let allowed = fit.collect::<Vec<_>>().join(", ");
            return Err(JobError::ServiceUse {
                configuration: configuration.into(),
                parameter: used.parameter,
                service: used.service.to_string(),
                reason,
                allowed: if allowed.is_empty() { "none that does".into() } else { allowed },
            });
        }
        Ok(())
    }

    /// Answers one request, here and now: for transcripts and small things outside a run.
    pub fn answer(&self, request: &Request) -> Response {
        match self.engines.get(&request.service.0) {
            Some(engine) => self.retrieve(engine, &[request], &mut Scratch::default()).remove(0),
            None => self.look_up(request),
        }
    }

    fn look_up(&self, request: &Request) -> Response {
        let ids = |found: Vec<PassageId>| found.into_iter().map(|p| request::PassageId(p.0)).collect::<Vec<_>>();
        let answer = match &request.ask {
            Ask::Passages(asked) => Answer::Passages(ids(self.members(&asked.passages))),
            Ask::Links(links) => {
                let passage = PassageId(links.passage.0);
                if !self.corpus.contains(passage) {
                    return Response::failure(FailureKind::Refused, format!("no passage {}", links.passage.0));
                }
                let found = match links.direction {
                    Direction::Outgoing => self.corpus.links(passage),
                    Direction::Incoming => self.corpus.linked_from(passage),
                };
                Answer::Links(ids(found.to_vec()))
            }
            other => {
                let message = format!("`{}` does not answer {}", request.service, other.kind().name());
                return Response::failure(FailureKind::Refused, message);
            }
        };
        Response::answer(answer, Work::default())
    }

    /// The passages of a set that the corpus has, in the order asked.
    fn members(&self, set: &PassageSet) -> Vec<PassageId> {
        match set {
            PassageSet::Ids(ids) => {
                ids.iter().map(|id| PassageId(id.0)).filter(|&id| self.corpus.contains(id)).collect()
            }
            PassageSet::Titles(titles) => {
                titles.iter().flat_map(|title| self.corpus.by_title(title)).copied().collect()
            }
        }
    }

    fn retrieve(&self, engine: &Engine, requests: &[&Request], scratch: &mut Scratch) -> Vec<Response> {
        let mut responses: Vec<Option<Response>> = Vec::with_capacity(requests.len());
        let mut queries = Vec::new();
        for request in requests {
            let Ask::Retrieve(asked) = &request.ask else {
                let message = format!("`{}` does not answer {}", request.service, request.ask.kind().name());
                responses.push(Some(Response::failure(FailureKind::Refused, message)));
                continue;
            };
            if matches!(engine, Engine::LinkTfidf) {
                responses.push(Some(self.rank_links(asked)));
                continue;
            }
            let within = asked.within.as_ref().map(|within| {
                let mut ids: Vec<u32> = self.members(&within.passages).into_iter().map(|id| id.0).collect();
                ids.sort_unstable();
                ids.dedup();
                let statistics = match within.statistics {
                    request::Statistics::Corpus => Statistics::Corpus,
                    request::Statistics::Restriction => Statistics::Restriction,
                };
                Within { ids, statistics }
            });
            queries.push(Query { text: &asked.query, k: asked.k as usize, within });
            responses.push(None);
        }
        let found = match engine {
            Engine::Bm25(index) => index.search(&queries, scratch),
            Engine::Tfidf(index) => index.search(&queries, scratch),
            Engine::LinkTfidf => Vec::new(),
        };
        let mut found = found.into_iter();
        responses
            .into_iter()
            .map(|response| response.unwrap_or_else(|| ranked(found.next().unwrap_or_default())))
            .collect()
    }

    fn rank_links(&self, asked: &request::Retrieve) -> Response {
        let Some(within) = &asked.within else {
            return Response::failure(
                FailureKind::Refused,
                "link_tfidf ranks only what a request allows; it has no `within`",
            );
        };
        let passages = self.members(&within.passages);
        let texts: Vec<(&str, &str)> = passages.iter().map(|&p| (self.corpus.title(p), self.corpus.text(p))).collect();
        let ranking = link_tfidf::rank(&asked.query, &texts).into_iter().take(asked.k as usize);
        ranked(ranking.map(|(i, score)| Hit { id: passages[i].0, score }).collect())
    }
}

fn ranked(hits: Vec<Hit>) -> Response {
    let hits = hits.into_iter().map(|hit| Found { passage: request::PassageId(hit.id), score: hit.score }).collect();
    Response::answer(Answer::Retrieve(hits), Work::default())
}

/// What a service did in this process.
#[derive(Debug, Default)]
pub struct Spent {
    /// Requests that reached it; equal ones that are in flight together count once.
    pub requests: AtomicU64,
    /// Different keys among them, in this generation.
    pub unique: AtomicU64,
    /// Answered from the journal.
    pub journalled: AtomicU64,
    /// Computed.
    pub computed: AtomicU64,
    /// Failed.
    pub failed: AtomicU64,
    /// Journalled answers that could not be read, and were computed again.
    pub unreadable: AtomicU64,
    /// Microseconds of service.
    pub service_us: AtomicU64,
}

/// What the services of a worker did, by name.
pub type Books = Arc<BTreeMap<Arc<str>, Spent>>;

/// Books for every service of a catalogue.
pub fn books(catalogue: &Catalogue) -> Books {
    Arc::new(catalogue.infos.keys().map(|name| (Arc::clone(name), Spent::default())).collect())
}

type Task = (Submission<Request, Served, Recorded>, Instant);

/// Answers the requests of one worker.
pub struct Desk {
    catalogue: Arc<Catalogue>,
    shelf: Shelf,
    books: Books,
    queues: BTreeMap<Arc<str>, Sender<Task>>,
    /// Keys that have reached this worker, by their first eight bytes: a key belongs to one worker alone.
    seen: FxHashSet<u64>,
    archive: Sender<(Task, hopeval_results::Location)>,
}

impl Desk {
    /// Opens the services of one worker, each with a thread of its own.
    pub fn open(catalogue: &Arc<Catalogue>, shelf: Shelf, books: &Books, batch: usize) -> Self {
        let mut queues = BTreeMap::new();
        for (name, engine) in &catalogue.engines {
            let (sender, receiver) = channel();
            let work = Counter {
                catalogue: Arc::clone(catalogue),
                engine: Arc::clone(engine),
                name: Arc::clone(name),
                books: Arc::clone(books),
            };
            spawn(&format!("service {name}"), move || work.run(&receiver, batch));
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
            archive,
        }
    }

    fn spent(&self, request: &Request) -> Option<&Spent> {
        self.books.get(&request.service.0)
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let built = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    // Without threads nothing can be answered; the tickets of what is submitted say so.
    if let Err(error) = built {
        tracing::error!(%error, name, "cannot start a thread");
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
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
            if let Some(served) = self.shelf.recent(&submission.key).filter(|served| served.response.satisfies(request))
            {
                if let Some(spent) = self.spent(request) {
                    add(&spent.journalled, 1);
                }
                at_once.push((submission.ticket, Answered { response: served.cached(), record: None }));
                continue;
            }
            let location = self.shelf.locate(&submission.key);
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
    fn run(
        &self,
        receiver: &Receiver<(Task, hopeval_results::Location)>,
        reader: &hopeval_results::journal::SegmentReader,
    ) {
        while let Some(batch) = drain(receiver, ARCHIVE_BATCH) {
            let locations: Vec<_> = batch.iter().map(|(_, location)| *location).collect();
            let mut answers = Vec::with_capacity(batch.len());
            for (((submission, since), _), bytes) in batch.into_iter().zip(reader.read(&locations)) {
                let served = bytes.ok().and_then(|bytes| Record::read(&bytes)).map(Record::served);
                let spent = self.books.get(&submission.request.service.0);
                match served.filter(|served| served.response.satisfies(&submission.request)) {
                    Some(served) => {
                        if let Some(spent) = spent {
                            add(&spent.journalled, 1);
                        }
                        answers.push((submission.ticket, Answered { response: served.cached(), record: None }));
                    }
                    None => {
                        if let Some(spent) = spent {
                            add(&spent.unreadable, 1);
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

/// Waits for something, then takes what else is there, up to `most`; `None` when nobody can send any more.
fn drain<T>(receiver: &Receiver<T>, most: usize) -> Option<Vec<T>> {
    let mut batch = vec![receiver.recv().ok()?];
    batch.extend(receiver.try_iter().take(most.saturating_sub(1)));
    Some(batch)
}

/// Where one service of one worker is served.
struct Counter {
    catalogue: Arc<Catalogue>,
    engine: Arc<Engine>,
    name: Arc<str>,
    books: Books,
}

impl Counter {
    fn run(&self, receiver: &Receiver<Task>, batch: usize) {
        let mut scratch = Scratch::default();
        while let Some(tasks) = drain(receiver, batch) {
            let begun = Instant::now();
            let requests: Vec<&Request> = tasks.iter().map(|(submission, _)| &submission.request).collect();
            let responses = self.catalogue.retrieve(&self.engine, &requests, &mut scratch);
            let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            if let Some(spent) = self.books.get(&self.name) {
                add(&spent.computed, tasks.len() as u64);
                add(&spent.failed, responses.iter().filter(|r| r.result.is_err()).count() as u64);
                add(&spent.service_us, took);
            }
            // A batch's time is shared evenly: what one query of it took alone is not known.
            let share = took / tasks.len() as u64;
            Ticket::answer_all(tasks.into_iter().zip(responses).map(|((submission, since), response)| {
                let kind = submission.request.ask.kind();
                let queue_us = u64::try_from(begun.duration_since(since).as_micros()).unwrap_or(u64::MAX);
                let served = Served { response, queue_us, service_us: share, cached: false };
                let record = Recorded {
                    bucket: submission.bucket,
                    key: submission.key,
                    service: submission.request.service,
                    kind,
                    served: served.clone(),
                };
                (submission.ticket, Answered { response: served, record: Some(record) })
            }));
        }
    }
}

/// A first error that ends the run, from whichever thread met it.
#[derive(Clone, Default)]
pub struct Fault(Arc<Mutex<Option<JobError>>>);

impl Fault {
    /// Keeps the first error, which whoever takes it tells the user; others often follow from it.
    pub fn report(&self, error: JobError) {
        tracing::debug!(%error, "the run cannot go on");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Takes the error, if there is one.
    pub fn take(&self) -> Option<JobError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
