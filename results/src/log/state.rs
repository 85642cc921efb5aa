//! The state described by a log, without its void records.

use super::record::{Commit, FinalRecord, LogRecord, RecordBody};
use crate::check::FileCheck;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// An edit of gold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoldEdit {
    /// Number of the edit, from 1.
    pub edit: u64,
    /// The object with the edit.
    pub path: String,
    /// Its check; `None` in logs of earlier versions.
    pub check: Option<FileCheck>,
    /// The record's number.
    pub seq: u64,
}

/// The state after the records read so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogState {
    /// The latest generation; 0 before the first fence.
    pub generation: u64,
    /// The number of the next record.
    pub next: u64,
    /// The valid commits, in order.
    pub commits: Vec<Commit>,
    /// For each committed cohort, the index of its commit: the first valid one to name it.
    pub committed: BTreeMap<u64, usize>,
    /// Outcomes of each committed cohort.
    pub outcomes: BTreeMap<u64, u64>,
    /// Edits of gold, in the order of their records. The numbers may be in another order: time can pass between taking
    /// a number and appending its record.
    pub golds: Vec<GoldEdit>,
    /// The last valid `Final` record.
    pub finished: Option<FinalRecord>,
    /// Records read, void ones included.
    pub records: u64,
    /// Void records.
    pub void: u64,
    /// Time of writing of the last record, in milliseconds since 1970.
    pub last_ms: u64,
}

impl LogState {
    /// Applies the next record.
    pub(super) fn apply_record(&mut self, record: LogRecord) {
        debug_assert_eq!(record.seq, self.next, "this is a bug: a record was applied out of order");
        self.next = record.seq + 1;
        self.records += 1;
        self.last_ms = record.at_ms;
        let current = record.generation == self.generation && self.generation > 0;
        match record.body {
            RecordBody::Fence { .. } if record.generation > self.generation => self.generation = record.generation,
            RecordBody::Gold { edit, path, check } => {
                self.golds.push(GoldEdit { edit, path, check, seq: record.seq });
            }
            RecordBody::Commit(commit) if current => self.apply_commit(commit),
            RecordBody::Final(tables) if current => self.finished = Some(tables),
            RecordBody::Fence { .. } | RecordBody::Commit(_) | RecordBody::Final(_) => self.void += 1,
        }
    }

    /// Journal segments of all valid commits. They win over other segments on resume.
    pub fn committed_segments(&self) -> BTreeSet<String> {
        self.commits.iter().flat_map(|commit| commit.segments.iter().cloned()).collect()
    }

    /// True if the run is finished but its tables lack an edit of gold.
    pub fn lacks_gold(&self) -> bool {
        self.finished.as_ref().is_some_and(|finished| finished.golds < self.golds.len() as u64)
    }

    /// The number of the edit of gold that is recorded last, which need not be the greatest; 0 without edits.
    pub fn last_gold_edit(&self) -> u64 {
        self.golds.last().map_or(0, |gold| gold.edit)
    }

    /// Outcomes of all committed cohorts.
    pub fn total_outcomes(&self) -> u64 {
        self.outcomes.values().sum()
    }

    fn apply_commit(&mut self, commit: Commit) {
        let index = self.commits.len();
        for commit in &commit.cohorts {
            if let Entry::Vacant(vacant) = self.committed.entry(commit.cohort) {
                vacant.insert(index);
                self.outcomes.insert(commit.cohort, commit.outcomes);
            }
        }
        self.commits.push(commit);
    }
}
