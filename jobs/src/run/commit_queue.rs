//! Complete cohorts on their way to the committing thread.
//!
//! While a slow log takes a commit, the cohorts behind it gather in few later commits, so the queue's memory is
//! bounded: each commit holds all live figures, a cohort a few numbers.

use super::evaluator::TallyKey;
use super::writes::WrittenPart;
use crate::services::usage::UsageSums;
use hopeval_operators::tally::TallyChange;
use hopeval_results::log::CohortCommit;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The most commits in the queue.
const MOST_WAITING: usize = 8;

/// Complete cohorts, with everything for their commit.
#[derive(Default)]
pub(super) struct ReadyCohorts {
    /// The cohorts.
    pub(super) cohorts: Vec<CohortCommit>,
    /// Parts with rows of them.
    pub(super) parts: Vec<WrittenPart>,
    /// New segments of the journal.
    pub(super) segments: Vec<String>,
    /// Usage of the services.
    pub(super) usage: UsageSums,
    /// The live figures with these cohorts.
    pub(super) tallies: Vec<(TallyKey, TallyChange)>,
    /// The number of commits that were made one.
    pub(super) commits: usize,
}

impl ReadyCohorts {
    /// Adds the cohorts of the next commit.
    fn append(&mut self, next: Self) {
        let named: BTreeSet<&str> = self.parts.iter().map(|part| part.name.as_str()).collect();
        // A part holds cohorts of several commits, and each names it: one names it once.
        let new: Vec<_> = next.parts.into_iter().filter(|part| !named.contains(part.name.as_str())).collect();
        self.parts.extend(new);
        self.cohorts.extend(next.cohorts);
        self.segments.extend(next.segments);
        next.usage.0.into_iter().for_each(|(service, usage)| self.usage.add(&service, usage));
        self.tallies = next.tallies;
        self.commits += next.commits;
    }
}

/// The queue of one committing thread. Clones share it.
#[derive(Clone, Default)]
pub(super) struct CommitQueue(Arc<QueueState>);

#[derive(Default)]
struct QueueState {
    waiting: Mutex<WaitingCommits>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingCommits {
    commits: VecDeque<ReadyCohorts>,
    closed: bool,
}

/// A look at the queue.
pub(super) enum QueueLook {
    /// The next commit, and whether others wait behind it.
    Ready(ReadyCohorts, bool),
    /// Nothing came in time.
    Nothing,
    /// Nothing will come any more.
    Closed,
}

impl CommitQueue {
    /// Adds a commit.
    pub(super) fn push(&self, mut ready: ReadyCohorts) {
        ready.commits = 1;
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let full = waiting.commits.len() >= MOST_WAITING;
        match waiting.commits.back_mut().filter(|_| full) {
            Some(last) => last.append(ready),
            None => waiting.commits.push_back(ready),
        }
        self.0.changed.notify_one();
    }

    /// Adds nothing any more.
    pub(super) fn close(&self) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.0.changed.notify_one();
    }

    /// The next commit, waiting up to `limit` for it.
    pub(super) fn take_next(&self, limit: Duration) -> QueueLook {
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = |waiting: &mut WaitingCommits| waiting.commits.is_empty() && !waiting.closed;
        let waited = self.0.changed.wait_timeout_while(waiting, limit, empty);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match waiting.commits.pop_front() {
            Some(ready) => QueueLook::Ready(ready, !waiting.commits.is_empty()),
            None if waiting.closed => QueueLook::Closed,
            None => QueueLook::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::usage::Usage;
    use hopeval_results::FileCheck;

    fn ready(cohort: u64) -> ReadyCohorts {
        // Each part has rows of two cohorts.
        let parts = [cohort / 2, cohort.div_ceil(2)]
            .map(|n| WrittenPart { name: format!("part {n}"), check: FileCheck::of(b"") });
        let mut usage = UsageSums::default();
        usage.add("bm25", Usage { requests: 1, ..Usage::default() });
        ReadyCohorts {
            cohorts: vec![CohortCommit { cohort, outcomes: 1 }],
            parts: parts[..if parts[0] == parts[1] { 1 } else { 2 }].to_vec(),
            segments: vec![format!("segment {cohort}")],
            usage,
            tallies: vec![(TallyKey { stratum: cohort as u32, ..TallyKey::default() }, (1, 1, 1, 1))],
            commits: 0,
        }
    }

    #[test]
    fn commits_behind_a_slow_one_become_few_and_lose_nothing() {
        const COHORTS: u64 = 1000;
        let queue = CommitQueue::default();
        (0..COHORTS).for_each(|cohort| queue.push(ready(cohort)));
        queue.close();
        let (mut taken, mut cohorts, mut segments, mut usage, mut commits) = (0, Vec::new(), Vec::new(), 0, 0);
        loop {
            let (found, more) = match queue.take_next(Duration::ZERO) {
                QueueLook::Ready(found, more) => (found, more),
                QueueLook::Closed => break,
                QueueLook::Nothing => panic!("it is closed"),
            };
            taken += 1;
            assert_eq!(more, taken < MOST_WAITING);
            let names: BTreeSet<_> = found.parts.iter().map(|part| part.name.clone()).collect();
            assert_eq!(names.len(), found.parts.len(), "a part is named twice, and its rows would count twice");
            for cohort in &found.cohorts {
                assert!(names.contains(&format!("part {}", cohort.cohort / 2)), "{cohort:?} lacks a part");
                assert!(names.contains(&format!("part {}", cohort.cohort.div_ceil(2))), "{cohort:?} lacks a part");
            }
            let last = found.cohorts.last().expect("a commit has cohorts").cohort;
            assert_eq!(found.tallies[0].0.stratum, last as u32, "the figures are those of the last cohort");
            cohorts.extend(found.cohorts.iter().map(|cohort| cohort.cohort));
            segments.extend(found.segments);
            usage += found.usage.0["bm25"].requests;
            commits += found.commits;
        }
        assert_eq!(taken, MOST_WAITING);
        assert_eq!(cohorts, (0..COHORTS).collect::<Vec<_>>());
        assert_eq!((segments.len() as u64, usage, commits as u64), (COHORTS, COHORTS, COHORTS));
    }

    #[test]
    fn an_empty_queue_waits_for_a_commit_or_its_end() {
        let queue = CommitQueue::default();
        assert!(matches!(queue.take_next(Duration::ZERO), QueueLook::Nothing));
        let other = queue.clone();
        let thread = std::thread::spawn(move || {
            other.push(ready(7));
            other.close();
        });
        let next = queue.take_next(Duration::from_secs(60));
        assert!(matches!(next, QueueLook::Ready(found, false) if found.cohorts[0].cohort == 7));
        assert!(matches!(queue.take_next(Duration::from_secs(60)), QueueLook::Closed));
        thread.join().expect("it does not panic");
    }
}
