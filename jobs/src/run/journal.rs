//! The journal of one worker: what is known, what was just computed, and what is being written.
//!
//! A response is *recent* from the moment it is computed until its segment is durable; then its key is in the index.
//! Segments are written when enough has gathered, or has waited long enough, and whenever the dataflow says that a chunk is
//! complete, because a commit waits for everything that its outcomes may have seen; and once more when a run drains, so
//! that nothing that was computed is computed again.

use crate::run::commits::Receipt;
use crate::run::machines::{Recorded, Served};
use crate::services::Fault;
use crate::services::record::Record;
use hopeval_operators::Key;
use hopeval_operators::persist::{Due, Writer};
use hopeval_operators::ticket::Ticket;
use hopeval_results::journal::{SegmentReader, write_segment};
use hopeval_results::{Entry, Journal, JournalError, Location, Segment, Store, layout};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes that gather before a segment is written without need.
const SEGMENT_BYTES: usize = 8 << 20;

/// How long a record may wait for its segment: about what a crash may cost, also where an answer takes a model a second.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Where one worker looks answers up.
#[derive(Clone)]
pub struct Shelf(Rc<RefCell<Inner>>);

struct Inner {
    journal: Journal,
    recent: FxHashMap<Key, Rc<Served>>,
    /// Segments that became durable since the shelf was last looked at, with the keys that are no longer recent.
    durable: Durable,
}

/// Segments that became durable, each with its keys: from the writing thread to the worker.
type Durable = Arc<Mutex<Vec<(Segment, Vec<Key>)>>>;

fn results_key(key: &Key) -> hopeval_results::Key {
    hopeval_results::Key(key.0)
}

impl Shelf {
    /// Loads the keys of the buckets that worker `index` of `workers` owns.
    ///
    /// # Errors
    /// A segment of a foreign version, a store that fails. Damaged segments are left out with a warning.
    pub fn open(
        store: &Store,
        run: &str,
        index: usize,
        workers: usize,
        preferred: &BTreeSet<String>,
    ) -> Result<Self, JournalError> {
        let owns = |bucket: u16| hopeval_operators::worker_of(bucket, workers) == index;
        let prefixes = [layout::JOURNAL.to_owned(), layout::run_journal(run)];
        let journal = Journal::open(store, &prefixes, &owns, preferred)?;
        for damaged in journal.damaged() {
            tracing::warn!(error = %damaged, "a journal segment is left out; what it holds is computed again");
        }
        let inner = Inner { journal, recent: FxHashMap::default(), durable: Arc::default() };
        Ok(Self(Rc::new(RefCell::new(inner))))
    }

    /// Keys in the index.
    pub fn len(&self) -> usize {
        self.0.borrow().journal.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads locations on another thread.
    pub fn reader(&self) -> SegmentReader {
        self.0.borrow().journal.reader()
    }

    /// A response that is computed and not durable yet.
    pub fn recent(&self, key: &Key) -> Option<Rc<Served>> {
        self.settle();
        self.0.borrow().recent.get(key).cloned()
    }

    /// Where a durable response is.
    pub fn locate(&self, key: &Key) -> Option<Location> {
        self.0.borrow().journal.locate(&results_key(key))
    }

    /// Moves what has become durable from memory to the index.
    fn settle(&self) {
        let mut inner = self.0.borrow_mut();
        let durable = std::mem::take(&mut *inner.durable.lock().unwrap_or_else(PoisonError::into_inner));
        for (segment, keys) in durable {
            inner.journal.add(&segment);
            for key in keys {
                inner.recent.remove(&key);
            }
        }
    }
}

type Job = (Vec<(Key, u16, Vec<u8>)>, bool, Ticket<Receipt>);

/// Writes the records of one worker as segments.
pub struct Scribe {
    shelf: Shelf,
    pending: Vec<(Key, u16, Vec<u8>)>,
    /// Failures that only this run keeps.
    pending_run: Vec<(Key, u16, Vec<u8>)>,
    bytes: usize,
    /// Since when the oldest of them waits.
    since: Option<Instant>,
    jobs: Sender<Job>,
    /// Writes that have begun and are not durable.
    open: Arc<AtomicUsize>,
}

/// Whose segments they are.
#[derive(Clone, Debug)]
pub struct Author {
    /// The run.
    pub run: String,
    /// Its generation.
    pub generation: u64,
    /// The worker.
    pub worker: u32,
}

impl Scribe {
    /// A scribe with a writing thread of its own; `open` counts its writes.
    pub fn new(store: &Store, author: Author, shelf: Shelf, open: Arc<AtomicUsize>, fault: Fault) -> Self {
        let (jobs, receiver) = channel();
        let durable = Arc::clone(&shelf.0.borrow().durable);
        let pen = Pen { store: store.clone(), author, durable, open: Arc::clone(&open), fault };
        let started = std::thread::Builder::new().name("journal".into()).spawn(move || pen.run(&receiver));
        if let Err(error) = started {
            tracing::error!(%error, "cannot start the journal's thread");
        }
        Self { shelf, pending: Vec::new(), pending_run: Vec::new(), bytes: 0, since: None, jobs, open }
    }

    fn begin(&mut self, run_only: bool, begin: &mut dyn FnMut() -> Ticket<Receipt>) {
        let pending = if run_only { &mut self.pending_run } else { &mut self.pending };
        if !pending.is_empty() {
            self.open.fetch_add(1, Ordering::SeqCst);
            // A closed channel drops the ticket, and the time is never let go; the fault was reported by the thread.
            drop(self.jobs.send((std::mem::take(pending), run_only, begin())));
        }
    }
}

impl Writer for Scribe {
    type Item = Recorded;
    type Receipt = Receipt;

    fn accept(&mut self, _chunk: u64, items: &mut Vec<Recorded>) {
        let mut inner = self.shelf.0.borrow_mut();
        if !items.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
        for Recorded { bucket, key, service, kind, served } in items.drain(..) {
            let record = Record {
                service: service.to_string(),
                kind,
                response: served.response.clone(),
                service_us: served.service_us,
            };
            let bytes = record.write();
            self.bytes += bytes.len() + 64;
            let run_only = !served.response.is_for_all_runs(kind);
            if run_only { &mut self.pending_run } else { &mut self.pending }.push((key, bucket, bytes));
            inner.recent.insert(key, Rc::new(served));
        }
    }

    fn write(&mut self, due: Due, begin: &mut dyn FnMut() -> Ticket<Receipt>) {
        self.shelf.settle();
        let late = self.since.is_some_and(|since| since.elapsed() >= LONGEST_WAIT);
        if due.advanced || due.flush || late || self.bytes >= SEGMENT_BYTES {
            (self.bytes, self.since) = (0, None);
            self.begin(false, begin);
            self.begin(true, begin);
        }
    }
}

/// The writing thread.
struct Pen {
    store: Store,
    author: Author,
    durable: Durable,
    open: Arc<AtomicUsize>,
    fault: Fault,
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Pen {
    fn run(self, receiver: &Receiver<Job>) {
        for (seq, (records, run_only, ticket)) in receiver.iter().enumerate() {
            let folder = if run_only { layout::run_journal(&self.author.run) } else { layout::JOURNAL.to_owned() };
            let Author { run, generation, worker } = &self.author;
            let name = layout::segment(&folder, now_ms(), run, *generation, *worker, seq as u64);
            let keys = records.iter().map(|(key, ..)| *key).collect();
            let entries = records
                .into_iter()
                .map(|(key, bucket, bytes)| Entry { bucket, key: results_key(&key), bytes: bytes.into() })
                .collect();
            match write_segment(&self.store, &name, entries) {
                Ok(segment) => {
                    let receipt = Receipt::Segment { name: segment.name().to_owned() };
                    self.durable.lock().unwrap_or_else(PoisonError::into_inner).push((segment, keys));
                    self.open.fetch_sub(1, Ordering::SeqCst);
                    ticket.answer(receipt);
                }
                Err(error) => {
                    self.fault.report(error.into());
                    return;
                }
            }
        }
    }
}
