//! Writes the records of one worker to the journal, as segments.
//!
//! A response is *recent* from the moment it is computed until its segment is durable; then its key is in the index.
//! Segments are written when enough records have gathered, or the oldest has waited long enough. They are written
//! whenever the dataflow reports a complete cohort, because a commit waits for everything its outcomes may have seen,
//! and once more when a run drains, so that the next generation need not compute any response again.
//!
//! A *paid* answer costs money when it is computed again, so its segment begins 0.4 s after its arrival, and
//! takes everything that has gathered. While a segment is being written, paid answers wait for its end: on a slow store
//! segments become larger, not more. `segment_merging.rs` merges these small segments.

use crate::clock::now_ms;
use crate::error::JobError;
use crate::fault::RunFault;
use crate::run::segment_merging::{DurableSegment, start_merging};
use crate::run::writes::{Receipt, WriteCounts, WriterId};
use crate::services::answer_index::{AnswerIndex, DurableSegments, results_key};
use crate::services::record::record_bytes;
use crate::services::served::RecordedResponse;
use crate::thread_start::start_thread;
use crate::write_backlog::BacklogShare;
use hopeval_operators::RequestKey;
use hopeval_operators::persist::{DueWrites, DurableWriter};
use hopeval_operators::ticket::Ticket;
use hopeval_results::journal::write_segment;
use hopeval_results::{JournalEntry, Store, layout};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Gathered bytes that cause a segment to be written for their size alone.
const SEGMENT_BYTES: usize = 8 << 20;

/// Longest wait of a record for its segment: about the cost of a crash, also if a model takes a second for an answer.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Longest wait of a paid record for its segment. The write has the rest of a second.
const PAID_WAIT: Duration = Duration::from_millis(400);

type SegmentWrite = (Vec<(RequestKey, u16, Vec<u8>)>, bool, Ticket<Receipt>, BacklogShare);

/// Bytes of segments under way from which on the worker waits for the store.
pub const MOST_UNDER_WAY: usize = 8 * SEGMENT_BYTES;

/// Writes the records of one worker as segments.
pub struct JournalWriter {
    answer_index: AnswerIndex,
    pending: Vec<(RequestKey, u16, Vec<u8>)>,
    /// Failures kept by this run only.
    pending_run: Vec<(RequestKey, u16, Vec<u8>)>,
    bytes: usize,
    /// Arrival of the oldest pending record.
    since: Option<Instant>,
    /// The services whose answers cost money.
    paid: BTreeSet<Arc<str>>,
    /// Arrival of the oldest pending record that was paid for.
    paid_since: Option<Instant>,
    /// Writes of this writer begun and not yet durable.
    writing: Arc<AtomicUsize>,
    jobs: Sender<SegmentWrite>,
    /// Writes begun and not yet durable; the backlog in bytes.
    counts: WriteCounts,
}

impl JournalWriter {
    /// Starts the writing thread and the merging thread. The backlog of `counts` is in bytes. Answers of the services
    /// `paid` cost money.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(
        store: &Store,
        writer_id: WriterId,
        answer_index: AnswerIndex,
        counts: WriteCounts,
        fault: RunFault,
        paid: BTreeSet<Arc<str>>,
    ) -> Result<Self, JobError> {
        let (jobs, receiver) = channel();
        let merges = start_merging(store, &writer_id, &answer_index)?;
        let writing = Arc::<AtomicUsize>::default();
        let writer = SegmentWriter {
            store: store.clone(),
            writer_id,
            durable: answer_index.durable_segments(),
            latest_ms: answer_index.latest_ms(),
            open: Arc::clone(&counts.open),
            writing: Arc::clone(&writing),
            merges,
            fault,
        };
        start_thread("journal", move || writer.write_segments(&receiver))?;
        Ok(Self {
            answer_index,
            pending: Vec::new(),
            pending_run: Vec::new(),
            bytes: 0,
            since: None,
            paid,
            paid_since: None,
            writing,
            jobs,
            counts,
        })
    }

    /// Whether an earlier write is not durable yet. Its end wakes the operator.
    fn is_writing(&self) -> bool {
        self.writing.load(Ordering::SeqCst) > 0
    }

    fn begin_write(&mut self, run_only: bool, begin: &mut dyn FnMut() -> Ticket<Receipt>) {
        let pending = if run_only { &mut self.pending_run } else { &mut self.pending };
        if !pending.is_empty() {
            self.counts.open.fetch_add(1, Ordering::SeqCst);
            self.writing.fetch_add(1, Ordering::SeqCst);
            let size = pending.iter().map(|(.., bytes)| bytes.len()).sum();
            let share = self.counts.backlog.begin_write(size);
            // If the thread met a fault, it reported it and closed the channel. The ticket is then dropped, and holds
            // its time for good.
            drop(self.jobs.send((std::mem::take(pending), run_only, begin(), share)));
        }
    }
}

impl DurableWriter for JournalWriter {
    type Item = RecordedResponse;
    type Receipt = Receipt;

    fn accept_items(&mut self, _cohort: u64, items: &mut Vec<RecordedResponse>) {
        if !items.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
        for RecordedResponse { bucket, key, service, kind, served } in items.drain(..) {
            if self.paid.contains(&service.0) {
                self.paid_since.get_or_insert_with(Instant::now);
            }
            let run_only = !served.response.is_for_all_runs(kind);
            let bytes = record_bytes(&service.0, kind, &served.response, served.service_us);
            self.bytes += bytes.len() + 64;
            if run_only { &mut self.pending_run } else { &mut self.pending }.push((key, bucket, bytes));
            self.answer_index.keep_recent(key, served);
        }
    }

    fn begin_writes(&mut self, due: DueWrites, begin: &mut dyn FnMut() -> Ticket<Receipt>) {
        self.answer_index.index_durable();
        let late = self.since.is_some_and(|since| since.elapsed() >= LONGEST_WAIT);
        let paid = self.paid_since.is_some_and(|since| since.elapsed() >= PAID_WAIT) && !self.is_writing();
        if due.advanced || due.flush || late || paid || self.bytes >= SEGMENT_BYTES {
            (self.bytes, self.since, self.paid_since) = (0, None, None);
            self.begin_write(false, begin);
            self.begin_write(true, begin);
        }
    }

    /// Nothing may happen for minutes after the last record, while a model generates.
    fn due_after(&self) -> Option<Duration> {
        let left = |since: Instant, wait: Duration| wait.saturating_sub(since.elapsed());
        let paid = self.paid_since.filter(|_| !self.is_writing()).map(|since| left(since, PAID_WAIT));
        self.since.map(|since| left(since, LONGEST_WAIT)).into_iter().chain(paid).min()
    }
}

/// The writing thread.
struct SegmentWriter {
    store: Store,
    writer_id: WriterId,
    durable: DurableSegments,
    /// The latest creation of a segment that was found or written.
    latest_ms: u64,
    open: Arc<AtomicUsize>,
    /// Its own share of `open`.
    writing: Arc<AtomicUsize>,
    merges: Sender<DurableSegment>,
    fault: RunFault,
}

impl SegmentWriter {
    /// The creation of the next segment. An answer that was computed again must count before the one that was found,
    /// also if the clock of that one's host is ahead, or this one's was put back.
    fn created_ms(&mut self) -> u64 {
        self.latest_ms = now_ms().max(self.latest_ms.saturating_add(1));
        self.latest_ms
    }

    fn write_segments(mut self, receiver: &Receiver<SegmentWrite>) {
        for (seq, (records, run_only, ticket, share)) in receiver.iter().enumerate() {
            let folder = if run_only { layout::run_journal(&self.writer_id.run) } else { layout::JOURNAL.to_owned() };
            let created_ms = self.created_ms();
            let WriterId { run, generation, worker } = &self.writer_id;
            let name = layout::segment_name(&folder, created_ms, run, *generation, *worker, seq as u64);
            let keys = records.iter().map(|(key, ..)| *key).collect();
            let entries = records
                .into_iter()
                .map(|(key, bucket, bytes)| JournalEntry { bucket, key: results_key(&key), bytes: bytes.into() })
                .collect();
            match write_segment(&self.store, &name, entries) {
                Ok(segment) => {
                    // The thread gives up merging if it meets a refusal, and has said so.
                    drop(self.merges.send(DurableSegment { name: name.clone(), bytes: segment.bytes(), run_only }));
                    let receipt = Receipt::Segment { name: segment.name().to_owned() };
                    self.durable.lock().unwrap_or_else(PoisonError::into_inner).push((segment, keys));
                    self.open.fetch_sub(1, Ordering::SeqCst);
                    self.writing.fetch_sub(1, Ordering::SeqCst);
                    drop(share);
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

#[cfg(test)]
mod tests;
