//! Where one worker looks answers up: in memory from the moment that they are computed, in the journal's index once they
//! are durable.

use super::served::Served;
use hopeval_operators::Key;
use hopeval_results::journal::SegmentReader;
use hopeval_results::{Journal, JournalError, Location, Segment, Store, layout};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

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
pub(crate) type Durable = Arc<Mutex<Vec<(Segment, Vec<Key>)>>>;

/// A key as the store has it.
pub(crate) fn results_key(key: &Key) -> hopeval_results::Key {
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

    /// Keeps a response that was just computed, until its segment is durable.
    pub(crate) fn keep(&self, key: Key, served: Served) {
        self.0.borrow_mut().recent.insert(key, Rc::new(served));
    }

    /// The place where a writing thread reports durable segments.
    pub(crate) fn durable(&self) -> Durable {
        Arc::clone(&self.0.borrow().durable)
    }

    /// Moves what has become durable from memory to the index.
    pub(crate) fn settle(&self) {
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
