//! Shares a device's energy counter among concurrent pieces of work.
//!
//! A counter counts the whole device for all users, and several engines of a process may use one device at once. So
//! there is one account for each device. An observer reads the counter from time to time, on a thread of its own: one
//! reading takes a millisecond or more, and work must not wait for it. Each reading splits the energy since the last
//! one evenly among the pieces that are active at that time; a piece's own energy is the sum of its shares between its
//! begin and its end.
//!
//! ```text
//!   counter   0        100     160        200       240    J
//!   first     |=========|=======|                            its own: 100 + 30
//!   second              |=======|==========|                 its own: 30 + 40
//!                                          |---------|       nobody's: 40
//! ```
//!
//! Readings do not fall on begins and ends. Of the energy between two readings, the part of the time in which some
//! piece was active counts; if none is active any more, the next piece gets it. So nothing is counted twice, and
//! the figure of a piece that is shorter than the time between two readings is right only in the mean of many. Lost are
//! the energy since the last reading, and around a failed reading that of pieces that had ended.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The arithmetic: readings of a counter in millijoules, without the counter.
#[derive(Debug, Default)]
pub struct EnergyAccount {
    /// The last reading and its time; `None` before the first one, and after a failed one.
    last: Option<(Instant, u64)>,
    /// Number of active pieces.
    pieces: u32,
    /// The time since which pieces are active, or that of the last reading if it is later.
    active_since: Option<Instant>,
    /// Time since the last reading in which some piece was active, up to `active_since`.
    active: Duration,
    /// Millijoules of pieces that had ended when they were counted.
    unclaimed: f64,
    /// Millijoules of a piece active since the first reading.
    each: f64,
    /// Number of readings since which the used energy is unknown.
    gaps: u64,
}

/// An active piece of work.
#[derive(Debug)]
#[must_use = "a piece that is never ended gets its part of everything"]
pub struct EnergyTicket {
    /// [`EnergyAccount::each`] and [`EnergyAccount::gaps`] when it began.
    each: f64,
    gaps: u64,
}

impl EnergyAccount {
    /// Begins a piece of work.
    pub fn begin(&mut self, now: Instant) -> EnergyTicket {
        let ticket = EnergyTicket { each: self.each, gaps: self.gaps };
        if self.pieces == 0 {
            self.active_since = Some(now);
            self.each += std::mem::take(&mut self.unclaimed);
        }
        self.pieces += 1;
        ticket
    }

    /// Ends a piece begun by this account and returns its joules; `None` if there was no reading before it, a reading
    /// since its begin failed, or the counter went back.
    ///
    /// # Panics
    /// If there is no active piece.
    pub fn end(&mut self, ticket: EnergyTicket, now: Instant) -> Option<f64> {
        self.pieces = self.pieces.checked_sub(1).expect("what ends has begun; this is a bug");
        if self.pieces == 0 {
            self.count_activity(now);
            self.active_since = None;
        }
        (ticket.gaps == self.gaps && self.last.is_some()).then(|| (self.each - ticket.each) / 1e3)
    }

    /// Takes a reading; `None` if the counter could not be read.
    pub fn observe(&mut self, now: Instant, reading_mj: Option<u64>) {
        self.count_activity(now);
        let active = std::mem::take(&mut self.active);
        let used = self.last.zip(reading_mj).and_then(|((then, last), mj)| Some((then, mj.checked_sub(last)?)));
        if let Some((then, used)) = used {
            let time = now.saturating_duration_since(then);
            let part = if time.is_zero() { 1.0 } else { (active.as_secs_f64() / time.as_secs_f64()).min(1.0) };
            let counted = used as f64 * part + std::mem::take(&mut self.unclaimed);
            match self.pieces {
                0 => self.unclaimed = counted,
                pieces => self.each += counted / f64::from(pieces),
            }
        } else {
            self.gaps += 1;
            self.unclaimed = 0.0;
        }
        self.last = reading_mj.map(|mj| (now, mj));
    }

    /// Adds the active time up to `now`.
    fn count_activity(&mut self, now: Instant) {
        if let Some(since) = self.active_since.replace(now) {
            self.active += now.saturating_duration_since(since);
        } else {
            self.active_since = None;
        }
    }
}

/// Reads a counter: millijoules since some earlier time, `None` if it cannot be read.
type EnergyCounter = dyn Fn() -> Option<u64> + Send + Sync;

/// A device's account: one for each device, shared by all its users. By default an observer gives it readings.
#[derive(Default)]
pub struct DeviceEnergy {
    /// A counter that is read at once.
    counter: Option<Box<EnergyCounter>>,
    account: Mutex<EnergyAccount>,
    /// Told when the first piece begins.
    begun: Condvar,
}

impl fmt::Debug for DeviceEnergy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Energy").field("account", &self.account).finish_non_exhaustive()
    }
}

impl DeviceEnergy {
    /// An account of a counter that costs nothing to read, so that it is read whenever a piece of work begins or ends.
    pub fn new(counter: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self { counter: Some(Box::new(counter)), ..Self::default() }
    }

    /// Begins a piece of work.
    pub fn begin(&self) -> WorkPiece<'_> {
        let mut account = self.lock_account();
        let now = self.read_counter(&mut account);
        let ticket = account.begin(now);
        if account.pieces == 1 {
            self.begun.notify_all();
        }
        WorkPiece { energy: self, ticket: Some(ticket) }
    }

    /// Takes a reading of the counter, which was just read: millijoules since some earlier time, `None` if that failed.
    pub fn observe(&self, reading_mj: Option<u64>) {
        self.lock_account().observe(Instant::now(), reading_mj);
    }

    /// True if some piece of work is active.
    pub fn is_active(&self) -> bool {
        self.lock_account().pieces > 0
    }

    /// Waits until some piece of work is active.
    pub fn wait_until_active(&self) {
        let account = self.lock_account();
        let waited = self.begun.wait_while(account, |account| account.pieces == 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The time, at which the counter was read if this account has one. Read under the lock, so readings come in the
    /// counter's order.
    fn read_counter(&self, account: &mut EnergyAccount) -> Instant {
        let now = Instant::now();
        if let Some(counter) = &self.counter {
            account.observe(now, counter());
        }
        now
    }

    fn lock_account(&self) -> MutexGuard<'_, EnergyAccount> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An active piece of work; dropping it ends it without a figure.
#[derive(Debug)]
#[must_use = "a piece of work lasts as long as this"]
pub struct WorkPiece<'a> {
    energy: &'a DeviceEnergy,
    ticket: Option<EnergyTicket>,
}

impl WorkPiece<'_> {
    /// Ends the piece and returns its joules, as [`EnergyAccount::end`] does. All of its work must be done: energy for
    /// work still pending on the device would be charged to another piece.
    pub fn end(mut self) -> Option<f64> {
        self.close()
    }

    fn close(&mut self) -> Option<f64> {
        let ticket = self.ticket.take()?;
        let mut account = self.energy.lock_account();
        let now = self.energy.read_counter(&mut account);
        account.end(ticket, now)
    }
}

impl Drop for WorkPiece<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Times of a test, in milliseconds after its begin.
    struct TestClock(Instant);

    impl TestClock {
        fn at(&self, ms: u64) -> Instant {
            self.0 + Duration::from_millis(ms)
        }
    }

    /// An account that was read at 0 ms.
    fn account(mj: u64) -> (EnergyAccount, TestClock) {
        let (mut account, clock) = (EnergyAccount::default(), TestClock(Instant::now()));
        account.observe(clock.at(0), Some(mj));
        (account, clock)
    }

    #[test]
    fn a_piece_alone_has_all_that_is_used_meanwhile() {
        let (mut account, clock) = account(5_000);
        let piece = account.begin(clock.at(0));
        account.observe(clock.at(100), Some(7_500));
        assert_eq!(account.end(piece, clock.at(100)), Some(2.5));
        // Energy used while the device was idle belongs to nobody.
        account.observe(clock.at(200), Some(9_000));
        let piece = account.begin(clock.at(200));
        account.observe(clock.at(300), Some(9_250));
        assert_eq!(account.end(piece, clock.at(300)), Some(0.25));
        // A piece that no reading falls into.
        let piece = account.begin(clock.at(300));
        assert_eq!(account.end(piece, clock.at(310)), Some(0.0));
    }

    #[test]
    fn the_active_part_of_the_time_between_readings_counts() {
        let (mut account, clock) = account(0);
        let short = account.begin(clock.at(60));
        assert_eq!(account.end(short, clock.at(80)), Some(0.0), "nothing was read meanwhile");
        // A fifth of the time was active; nobody is, so the next piece gets it.
        account.observe(clock.at(100), Some(1_000));
        account.observe(clock.at(200), Some(1_400));
        let next = account.begin(clock.at(250));
        account.observe(clock.at(300), Some(2_400));
        assert_eq!(account.end(next, clock.at(300)), Some(0.2 + 0.5));
    }

    #[test]
    fn what_is_used_together_is_shared_evenly() {
        let (mut account, clock) = account(0);
        let first = account.begin(clock.at(0));
        account.observe(clock.at(10), Some(100_000));
        let second = account.begin(clock.at(10));
        account.observe(clock.at(20), Some(160_000));
        assert_eq!(account.end(first, clock.at(20)), Some(130.0));
        account.observe(clock.at(30), Some(200_000));
        assert_eq!(account.end(second, clock.at(30)), Some(70.0));
        assert_eq!(account.pieces, 0);

        // One around three others, two of which overlap.
        let long = account.begin(clock.at(30));
        let step = |account: &mut EnergyAccount, ms, mj| account.observe(clock.at(ms), Some(mj));
        step(&mut account, 40, 210_000);
        let a = account.begin(clock.at(40));
        step(&mut account, 50, 220_000);
        let b = account.begin(clock.at(50));
        step(&mut account, 60, 250_000);
        assert_eq!(account.end(a, clock.at(60)), Some(5.0 + 10.0));
        step(&mut account, 70, 270_000);
        assert_eq!(account.end(b, clock.at(70)), Some(10.0 + 10.0));
        let c = account.begin(clock.at(70));
        step(&mut account, 80, 290_000);
        assert_eq!(account.end(c, clock.at(80)), Some(10.0));
        step(&mut account, 90, 291_000);
        assert_eq!(account.end(long, clock.at(90)), Some(10.0 + 5.0 + 10.0 + 10.0 + 10.0 + 1.0));
    }

    /// In any order of begins, ends and readings the parts sum to the energy of the active time, up to the tail after
    /// the last reading. The device uses as much in each millisecond.
    #[test]
    fn the_parts_sum_to_the_whole() {
        const POWER_MJ_A_MS: u64 = 700;
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut account, clock) = account(0);
        let mut under_way = Vec::new();
        let (mut now, mut active_ms, mut told) = (0, 0, 0.0);
        for _ in 0..20_000 {
            let step = next(50);
            now += step;
            active_ms += if under_way.is_empty() { 0 } else { step };
            match next(3) {
                0 => account.observe(clock.at(now), Some(now * POWER_MJ_A_MS)),
                1 if under_way.len() < 8 => under_way.push(account.begin(clock.at(now))),
                _ if under_way.is_empty() => {}
                _ => {
                    let ticket = under_way.swap_remove(next(under_way.len() as u64) as usize);
                    told += account.end(ticket, clock.at(now)).unwrap();
                }
            }
        }
        account.observe(clock.at(now), Some(now * POWER_MJ_A_MS));
        under_way.push(account.begin(clock.at(now)));
        for ticket in under_way {
            told += account.end(ticket, clock.at(now)).unwrap();
        }
        let used = (active_ms * POWER_MJ_A_MS) as f64 / 1e3;
        assert!((told - used).abs() < 1e-9 * used, "{told} of {used}");
    }

    #[test]
    fn without_a_counter_nothing_is_known() {
        let (mut account, clock) = (EnergyAccount::default(), TestClock(Instant::now()));
        let [first, second] = [0, 1].map(|ms| account.begin(clock.at(ms)));
        assert_eq!(account.end(first, clock.at(2)), None, "nothing was ever read");
        account.observe(clock.at(3), None);
        assert_eq!(account.end(second, clock.at(4)), None);
    }

    #[test]
    fn a_failed_reading_affects_active_pieces_only() {
        let (mut account, clock) = account(0);
        let [hit, failed] = [0, 1].map(|ms| account.begin(clock.at(ms)));
        account.observe(clock.at(2), None);
        assert_eq!(account.end(failed, clock.at(2)), None);
        account.observe(clock.at(3), Some(500));
        assert_eq!(account.end(hit, clock.at(3)), None, "how much of it was the other's is not known");
        account.observe(clock.at(4), Some(600));
        let after = account.begin(clock.at(4));
        account.observe(clock.at(5), Some(1_600));
        assert_eq!(account.end(after, clock.at(5)), Some(1.0));
    }

    #[test]
    fn a_counter_that_begins_anew_is_no_energy() {
        let (mut account, clock) = account(1_000_000);
        let piece = account.begin(clock.at(0));
        account.observe(clock.at(1), Some(3));
        assert_eq!(account.end(piece, clock.at(1)), None);
        let piece = account.begin(clock.at(1));
        account.observe(clock.at(2), Some(1_003));
        assert_eq!(account.end(piece, clock.at(2)), Some(1.0));
    }

    #[test]
    fn a_piece_that_is_dropped_has_ended() {
        let energy = DeviceEnergy::default();
        energy.observe(Some(0));
        let (kept, dropped) = (energy.begin(), energy.begin());
        drop(dropped);
        assert!(energy.is_active());
        energy.observe(Some(3_000));
        assert!(kept.end().is_some_and(|joules| joules > 0.0 && joules <= 3.0), "its active part of the time");
        assert!(!energy.is_active());
    }

    #[test]
    fn threads_share_one_account() {
        let energy = {
            let counter = AtomicU64::new(0);
            DeviceEnergy::new(move || Some(counter.fetch_add(1_000, Relaxed)))
        };
        let told: f64 = std::thread::scope(|scope| {
            let work = || (0..500).filter_map(|_| energy.begin().end()).sum::<f64>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        // 4,000 readings; each one during an active piece gave a joule to somebody.
        assert!((2_000.0..4_000.0).contains(&(told + 1e-6)), "{told}");
        assert_eq!(energy.lock_account().pieces, 0);
    }

    #[test]
    fn an_observer_waits_until_some_work_begins() {
        let energy = DeviceEnergy::default();
        energy.observe(Some(0));
        std::thread::scope(|scope| {
            let observer = scope.spawn(|| {
                energy.wait_until_active();
                let woken = Instant::now();
                energy.observe(Some(2_000));
                woken
            });
            std::thread::sleep(Duration::from_millis(20));
            let begun = Instant::now();
            let piece = energy.begin();
            assert!(observer.join().unwrap() >= begun, "nothing was active before");
            assert!(piece.end().is_some_and(|joules| joules > 0.0 && joules < 2.0), "a part of the time was active");
        });
    }
}
