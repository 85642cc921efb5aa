//! The index of known answers for one worker: in memory as soon as they are computed, in the journal's index once they
//! are durable.

use super::served::ServedResponse;
use hopeval_operators::RequestKey;
use hopeval_results::journal::{FoundSegment, SegmentReader, share_left};
use hopeval_results::{AnswerLocation, Journal, JournalError, Segment, Store, layout};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The index of known answers for one worker.
#[derive(Clone)]
pub struct AnswerIndex(Rc<RefCell<AnswerIndexState>>);

struct AnswerIndexState {
    journal: Journal,
    recent: FxHashMap<RequestKey, Rc<ServedResponse>>,
    /// Segments written since the last look-up, with their keys: these answers are no longer recent.
    durable: DurableSegments,
    /// Segments that earlier generations of the run have left to this worker's merges.
    left: Vec<FoundSegment>,
    /// The latest creation of a segment that was found.
    latest_ms: u64,
}

/// Durable segments, each with its keys: from the writing thread to the worker.
pub(crate) type DurableSegments = Arc<Mutex<Vec<(Segment, Vec<RequestKey>)>>>;

/// A key in the store's type.
pub(crate) fn results_key(key: &RequestKey) -> hopeval_results::JournalKey {
    hopeval_results::JournalKey(key.0)
}

impl AnswerIndex {
    /// Loads the keys of the buckets of worker `index` of `workers`.
    ///
    /// # Errors
    /// A segment of a foreign version, a failure of the store. Damaged segments are left out with a warning.
    pub fn open(
        store: &Store,
        run: &str,
        index: usize,
        workers: usize,
        preferred: &BTreeSet<String>,
    ) -> Result<Self, JournalError> {
        let owns = |bucket: u16| hopeval_operators::worker_of(bucket, workers) == index;
        let prefixes = [layout::JOURNAL.to_owned(), layout::run_journal(run)];
        let mut journal = Journal::open(store, &prefixes, &owns, preferred)?;
        for damaged in journal.damaged() {
            tracing::warn!(error = %damaged, "a journal segment is left out; what it holds is computed again");
        }
        let left = share_left(journal.found(), run, index, workers);
        let latest_ms = journal.latest_ms();
        journal.forget_found();
        let state =
            AnswerIndexState { journal, recent: FxHashMap::default(), durable: Arc::default(), left, latest_ms };
        Ok(Self(Rc::new(RefCell::new(state))))
    }

    /// Number of keys in the index.
    pub fn len(&self) -> usize {
        self.0.borrow().journal.len()
    }

    /// Whether the journal's index is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A reader of locations, for another thread.
    pub fn reader(&self) -> SegmentReader {
        self.0.borrow().journal.reader()
    }

    /// The segments that earlier generations have left to this worker's merges, once.
    pub(crate) fn take_left(&self) -> Vec<FoundSegment> {
        std::mem::take(&mut self.0.borrow_mut().left)
    }

    /// The latest creation of a segment that was found when the index was opened, in milliseconds since 1970.
    pub(crate) fn latest_ms(&self) -> u64 {
        self.0.borrow().latest_ms
    }

    /// A response computed and not durable yet.
    pub fn recent(&self, key: &RequestKey) -> Option<Rc<ServedResponse>> {
        self.index_durable();
        self.0.borrow().recent.get(key).cloned()
    }

    /// The location of a durable response.
    pub fn locate(&self, key: &RequestKey) -> Option<AnswerLocation> {
        self.0.borrow().journal.locate(&results_key(key))
    }

    /// Keeps a newly computed response until its segment is durable.
    pub(crate) fn keep_recent(&self, key: RequestKey, served: ServedResponse) {
        self.0.borrow_mut().recent.insert(key, Rc::new(served));
    }

    /// The list for the writing thread to report durable segments.
    pub(crate) fn durable_segments(&self) -> DurableSegments {
        Arc::clone(&self.0.borrow().durable)
    }

    /// Moves durable answers from memory to the index.
    pub(crate) fn index_durable(&self) {
        let mut state = self.0.borrow_mut();
        let durable = std::mem::take(&mut *state.durable.lock().unwrap_or_else(PoisonError::into_inner));
        for (segment, keys) in durable {
            state.journal.add_segment(&segment);
            for key in keys {
                state.recent.remove(&key);
            }
        }
    }
}
