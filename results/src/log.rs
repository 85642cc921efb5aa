//! The commit log of a run: numbered records, each put if absent, so at most one writer gets a number.
//!
//! A *generation* (one start of the mesh) begins with a fence. From then on, records of lower generations are void:
//! a writer believed dead can neither commit unnoticed nor be confused with its successor.
//!
//! ```text
//!   0 fence g1   1 commit g1   2 commit g1   3 fence g2   4 commit g1 (void)   5 commit g2   6 gold   7 final g2
//! ```
//!
//! The put of a record may succeed and its answer be lost; then the retried put finds the number taken. Each record
//! carries its committer's random id. A writer finding its own record there knows that the put succeeded.

mod error;
mod record;
mod state;

pub use error::LogError;
pub use record::{CohortCommit, Commit, FinalRecord, FinalTable, LOG_VERSION, LogRecord, RecordBody};
pub use state::{GoldEdit, LogState};

use crate::check::FileCheck;
use crate::layout;
use crate::store::{Store, StoreError};
use bytes::Bytes;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most records requested beyond the last known one.
const AHEAD: u64 = 64;

/// The generations that finished `runs`, in their order, each read from the last record of its log alone; `None` if
/// that record does not tell. An unreadable one does not hide the others.
///
/// A `Final` record counts if nothing came between the state that its writer saw and the record: the name of its tables
/// has the number of records then.
///
/// # Errors
/// An error of the store.
pub fn finished_generations(store: &Store, runs: &[String]) -> Result<Vec<Result<Option<u64>, LogError>>, StoreError> {
    let folders: Vec<String> = runs.iter().map(|run| layout::log_folder(run)).collect();
    let mut last = Vec::new();
    for (at, (listed, run)) in store.list_many(&folders)?.into_iter().zip(runs).enumerate() {
        if let (Some((name, _)), Some(seq)) = (listed.last(), (listed.len() as u64).checked_sub(1))
            && *name == layout::log_record(run, seq)
        {
            last.push((at, seq, name.clone()));
        }
    }
    let names: Vec<String> = last.iter().map(|(.., name)| name.clone()).collect();
    let mut found: Vec<_> = runs.iter().map(|_| Ok(None)).collect();
    for ((at, seq, name), bytes) in last.into_iter().zip(store.get_many(&names)?) {
        if let Some(bytes) = bytes {
            let record = LogRecord::from_json(store, &name, seq, &bytes);
            found[at] = record.map(|record| finishing_generation(&runs[at], seq, &record));
        }
    }
    Ok(found)
}

/// The generation of a last record, if the record finishes the run.
fn finishing_generation(run: &str, seq: u64, record: &LogRecord) -> Option<u64> {
    let RecordBody::Final(finished) = &record.body else { return None };
    let current = |table: &FinalTable| table.path == layout::written_table(run, record.generation, seq, &table.table);
    let valid = !finished.tables.is_empty() && finished.tables.iter().all(current);
    valid.then_some(record.generation)
}

/// A run's log and the state read from it so far.
#[derive(Clone, Debug)]
pub struct Log {
    store: Store,
    run: String,
    state: LogState,
}

impl Log {
    /// Opens the log of `run` and reads all of it. A run without records has an empty log.
    ///
    /// # Errors
    /// A record is malformed, of another version, or missing in the middle; or the store failed.
    pub fn open(store: &Store, run: &str) -> Result<Self, LogError> {
        let mut log = Self { store: store.clone(), run: run.to_owned(), state: LogState::default() };
        let listed = store.list(&layout::log_folder(run))?;
        log.refresh()?;
        if let Some((name, _)) =
            listed.iter().rfind(|(name, _)| name.as_str() >= log.record_name(log.next_number()).as_str())
        {
            let missing = store.full_name(&log.record_name(log.next_number()));
            return Err(LogError::Gap { missing, found: store.full_name(name) });
        }
        Ok(log)
    }

    /// Reads the records appended since the last read.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn refresh(&mut self) -> Result<&LogState, LogError> {
        let mut ahead = 1;
        loop {
            let names: Vec<String> =
                (self.next_number()..self.next_number() + ahead).map(|seq| self.record_name(seq)).collect();
            for (name, bytes) in names.iter().zip(self.store.get_many(&names)?) {
                let Some(bytes) = bytes else { return Ok(&self.state) };
                let record = LogRecord::from_json(&self.store, name, self.next_number(), &bytes)?;
                self.state.apply_record(record);
            }
            ahead = (ahead * 4).min(AHEAD);
        }
    }

    /// The state read so far.
    pub fn state(&self) -> &LogState {
        &self.state
    }

    /// The run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Begins a generation and returns its number: one more than the last one's. `committer` is a random id of
    /// the process that will write its commits.
    ///
    /// # Errors
    /// As [`Log::open`]. After an error of the store the fence may exist or not; another one is harmless.
    pub fn append_fence(
        &mut self,
        committer: &str,
        processes: u32,
        workers: u32,
        settings_digest: &str,
    ) -> Result<u64, LogError> {
        let body = RecordBody::Fence { processes, workers, settings_digest: settings_digest.to_owned() };
        loop {
            self.refresh()?;
            let generation = self.state.generation + 1;
            let record = self.new_record(generation, committer, body.clone());
            let taken = self.try_append(&record)?;
            if taken.same_as(&record) {
                return Ok(generation);
            }
        }
    }

    /// Checks that no generation after `generation` has begun, as far as the log was read.
    ///
    /// # Errors
    /// [`LogError::Superseded`].
    pub fn check_generation(&self, generation: u64) -> Result<(), LogError> {
        match self.state.generation {
            by if by > generation => Err(LogError::Superseded { generation, by }),
            _ => Ok(()),
        }
    }

    /// Appends a record of `generation` and returns its number.
    ///
    /// It skips records that do not compete with it: edits of gold, appended by anyone, and void records.
    /// Appending the same body again after an error of the store is safe.
    ///
    /// # Errors
    /// [`LogError::Superseded`] when a later generation has begun, [`LogError::Conflict`] when another committer
    /// writes in the same generation, or an error of the store; then the record may exist or not.
    pub fn append(&mut self, generation: u64, committer: &str, body: RecordBody) -> Result<u64, LogError> {
        loop {
            self.check_generation(generation)?;
            let record = self.new_record(generation, committer, body.clone());
            let taken = self.try_append(&record)?;
            if taken.same_as(&record) {
                return Ok(taken.seq);
            }
            if taken.competes_with(&record) {
                return Err(LogError::Conflict { seq: taken.seq, generation, committer: taken.committer });
            }
        }
    }

    /// Appends an edit of gold, the object `path`, and returns the record's number. An edit needs no generation.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn append_gold(
        &mut self,
        committer: &str,
        edit: u64,
        path: &str,
        check: Option<FileCheck>,
    ) -> Result<u64, LogError> {
        let body = RecordBody::Gold { edit, path: path.to_owned(), check };
        loop {
            let record = self.new_record(self.state.generation, committer, body.clone());
            let taken = self.try_append(&record)?;
            if taken.same_as(&record) {
                return Ok(taken.seq);
            }
        }
    }

    /// Tries to take the next number and returns the record that has it now, ours or another's. Applies that record
    /// either way.
    fn try_append(&mut self, record: &LogRecord) -> Result<LogRecord, LogError> {
        let name = self.record_name(record.seq);
        let taken = match self.store.put_or_get(&name, &Bytes::from(record.to_json()?))? {
            None => record.clone(),
            Some(bytes) => LogRecord::from_json(&self.store, &name, record.seq, &bytes)?,
        };
        self.state.apply_record(taken.clone());
        Ok(taken)
    }

    fn new_record(&self, generation: u64, committer: &str, body: RecordBody) -> LogRecord {
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        LogRecord {
            version: LOG_VERSION,
            seq: self.next_number(),
            generation,
            committer: committer.to_owned(),
            at_ms,
            body,
        }
    }

    fn record_name(&self, seq: u64) -> String {
        layout::log_record(&self.run, seq)
    }

    fn next_number(&self) -> u64 {
        self.state.next
    }
}
