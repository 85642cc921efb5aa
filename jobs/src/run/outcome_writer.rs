//! Writes the outcomes of one worker as Parquet parts, when their cohorts are complete.
//!
//! A part is sorted by (configuration, index). It holds whole cohorts unless too many outcomes had gathered. Its
//! receipt tells the committer the part's cohorts, and the usage of this worker's services since the last receipt.

use crate::error::JobError;
use crate::fault::RunFault;
use crate::run::outcome::MachineEnd;
use crate::run::writes::{Receipt, WriteCounts, WriterId, WrittenPart};
use crate::services::usage::{ServiceCounters, Usage};
use crate::thread_start::start_thread;
use crate::write_backlog::BacklogShare;
use hopeval_operators::persist::{DueWrites, DurableWriter};
use hopeval_operators::ticket::Ticket;
use hopeval_results::tables::{OutcomeRow, outcomes};
use hopeval_results::{Store, layout};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A part to write: its rows, and its receipt's facts.
struct PartWrite {
    rows: Vec<OutcomeRow>,
    /// Their cohorts, as (cohort, outcomes).
    cohorts: Vec<(u64, u64)>,
    /// Cohorts with questions that wait for a batch, as (cohort, questions).
    waiting: Vec<(u64, u64)>,
    used: Vec<(String, Usage)>,
    ticket: Ticket<Receipt>,
    share: BacklogShare,
}

/// The least time from one part to the next, unless the job sets the size of cohorts. A part has fifty columns,
/// whatever its rows, and a commit waits for the disk: on a fast run parts grow instead. A crash costs the commits of
/// that time; the answers behind them are in the journal.
const PART_PAUSE: Duration = Duration::from_millis(500);

/// The least time from one part to the next. A job that sets `chunk` wants a commit for each of its cohorts.
pub fn part_pause(chunk: Option<u64>) -> Duration {
    if chunk.is_some() { Duration::ZERO } else { PART_PAUSE }
}

/// Most outcomes held for incomplete cohorts.
const MOST_HELD: usize = 1 << 15;

/// Outcomes of parts under way from which on the worker waits for the store.
pub const MOST_UNDER_WAY: usize = 1 << 15;

/// Gathers outcomes by cohort and writes complete cohorts. Incomplete ones are written only if too many outcomes are
/// held.
pub struct OutcomeWriter {
    open_cohorts: BTreeMap<u64, Vec<OutcomeRow>>,
    /// Outcomes that wait for a later generation, by cohort.
    waiting: BTreeMap<u64, u64>,
    usage: ServiceCounters,
    reported: BTreeMap<Arc<str>, Usage>,
    jobs: Sender<PartWrite>,
    counts: WriteCounts,
    pause: Duration,
}

impl OutcomeWriter {
    /// Starts the writing thread. The backlog of `counts` is in outcomes; `pause` is the least time from one part to
    /// the next.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(
        store: &Store,
        writer_id: WriterId,
        usage: &ServiceCounters,
        counts: WriteCounts,
        fault: RunFault,
        pause: Duration,
    ) -> Result<Self, JobError> {
        let (jobs, receiver) = channel();
        let (store, counter) = (store.clone(), Arc::clone(&counts.open));
        start_thread("outcomes", move || write_parts(&store, &writer_id, &receiver, &counter, &fault))?;
        let (open_cohorts, waiting, usage) = (BTreeMap::new(), BTreeMap::new(), Arc::clone(usage));
        Ok(Self { open_cohorts, waiting, usage, reported: BTreeMap::new(), jobs, counts, pause })
    }

    /// The usage of the services since the last call.
    fn usage_since(&mut self) -> Vec<(String, Usage)> {
        let mut changed = Vec::new();
        for (name, counters) in self.usage.iter() {
            let now = counters.read();
            let since = now - self.reported.insert(Arc::clone(name), now).unwrap_or_default();
            // Also without a request: one that was counted before may be answered from the journal since.
            if since != Usage::default() {
                changed.push((name.to_string(), since));
            }
        }
        changed
    }
}

impl DurableWriter for OutcomeWriter {
    type Item = MachineEnd;
    type Receipt = Receipt;

    fn accept_items(&mut self, cohort: u64, items: &mut Vec<MachineEnd>) {
        for end in items.drain(..) {
            match end {
                MachineEnd::Finished(finished) => {
                    let row = Rc::try_unwrap(finished).map_or_else(|shared| shared.row.clone(), |alone| alone.row);
                    self.open_cohorts.entry(cohort).or_default().push(row);
                }
                MachineEnd::Waiting => *self.waiting.entry(cohort).or_default() += 1,
            }
        }
    }

    /// A flush alone writes nothing here: an incomplete cohort is run again, from the journal.
    fn begin_writes(&mut self, due: DueWrites, begin: &mut dyn FnMut() -> Ticket<Receipt>) {
        // While one slow question holds a cohort open, the outcomes of later cohorts must not gather without bound.
        let crowded = self.open_cohorts.values().map(Vec::len).sum::<usize>() > MOST_HELD;
        if !due.advanced && !crowded {
            return;
        }
        let later = if crowded { BTreeMap::new() } else { self.open_cohorts.split_off(&due.complete) };
        let done = std::mem::replace(&mut self.open_cohorts, later);
        let later = self.waiting.split_off(&due.complete);
        let waiting: Vec<(u64, u64)> = std::mem::replace(&mut self.waiting, later).into_iter().collect();
        let used = self.usage_since();
        if done.is_empty() && waiting.is_empty() && used.is_empty() {
            return;
        }
        let cohorts = done.iter().map(|(&cohort, rows)| (cohort, rows.len() as u64)).collect();
        let rows: Vec<_> = done.into_values().flatten().collect();
        self.counts.open.fetch_add(1, Ordering::SeqCst);
        let share = self.counts.backlog.begin_write(rows.len());
        drop(self.jobs.send(PartWrite { rows, cohorts, waiting, used, ticket: begin(), share }));
    }

    fn pause(&self) -> Duration {
        self.pause
    }
}

fn write_parts(
    store: &Store,
    writer_id: &WriterId,
    receiver: &Receiver<PartWrite>,
    open: &AtomicUsize,
    fault: &RunFault,
) {
    for (n, PartWrite { rows, cohorts, waiting, used, ticket, share }) in receiver.iter().enumerate() {
        let mut part = None;
        if !rows.is_empty() {
            let name = layout::outcome_part(&writer_id.run, writer_id.generation, writer_id.worker, n as u64);
            match outcomes::write_part(store, &name, rows) {
                Ok(written) => part = Some(WrittenPart { name, check: written.file_check() }),
                Err(error) => {
                    fault.report(error.into());
                    return;
                }
            }
        }
        open.fetch_sub(1, Ordering::SeqCst);
        drop(share);
        ticket.answer(Receipt::Part { part, cohorts, waiting, used });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::usage::{UsageCounters, service_counters};
    use crate::write_backlog::WriteBacklog;
    use hopeval_operators::ticket::TicketBox;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn usage_without_a_request_is_not_lost() {
        let name: Arc<str> = "bm25".into();
        let usage = service_counters([&name]);
        let counters = &usage[&name];
        let store = Store::open("memory:").expect("it opens");
        let writer_id = WriterId { run: "run".into(), generation: 1, worker: 0 };
        let counts = WriteCounts { open: Arc::default(), backlog: WriteBacklog::unbounded() };
        let mut writer = OutcomeWriter::new(&store, writer_id, &usage, counts, RunFault::default(), Duration::ZERO)
            .expect("a thread starts");
        let tickets = TicketBox::<Receipt>::default();
        // The requests of a cohort are counted before some are answered from the journal; the last one is read anew,
        // and metered before its time is counted.
        let changes: [fn(&UsageCounters); 5] = [
            |counters| counters.requests.store(3, SeqCst),
            |counters| counters.journalled.store(2, SeqCst),
            |counters| counters.unreadable.store(1, SeqCst),
            |counters| counters.energy_uj.store(500, SeqCst),
            |_| (),
        ];
        for (slot, change) in changes.iter().enumerate() {
            change(counters);
            let due = DueWrites { complete: slot as u64, advanced: true, flush: false };
            writer.begin_writes(due, &mut || tickets.new_ticket(slot));
        }
        let mut sum = Usage::default();
        for (_, receipt) in tickets.wait_for(4, Duration::from_secs(60)).expect("a receipt for each change") {
            let Some(Receipt::Part { used, .. }) = receipt else { panic!("the thread writes") };
            used.into_iter().for_each(|(_, usage)| sum += usage);
        }
        assert_eq!(sum, counters.read());
        assert_eq!((sum.requests, sum.journalled, sum.unreadable, sum.model.energy_uj), (3, 2, 1, 500));
    }

    #[test]
    fn cohorts_of_a_chosen_size_wait_for_nothing() {
        assert_eq!((part_pause(None), part_pause(Some(16))), (PART_PAUSE, Duration::ZERO));
        let store = Store::open("memory:").expect("it opens");
        let writer_id = WriterId { run: "run".into(), generation: 1, worker: 0 };
        let counts = WriteCounts { open: Arc::default(), backlog: WriteBacklog::unbounded() };
        let (usage, fault) = (service_counters([]), RunFault::default());
        let writer = OutcomeWriter::new(&store, writer_id, &usage, counts, fault, part_pause(None));
        assert_eq!(writer.expect("a thread starts").pause(), PART_PAUSE);
    }

    #[test]
    fn outcomes_count_until_they_are_durable() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let usage = service_counters([]);
        let (release, held) = std::sync::mpsc::sync_channel::<()>(0);
        let held = std::sync::Mutex::new(held);
        let slow = move |operation: hopeval_results::store::SimulatedOperation<'_>| {
            if operation.operation == "write" {
                held.lock().expect("one thread writes").recv().expect("the test goes on");
            }
            hopeval_results::store::SimulatedFate::Success
        };
        let memory = Store::open("memory:").expect("it opens");
        let store = memory.simulate(Duration::ZERO, slow).expect("a runtime starts");
        let writer_id = WriterId { run: "run".into(), generation: 1, worker: 0 };
        let backlog = WriteBacklog::new("outcomes", 6, &crate::waker::OperatorWaker::default());
        let counts = WriteCounts { open: Arc::default(), backlog: backlog.clone() };
        let mut writer = OutcomeWriter::new(&store, writer_id, &usage, counts, RunFault::default(), Duration::ZERO)
            .expect("a thread starts");
        let tickets = TicketBox::<Receipt>::default();
        for cohort in 0..3 {
            writer.open_cohorts.insert(cohort, vec![OutcomeRow::default(); 3]);
            assert_eq!(backlog.is_full(), cohort >= 2, "{cohort} parts of 3 outcomes are under way");
            let due = DueWrites { complete: cohort + 1, advanced: true, flush: false };
            writer.begin_writes(due, &mut || tickets.new_ticket(cohort as usize));
        }
        for durable in 1..=3 {
            assert_eq!(backlog.is_full(), durable <= 2);
            release.send(()).expect("the thread writes");
            assert!(tickets.wait_for(1, PATIENCE).is_ok_and(|receipts| receipts.len() == 1), "part {durable}");
        }
        assert!(!backlog.is_full());
    }
}
