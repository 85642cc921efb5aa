//! What a log says, once void records are left out.

use super::record::{Body, Commit, Final, Record};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// An edit of gold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gold {
    /// Number of the edit, from 1.
    pub edit: u64,
    /// The object that holds it.
    pub path: String,
    /// The record's number.
    pub seq: u64,
}

/// The log up to some record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The latest generation; 0 before the first fence.
    pub generation: u64,
    /// The number of the next record.
    pub next: u64,
    /// The valid commits, in order.
    pub commits: Vec<Commit>,
    /// For each committed chunk, the index of its commit: the first valid one that has it.
    pub committed: BTreeMap<u64, usize>,
    /// Outcomes of each committed chunk.
    pub outcomes: BTreeMap<u64, u64>,
    /// Edits of gold, in the order of their records. Numbers may come in another: whoever takes one may be slow to say so.
    pub golds: Vec<Gold>,
    /// The last valid record that says that the run is finished.
    pub finished: Option<Final>,
    /// Records read, void ones included.
    pub records: u64,
    /// Records that were void.
    pub void: u64,
    /// When the last record was written, in milliseconds since 1970.
    pub last_ms: u64,
}

impl State {
    /// Takes the next record.
    pub(super) fn apply(&mut self, record: Record) {
        debug_assert_eq!(record.seq, self.next, "this is a bug: a record was applied out of order");
        self.next = record.seq + 1;
        self.records += 1;
        self.last_ms = record.at_ms;
        let current = record.generation == self.generation && self.generation > 0;
        match record.body {
            Body::Fence { .. } if record.generation > self.generation => self.generation = record.generation,
            Body::Gold { edit, path } => self.golds.push(Gold { edit, path, seq: record.seq }),
            Body::Commit(commit) if current => self.commit(commit),
            Body::Final(tables) if current => self.finished = Some(tables),
            Body::Fence { .. } | Body::Commit(_) | Body::Final(_) => self.void += 1,
        }
    }

    /// Journal segments of all valid commits: those that win over others on resume.
    pub fn segments(&self) -> BTreeSet<String> {
        self.commits.iter().flat_map(|commit| commit.segments.iter().cloned()).collect()
    }

    /// Whether the run is finished and its tables lack an edit of gold.
    pub fn lacks_gold(&self) -> bool {
        self.finished.as_ref().is_some_and(|finished| finished.golds < self.golds.len() as u64)
    }

    /// Outcomes of all committed chunks.
    pub fn total_outcomes(&self) -> u64 {
        self.outcomes.values().sum()
    }

    fn commit(&mut self, commit: Commit) {
        let index = self.commits.len();
        for chunk in &commit.chunks {
            if let Entry::Vacant(vacant) = self.committed.entry(chunk.chunk) {
                vacant.insert(index);
                self.outcomes.insert(chunk.chunk, chunk.outcomes);
            }
        }
        self.commits.push(commit);
    }
}
