//! Notes of a run's spending, as they are stored: numbered, each put if absent, so at most one writer gets a number.
//!
//! ```text
//!   0 of generation 1   1   2   3 of generation 1   4 of generation 2 ...
//!   kept                gone    the last one
//! ```
//!
//! Only the last note says what is allowed. A generation removes its own notes when a later one is durable, but for its
//! first one. A process of an earlier generation that goes on finds that its next number is taken, whenever that is.

use super::cap::SpendingCap;
use crate::error::JobError;
use hopeval_endpoint::SpentAmounts;
use hopeval_results::{FileRemedy, Store, StoreError, layout, seal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The version of notes.
const VERSION: u32 = 1;

/// What a run may have spent, by service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpendingNote {
    /// The version of the note.
    version: u32,
    /// The generation that wrote it.
    pub generation: u64,
    /// The cap in force.
    #[serde(default, skip_serializing_if = "SpendingCap::is_empty")]
    pub cap: SpendingCap,
    /// What each service has cost at most.
    pub allowed: BTreeMap<String, SpentAmounts>,
}

impl SpendingNote {
    /// A note of a generation.
    pub(super) fn new(generation: u64, cap: SpendingCap, allowed: BTreeMap<Arc<str>, SpentAmounts>) -> Self {
        let allowed = allowed.into_iter().map(|(name, amounts)| (name.to_string(), amounts)).collect();
        Self { version: VERSION, generation, cap, allowed }
    }

    /// The last note of a run; `None` if it has none.
    ///
    /// # Errors
    /// The store; a note that is damaged, or of another version.
    pub fn read_last(store: &Store, run: &str) -> Result<Option<Self>, JobError> {
        Ok(read_numbered(store, run)?.map(|(_, note)| note))
    }
}

/// The notes of a run, as its present generation writes them.
#[derive(Debug)]
pub(super) struct SpendingNotes {
    store: Store,
    run: String,
    generation: u64,
    cap: SpendingCap,
    /// The first note of this generation.
    first: u64,
    /// The last one.
    last: u64,
}

impl SpendingNotes {
    /// Begins a generation: writes the note that `compose` makes of the last one. It may be called again, if another
    /// process writes at the same time.
    pub(super) fn begin<T>(
        store: &Store,
        run: &str,
        generation: u64,
        mut compose: impl FnMut(Option<&SpendingNote>) -> (SpendingNote, T),
    ) -> Result<(Self, T), JobError> {
        loop {
            let last = read_numbered(store, run)?;
            if let Some((_, note)) = last.as_ref().filter(|(_, note)| note.generation > generation) {
                return Err(superseded(run, generation, note));
            }
            let first = last.as_ref().map_or(0, |(number, _)| number + 1);
            let (note, composed) = compose(last.as_ref().map(|(_, note)| note));
            if write_note(store, run, first, &note)?.is_none() {
                let (store, run, cap) = (store.clone(), run.to_owned(), note.cap);
                return Ok((Self { store, run, generation, cap, first, last: first }, composed));
            }
        }
    }

    /// Writes the next note, and removes the one before.
    pub(super) fn append(&mut self, allowed: BTreeMap<Arc<str>, SpentAmounts>) -> Result<(), JobError> {
        let note = SpendingNote::new(self.generation, self.cap, allowed);
        let number = self.last + 1;
        if let Some(other) = write_note(&self.store, &self.run, number, &note)? {
            return Err(superseded(&self.run, self.generation, &other));
        }
        let before = std::mem::replace(&mut self.last, number);
        if before != self.first
            && let Err(error) = self.store.delete(&layout::spending_note(&self.run, before))
        {
            tracing::debug!(%error, "an earlier note of spending is not removed");
        }
        Ok(())
    }
}

fn superseded(run: &str, number: u64, other: &SpendingNote) -> JobError {
    JobError::Over { run: run.to_owned(), number, latest: other.generation }
}

/// Writes a note unless another writer's has the number; that one is returned.
fn write_note(store: &Store, run: &str, number: u64, note: &SpendingNote) -> Result<Option<SpendingNote>, JobError> {
    let unwritable = |source| JobError::Stored { what: "a note of spending", run: run.to_owned(), source };
    let bytes = seal::add_seal(&serde_json::to_vec_pretty(note).map_err(unwritable)?);
    let name = layout::spending_note(run, number);
    match store.put_or_get(&name, &bytes.clone().into())? {
        // The answer to an earlier put of this one was lost.
        Some(found) if found[..] == bytes => Ok(None),
        Some(found) => read_note(store, &name, &found).map(Some),
        None => Ok(None),
    }
}

fn read_note(store: &Store, name: &str, bytes: &[u8]) -> Result<SpendingNote, JobError> {
    let json = seal::remove_seal(store, name, bytes, FileRemedy::Restore)?.json;
    let malformed = |source| JobError::malformed(store, name, FileRemedy::Restore, source);
    let note: SpendingNote = serde_json::from_slice(&json).map_err(malformed)?;
    match note.version {
        VERSION => Ok(note),
        other => Err(malformed(serde::de::Error::custom(format!("version {other}; this program reads {VERSION}")))),
    }
}

/// The last note with its number.
fn read_numbered(store: &Store, run: &str) -> Result<Option<(u64, SpendingNote)>, JobError> {
    loop {
        let listed = store.list(&layout::spending_folder(run))?;
        let numbers = listed.iter().filter_map(|(name, _)| layout::spending_number(run, name));
        let Some(number) = numbers.max() else { return Ok(None) };
        let name = layout::spending_note(run, number);
        match store.get(&name) {
            Ok(bytes) => return Ok(Some((number, read_note(store, &name, &bytes)?))),
            // A process that goes on has written a later one, and removed it.
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
