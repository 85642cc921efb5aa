//! Spending on endpoints: permissions for attempts within the run's cap, whatever kills the run.
//!
//! ```text
//!   attempt --its bound--> waits? --permitted: reserved--> sent --bill--> counted | unanswered | nothing
//!                            |                                             (the rest of the bound comes back)
//!                            +-- beyond the durable allowance: a note raises it first
//! ```
//!
//! *Never beyond the cap, even by kills.* A killed process has paid for calls that no journal knows. So the store
//! always has a note that says: *this service has cost, or may cost, at most so much*. An attempt is permitted only
//! within the last durable note, and no note allows more than the cap. The next generation reads the note and takes all
//! of it for spent. What the note allows beyond the answers that are journalled is *unanswered* money.
//!
//! *Not a write for each call.* Bounds are larger than bills, so what comes back pays for new calls, and a note leaves
//! room for about half a second of growth, at most for half a hundredth of the cap. Calls that find no room wait
//! together for one note.
//!
//! *One owner.* All endpoints of a run are asked by process 0. Notes are numbered and put if absent, and each
//! generation writes one before it permits anything. A process that was taken for dead finds its next number taken, so
//! the allowance that it still has is the one that its successor has counted as spent.
//!
//! | module | content |
//! | --- | --- |
//! | [`cap`] | `[run.cap]` |
//! | `account` | bounds, bills, and the next note: without threads, clock and storage |
//! | [`note`] | notes in the store |

mod account;
pub mod cap;
pub mod note;

use self::account::{NoteNeed, PermittedAttempt, SpendingAccount};
use self::cap::SpendingCap;
use self::note::{SpendingNote, SpendingNotes};
use crate::error::JobError;
use crate::fault::RunFault;
use crate::thread_start::start_thread;
use hopeval_endpoint::{AttemptBill, PermitReceiver, SpendingPermit, SpentAmounts};
use hopeval_results::Store;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A run to spend on, in one generation.
#[derive(Clone, Debug)]
pub struct SpendingRun<'a> {
    /// The run.
    pub run: &'a str,
    /// The generation.
    pub generation: u64,
    /// What the journal counts as spent by earlier generations, by service, for all services that cost money.
    pub counted: BTreeMap<String, SpentAmounts>,
    /// The cap by the job.
    pub cap: SpendingCap,
    /// Changes of the cap by this command; they hold from now on.
    pub raised: SpendingCap,
    /// The currency of the prices.
    pub currency: Option<String>,
}

/// The longest pause of the writing thread.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The errors that end a run for its spending.
#[derive(Clone)]
pub struct SpendingFaults {
    /// Ends it at once: notes cannot be written.
    pub fault: RunFault,
    /// Ends it when everything computed is durable: the cap is reached.
    pub leave: RunFault,
}

/// The spending of a run in this process. Clones share it; with the last one the writing thread ends.
#[derive(Clone)]
pub struct SpendingLedger(Arc<LedgerHandle>);

/// Ends the writing thread when it is dropped.
struct LedgerHandle(Arc<SharedLedger>);

struct SharedLedger {
    state: Mutex<LedgerState>,
    changed: Condvar,
    faults: SpendingFaults,
    currency: Option<String>,
    start: Instant,
}

struct LedgerState {
    account: SpendingAccount,
    /// Receivers of the attempts that wait, by their numbers.
    receivers: BTreeMap<u64, PermitReceiver>,
    /// Whether the last note must say exactly what was spent.
    flushing: bool,
    /// When the writing thread looks again by itself; zero while it does not wait.
    looks_again: Duration,
    /// Whether the writing thread has failed.
    failed: bool,
    ended: bool,
}

impl SpendingLedger {
    /// Opens the spending of a run: reads its last note, and writes one of this generation.
    ///
    /// # Errors
    /// The store; a note that cannot be read; a later generation.
    pub fn open(store: &Store, spent: &SpendingRun<'_>, faults: SpendingFaults) -> Result<Self, JobError> {
        let (notes, account) = SpendingNotes::begin(store, spent.run, spent.generation, |last| {
            let cap = last.map_or(spent.cap, |last| spent.cap.changed_by(&last.cap)).changed_by(&spent.raised);
            let account = SpendingAccount::open(&spent.counted, last.map(|last| &last.allowed), cap.bounds());
            (SpendingNote::new(spent.generation, cap, account.committed_by_service()), account)
        })?;
        let state = LedgerState {
            account,
            receivers: BTreeMap::new(),
            flushing: false,
            looks_again: Duration::ZERO,
            failed: false,
            ended: false,
        };
        let shared = Arc::new(SharedLedger {
            state: Mutex::new(state),
            changed: Condvar::new(),
            faults,
            currency: spent.currency.clone(),
            start: Instant::now(),
        });
        let writing = Arc::clone(&shared);
        start_thread("spending notes", move || writing.write_notes(notes))?;
        Ok(Self(Arc::new(LedgerHandle(shared))))
    }

    /// Asks for the permission to spend at most `most` on a service. It comes at once, later on another thread, or
    /// never: then the receiver is dropped.
    pub fn request(&self, service: &Arc<str>, most: SpentAmounts, receiver: PermitReceiver) {
        let shared = &self.0.0;
        let mut state = shared.lock();
        let number = state.account.ask(service, most);
        state.receivers.insert(number, receiver);
        shared.go_on(state);
    }

    /// Asks for a note that says exactly what was spent.
    pub fn flush(&self) {
        self.0.0.lock().flushing = true;
        self.0.0.changed.notify_all();
    }

    /// Whether the last note says exactly what was spent, after [`SpendingLedger::flush`]; or no note can be written
    /// any more.
    pub fn is_flushed(&self) -> bool {
        let state = self.0.0.lock();
        state.failed || state.flushing && state.account.is_noted()
    }

    /// Flushes, and waits for it.
    pub fn wait_for_flush(&self) {
        self.flush();
        let mut state = self.0.0.lock();
        while !(state.failed || state.account.is_noted()) {
            state = self.0.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl SharedLedger {
    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(self: &Arc<Self>, service: &Arc<str>, most: SpentAmounts, bill: AttemptBill) {
        let mut state = self.lock();
        state.account.settle(service, most, bill);
        self.go_on(state);
    }

    /// Hands out what is permitted now, and wakes the writing thread if it has to write before it looks again: most
    /// calls find room within the last note, and a switch of threads costs more than they do.
    fn go_on(self: &Arc<Self>, mut state: MutexGuard<'_, LedgerState>) {
        let permitted = state.take_permitted();
        let reached = state.account.reach_cap();
        // Nothing is permitted any more: the calls that wait are kept.
        let kept = if reached.is_some() { std::mem::take(&mut state.receivers) } else { BTreeMap::new() };
        let now = self.start.elapsed();
        let wakes = match state.account.note_need(now, state.flushing) {
            NoteNeed::Now => true,
            NoteNeed::After(pause) => now + pause < state.looks_again,
            NoteNeed::None => false,
        };
        // What waits for a flush waits at the same place.
        let wakes = wakes || state.flushing || state.failed;
        drop(state);
        if wakes {
            self.changed.notify_all();
        }
        drop(kept);
        if let Some(reached) = reached {
            self.faults.leave.report(reached.into_error(self.currency.as_deref()));
        }
        for (PermittedAttempt { service, most, .. }, receiver) in permitted {
            let ledger = Arc::clone(self);
            receiver(SpendingPermit::new(move |bill| ledger.settle(&service, most, bill)));
        }
    }

    /// Writes notes as they are needed, until the ledger ends.
    fn write_notes(self: &Arc<Self>, mut notes: SpendingNotes) {
        while let Some(allowed) = self.next_note() {
            if let Err(error) = notes.append(allowed) {
                self.faults.fault.report(error);
                self.lock().failed = true;
                self.changed.notify_all();
                return;
            }
            let mut state = self.lock();
            state.account.end_note();
            self.go_on(state);
        }
    }

    /// Waits until a note is needed, and begins it; `None` at the end.
    fn next_note(&self) -> Option<BTreeMap<Arc<str>, SpentAmounts>> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            let (now, flushing) = (self.start.elapsed(), state.flushing);
            let pause = match state.account.note_need(now, flushing) {
                NoteNeed::Now => return Some(state.account.begin_note(now, flushing)),
                NoteNeed::After(pause) => pause,
                NoteNeed::None => LONGEST_PAUSE,
            };
            state.looks_again = now + pause;
            let waited = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.looks_again = Duration::ZERO;
        }
    }
}

impl LedgerState {
    /// The attempts that are permitted now, with their receivers.
    fn take_permitted(&mut self) -> Vec<(PermittedAttempt, PermitReceiver)> {
        let permitted = self.account.permit_all();
        let taken =
            permitted.into_iter().filter_map(|attempt| Some((self.receivers.remove(&attempt.number)?, attempt)));
        taken.map(|(receiver, attempt)| (attempt, receiver)).collect()
    }
}

impl Drop for LedgerHandle {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
