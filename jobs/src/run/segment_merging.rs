//! Merges the journal's segments of one worker while its run goes on, in a thread of its own.
//!
//! A merge only keeps the number of objects small: nothing waits for it, and a fault of the storage never ends a run
//! here. The writer of the segments meets the same storage, and reports it.

use super::writes::WriterId;
use crate::clock::now_ms;
use crate::error::JobError;
use crate::services::answer_index::AnswerIndex;
use crate::thread_start::start_thread;
use hopeval_results::journal::{MergingWriter, SegmentMerger};
use hopeval_results::{JournalError, Store, layout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A durable segment of this worker.
pub(super) struct DurableSegment {
    /// Its object's name.
    pub(super) name: String,
    /// Its size in bytes.
    pub(super) bytes: u64,
    /// Whether it is in the folder of this run only.
    pub(super) run_only: bool,
}

/// Pause after a fault of the storage, and without anything to remove.
const PAUSE: Duration = Duration::from_secs(60);

/// Held by the one merge of this process: a merge holds its segments in memory.
static MERGING: Mutex<()> = Mutex::new(());

/// Starts the merging thread of one worker. It ends when the sender is dropped.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn start_merging(
    store: &Store,
    writer_id: &WriterId,
    answer_index: &AnswerIndex,
) -> Result<Sender<DurableSegment>, JobError> {
    let left = answer_index.take_left();
    let merger_of = |folder: String| {
        let WriterId { run, generation, worker } = writer_id.clone();
        let writer = MergingWriter { folder, run, generation, worker };
        let mut merger = SegmentMerger::new(store, writer, Some(answer_index.reader()));
        merger.take_over(&left, now_ms());
        merger
    };
    let shared = merger_of(layout::JOURNAL.to_owned());
    let mut thread = MergingThread { shared, run_only: merger_of(layout::run_journal(&writer_id.run)) };
    let (sender, receiver) = channel();
    start_thread("journal merges", move || thread.merge_segments(&receiver))?;
    Ok(sender)
}

/// Merges one group, if there is one, while no other thread of this process does.
fn merge_alone(merger: &mut SegmentMerger, now_ms: u64) -> Result<bool, JournalError> {
    let _one = MERGING.lock().unwrap_or_else(PoisonError::into_inner);
    merger.merge_once(now_ms)
}

struct MergingThread {
    shared: SegmentMerger,
    run_only: SegmentMerger,
}

impl MergingThread {
    fn merge_segments(&mut self, receiver: &Receiver<DurableSegment>) {
        // What earlier generations have left is merged first.
        let mut pause = Duration::ZERO;
        loop {
            let ended = match receiver.recv_timeout(pause) {
                Ok(segment) => {
                    self.add_segment(&segment);
                    receiver.try_iter().for_each(|segment| self.add_segment(&segment));
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            let now = now_ms();
            pause = match self.work(now, ended) {
                Ok(()) => self.pause_after(now),
                Err(JournalError::Store(error)) if error.may_pass() => {
                    tracing::warn!("segments of the journal are not merged for now: {error}");
                    PAUSE
                }
                Err(error) => {
                    tracing::warn!("segments of the journal are not merged any more: {error}");
                    return;
                }
            };
            if ended {
                return;
            }
        }
    }

    fn add_segment(&mut self, segment: &DurableSegment) {
        let merger = if segment.run_only { &mut self.run_only } else { &mut self.shared };
        merger.add_segment(&segment.name, segment.bytes);
    }

    /// Merges full levels, unless the run has ended, and removes what was replaced a while ago.
    fn work(&mut self, now_ms: u64, ended: bool) -> Result<(), JournalError> {
        for merger in [&mut self.shared, &mut self.run_only] {
            while !ended && merge_alone(merger, now_ms)? {}
            merger.delete_replaced(now_ms)?;
        }
        Ok(())
    }

    /// The time until something is to be removed.
    fn pause_after(&self, now_ms: u64) -> Duration {
        let next = [&self.shared, &self.run_only].into_iter().filter_map(SegmentMerger::next_removal).min();
        next.map_or(PAUSE, |at| Duration::from_millis(at.saturating_sub(now_ms))).min(PAUSE)
    }
}
