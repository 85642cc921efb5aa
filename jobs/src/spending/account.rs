//! The account of a run's spending: bounds, bills and allowances, as numbers alone.
//!
//! For each service: counted + unanswered + reserved <= allowed by the last durable note and by the one being written,
//! and the sum of all allowances <= the cap. The first holds because an attempt is permitted only if it does, and the
//! second because notes are made so.

use crate::error::JobError;
use crate::spending::cap::NANOS;
use hopeval_endpoint::{AttemptBill, SpentAmounts};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The part of a cap, as a divisor, that a note may leave free at most: a kill loses it.
pub(super) const HEADROOM_SHARE: u64 = 200;

/// Notes that follow each other sooner leave more room.
const SOON: Duration = Duration::from_millis(250);

/// Notes that follow each other later leave less room.
const LATE: Duration = Duration::from_secs(1);

/// The pause before a note that only takes back allowances.
const TAKING_BACK: Duration = Duration::from_millis(500);

/// The account of all services.
pub(super) struct SpendingAccount {
    /// The most of each; the largest number where there is no cap.
    cap: SpentAmounts,
    services: BTreeMap<Arc<str>, ServiceAccount>,
    waiting: VecDeque<PermittedAttempt>,
    asked: u64,
    /// The time of the last note.
    noted: Duration,
    /// Whether the cap is reached.
    closed: bool,
}

/// The account of one service.
#[derive(Clone, Copy, Debug, Default)]
struct ServiceAccount {
    /// By the server's own counts.
    counted: SpentAmounts,
    /// Bounds of attempts that nothing is known of.
    unanswered: SpentAmounts,
    /// Bounds of attempts under way.
    reserved: SpentAmounts,
    /// By the last durable note.
    allowed: SpentAmounts,
    /// By the note that is being written.
    writing: Option<SpentAmounts>,
    /// The room that a note leaves.
    headroom: SpentAmounts,
}

/// An attempt that waits, or is permitted.
#[derive(Clone, Debug)]
pub(super) struct PermittedAttempt {
    /// Its number.
    pub(super) number: u64,
    /// Its service.
    pub(super) service: Arc<str>,
    /// Its bound.
    pub(super) most: SpentAmounts,
}

/// The need for a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoteNeed {
    /// An attempt waits for it.
    Now,
    /// One takes back what is not needed, after a pause.
    After(Duration),
    /// None.
    None,
}

/// A cap that leaves no room for the next attempt.
#[derive(Clone, Debug)]
pub(super) struct ReachedCap {
    cap: SpentAmounts,
    counted: SpentAmounts,
    unanswered: SpentAmounts,
    next: PermittedAttempt,
}

impl ServiceAccount {
    fn committed(&self) -> SpentAmounts {
        self.counted + self.unanswered + self.reserved
    }

    /// What is allowed whichever note a kill leaves.
    fn bound(&self) -> SpentAmounts {
        self.writing.map_or(self.allowed, |writing| self.allowed.join(writing, u64::min))
    }
}

impl SpendingAccount {
    /// The account of a run whose journal has `counted`, and whose last note allowed `allowed`. Without a note nothing
    /// is unanswered.
    pub(super) fn open(
        counted: &BTreeMap<String, SpentAmounts>,
        allowed: Option<&BTreeMap<String, SpentAmounts>>,
        cap: SpentAmounts,
    ) -> Self {
        let services = counted.iter().map(|(name, &journalled)| {
            let noted = allowed.map(|allowed| allowed.get(name).copied().unwrap_or_default());
            // Money is exact in the journal. Of tokens and calls it knows those of answers alone.
            let counted = noted.map_or(journalled, |noted| SpentAmounts {
                money_nanos: journalled.money_nanos,
                ..journalled.join(noted, u64::min)
            });
            let unanswered = noted.unwrap_or_default() - counted;
            let account = ServiceAccount { counted, unanswered, ..ServiceAccount::default() };
            (Arc::from(name.as_str()), ServiceAccount { allowed: account.committed(), ..account })
        });
        Self {
            cap,
            services: services.collect(),
            waiting: VecDeque::new(),
            asked: 0,
            noted: Duration::ZERO,
            closed: false,
        }
    }

    /// What every service has cost, or may cost.
    pub(super) fn committed_by_service(&self) -> BTreeMap<Arc<str>, SpentAmounts> {
        self.services.iter().map(|(name, account)| (Arc::clone(name), account.committed())).collect()
    }

    /// Adds an attempt to those that wait, and returns its number.
    pub(super) fn ask(&mut self, service: &Arc<str>, most: SpentAmounts) -> u64 {
        let number = self.asked;
        self.asked += 1;
        self.waiting.push_back(PermittedAttempt { number, service: Arc::clone(service), most });
        number
    }

    /// Permits attempts in their order, as far as durable notes allow.
    pub(super) fn permit_all(&mut self) -> Vec<PermittedAttempt> {
        let mut permitted = Vec::new();
        while let Some(next) = self.waiting.front().filter(|_| !self.closed) {
            let account = self.services.entry(Arc::clone(&next.service)).or_default();
            if !(account.committed() + next.most).fits_in(&account.bound()) {
                break;
            }
            account.reserved += next.most;
            permitted.extend(self.waiting.pop_front());
        }
        permitted
    }

    /// An attempt has ended.
    pub(super) fn settle(&mut self, service: &Arc<str>, most: SpentAmounts, bill: AttemptBill) {
        let account = self.services.entry(Arc::clone(service)).or_default();
        account.reserved -= most;
        match bill {
            AttemptBill::Counted(amounts) => account.counted += amounts,
            AttemptBill::Nothing => {}
            AttemptBill::Unanswered => account.unanswered += most,
        }
    }

    /// The cap, once, when it leaves no room for the next attempt and nothing is under way whose bound could come back.
    pub(super) fn reach_cap(&mut self) -> Option<ReachedCap> {
        let next = self.waiting.front().filter(|_| !self.closed)?;
        let is_idle = self.services.values().all(|account| account.reserved == SpentAmounts::default());
        if !is_idle || (self.committed() + next.most).fits_in(&self.cap) {
            return None;
        }
        let sum = |of: fn(&ServiceAccount) -> SpentAmounts| {
            self.services.values().map(of).fold(SpentAmounts::default(), |sum, more| sum + more)
        };
        let (counted, unanswered) = (sum(|account| account.counted), sum(|account| account.unanswered));
        let reached = ReachedCap { cap: self.cap, counted, unanswered, next: next.clone() };
        self.closed = true;
        self.waiting.clear();
        Some(reached)
    }

    fn committed(&self) -> SpentAmounts {
        self.services.values().fold(SpentAmounts::default(), |sum, account| sum + account.committed())
    }

    /// Whether the last durable note says exactly what was spent.
    pub(super) fn is_noted(&self) -> bool {
        self.services.values().all(|account| account.writing.is_none() && account.allowed == account.committed())
    }

    /// Whether a note is needed at `now`.
    pub(super) fn note_need(&self, now: Duration, flushing: bool) -> NoteNeed {
        let waits = self.waiting.front().is_some_and(|next| (self.committed() + next.most).fits_in(&self.cap));
        if waits && !self.closed || flushing && !self.is_noted() {
            return NoteNeed::Now;
        }
        let is_large = |account: &ServiceAccount| {
            let free = account.allowed - account.committed();
            match account.reserved == SpentAmounts::default() {
                true => free != SpentAmounts::default(),
                false => !free.fits_in(&(account.headroom + account.headroom)),
            }
        };
        if !self.services.values().any(is_large) {
            return NoteNeed::None;
        }
        match (self.noted + TAKING_BACK).checked_sub(now) {
            Some(pause) if !pause.is_zero() => NoteNeed::After(pause),
            _ => NoteNeed::Now,
        }
    }

    /// Begins a note, and returns the allowances that it says. [`SpendingAccount::end_note`] follows when it is
    /// durable.
    pub(super) fn begin_note(&mut self, now: Duration, flushing: bool) -> BTreeMap<Arc<str>, SpentAmounts> {
        let since = now.saturating_sub(self.noted);
        self.noted = now;
        let mut free = self.cap - self.committed();
        let mut needed: BTreeMap<Arc<str>, SpentAmounts> = BTreeMap::new();
        for attempt in self.waiting.iter().filter(|_| !self.closed) {
            if !attempt.most.fits_in(&free) {
                break;
            }
            free -= attempt.most;
            *needed.entry(Arc::clone(&attempt.service)).or_default() += attempt.most;
        }
        let most_headroom = self.cap.join(SpentAmounts::default(), |cap, _| match cap {
            u64::MAX => u64::MAX,
            cap => cap / HEADROOM_SHARE,
        });
        for (name, account) in &mut self.services {
            let needed = needed.get(name).copied().unwrap_or_default();
            account.adapt_headroom(needed, since);
            let is_idle = flushing || needed == SpentAmounts::default() && account.reserved == SpentAmounts::default();
            if is_idle {
                account.headroom = SpentAmounts::default();
            }
            account.headroom = account.headroom.join(most_headroom, u64::min);
            let room = account.headroom.join(free, u64::min);
            free -= room;
            account.writing = Some(account.committed() + needed + room);
        }
        self.services.iter().filter_map(|(name, account)| Some((Arc::clone(name), account.writing?))).collect()
    }

    /// The note is durable.
    pub(super) fn end_note(&mut self) {
        for account in self.services.values_mut() {
            account.allowed = account.writing.take().unwrap_or(account.allowed);
        }
    }
}

impl ServiceAccount {
    /// Makes room for about half a second of growth, at most for a sixteenth of what was spent beside what is needed.
    fn adapt_headroom(&mut self, needed: SpentAmounts, since: Duration) {
        if needed != SpentAmounts::default() && since < SOON {
            let most = needed + self.committed().join(needed, |committed, _| committed / 16);
            self.headroom = (self.headroom + self.headroom).join(needed, u64::max).join(most, u64::min);
        } else if since > LATE {
            self.headroom = self.headroom.join(self.headroom, |room, _| room / 2);
        }
    }
}

impl ReachedCap {
    /// The error that ends the run.
    pub(super) fn into_error(self, currency: Option<&str>) -> JobError {
        let Self { cap, counted, unanswered, next } = self;
        let money = |nanos: u64| format!("{:.6} {}", nanos as f64 / NANOS, currency.unwrap_or_default());
        let amounts = |amounts: SpentAmounts| {
            let SpentAmounts { calls, tokens, money_nanos } = amounts;
            [
                ("money", money_nanos, money(money_nanos)),
                ("tokens", tokens, tokens.to_string()),
                ("calls", calls, calls.to_string()),
            ]
        };
        let whole = amounts(counted + unanswered + next.most);
        let full = (0..whole.len()).find(|&place| whole[place].1 > amounts(cap)[place].1).unwrap_or(0);
        let text = |of: SpentAmounts| amounts(of)[full].2.trim_end().to_owned();
        let key = whole[full].0;
        let raised = cap + cap;
        JobError::CapReached {
            key,
            cap: text(cap),
            counted: text(counted),
            unanswered: text(unanswered),
            service: next.service.to_string(),
            next: text(next.most),
            raised: match key {
                "money" => format!("{}", raised.money_nanos as f64 / NANOS),
                _ => text(raised),
            },
        }
    }
}

#[cfg(test)]
mod tests;
