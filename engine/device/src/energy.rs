//! Shares a device's energy counter among concurrent pieces of work.
//!
//! A counter counts the whole device for all users, and several engines of a process may use one device at once. So
//! there is one account for each device. It reads the counter whenever a piece of work begins or ends, and splits the
//! energy since the last reading evenly among the active pieces; a piece's own energy is the sum of its shares between
//! its begin and its end. Energy used while no piece is active belongs to nobody.
//!
//! ```text
//!   counter   0        100     160        200       240    J
//!   first     |=========|=======|                            its own: 100 + 30
//!   second              |=======|==========|                 its own: 30 + 40
//!                                          |---------|       nobody's: 40
//! ```
//!
//! A counter moves every few tens of milliseconds, so the figure of a shorter piece is right only in the mean of many.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The arithmetic: readings of a counter in millijoules, without the counter.
#[derive(Debug, Default)]
pub struct EnergyAccount {
    /// The last reading; `None` before the first one, and after a failed one.
    last: Option<u64>,
    /// Number of active pieces.
    pieces: u32,
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
    /// Begins a piece of work. `now_mj` is the counter's reading, `None` if it cannot be read.
    pub fn begin(&mut self, now_mj: Option<u64>) -> EnergyTicket {
        self.read_counter(now_mj);
        self.pieces += 1;
        EnergyTicket { each: self.each, gaps: self.gaps }
    }

    /// Ends a piece begun by this account and returns its joules; `None` if a reading since its begin failed, or the
    /// counter went back.
    ///
    /// # Panics
    /// If there is no active piece.
    pub fn end(&mut self, ticket: EnergyTicket, now_mj: Option<u64>) -> Option<f64> {
        self.read_counter(now_mj);
        self.pieces = self.pieces.checked_sub(1).expect("what ends has begun; this is a bug");
        (ticket.gaps == self.gaps).then(|| (self.each - ticket.each) / 1e3)
    }

    fn read_counter(&mut self, now_mj: Option<u64>) {
        match self.last.zip(now_mj).and_then(|(last, now)| now.checked_sub(last)) {
            Some(used) if self.pieces > 0 => self.each += used as f64 / f64::from(self.pieces),
            Some(_) => {}
            None => self.gaps += 1,
        }
        self.last = now_mj;
    }
}

/// Reads a counter: millijoules since some earlier time, `None` if it cannot be read.
type EnergyCounter = dyn Fn() -> Option<u64> + Send + Sync;

/// A device's account with its counter: one for each device, shared by all its users.
pub struct DeviceEnergy {
    counter: Box<EnergyCounter>,
    account: Mutex<EnergyAccount>,
}

impl fmt::Debug for DeviceEnergy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Energy").field("account", &self.account).finish_non_exhaustive()
    }
}

impl DeviceEnergy {
    /// An account of this counter of millijoules. The counter is read when a piece of work begins or ends.
    pub fn new(counter: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self { counter: Box::new(counter), account: Mutex::default() }
    }

    /// Begins a piece of work.
    pub fn begin(&self) -> WorkPiece<'_> {
        let mut account = self.lock_account();
        // Read under the lock, so readings come in the counter's order.
        let ticket = account.begin((self.counter)());
        WorkPiece { energy: self, ticket: Some(ticket) }
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
        account.end(ticket, (self.energy.counter)())
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn a_piece_alone_has_all_that_is_used_meanwhile() {
        let mut account = EnergyAccount::default();
        // Energy used before belongs to nobody.
        let piece = account.begin(Some(5_000));
        assert_eq!(account.end(piece, Some(7_500)), Some(2.5));
        // So does energy used while the device was idle.
        let piece = account.begin(Some(9_000));
        assert_eq!(account.end(piece, Some(9_250)), Some(0.25));
        // A piece too short for the counter to move.
        let piece = account.begin(Some(9_250));
        assert_eq!(account.end(piece, Some(9_250)), Some(0.0));
    }

    #[test]
    fn what_is_used_together_is_shared_evenly() {
        let mut account = EnergyAccount::default();
        let first = account.begin(Some(0));
        let second = account.begin(Some(100_000));
        assert_eq!(account.end(first, Some(160_000)), Some(130.0));
        assert_eq!(account.end(second, Some(200_000)), Some(70.0));
        assert_eq!(account.pieces, 0);

        // One around three others, two of which overlap.
        let long = account.begin(Some(240_000));
        let [a, b] = [250_000, 260_000].map(|now| account.begin(Some(now)));
        assert_eq!(account.end(a, Some(290_000)), Some(5.0 + 10.0));
        assert_eq!(account.end(b, Some(310_000)), Some(10.0 + 10.0));
        let c = account.begin(Some(310_000));
        assert_eq!(account.end(c, Some(330_000)), Some(10.0));
        assert_eq!(account.end(long, Some(331_000)), Some(10.0 + 5.0 + 10.0 + 10.0 + 10.0 + 1.0));
    }

    /// In any order of begins and ends the parts sum to the energy used while some piece was active.
    #[test]
    fn the_parts_sum_to_the_whole() {
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut account, mut under_way) = (EnergyAccount::default(), Vec::new());
        let (mut now, mut used, mut told) = (1 << 40, 0, 0.0);
        for _ in 0..20_000 {
            let step = next(500_000);
            now += step;
            used += if under_way.is_empty() { 0 } else { step };
            if under_way.is_empty() || (under_way.len() < 8 && next(2) == 0) {
                under_way.push(account.begin(Some(now)));
            } else {
                let ticket = under_way.swap_remove(next(under_way.len() as u64) as usize);
                told += account.end(ticket, Some(now)).unwrap();
            }
        }
        for ticket in under_way {
            told += account.end(ticket, Some(now)).unwrap();
        }
        let used = used as f64 / 1e3;
        assert!((told - used).abs() < 1e-9 * used, "{told} of {used}");
    }

    #[test]
    fn without_a_counter_nothing_is_known() {
        let mut account = EnergyAccount::default();
        let [first, second] = [account.begin(None), account.begin(None)];
        assert_eq!((account.end(first, None), account.end(second, None)), (None, None));
    }

    #[test]
    fn a_failed_reading_affects_active_pieces_only() {
        let mut account = EnergyAccount::default();
        let [hit, failed] = [account.begin(Some(0)), account.begin(Some(10))];
        assert_eq!(account.end(failed, None), None);
        assert_eq!(account.end(hit, Some(500)), None, "how much of it was the other's is not known");
        let after = account.begin(Some(600));
        assert_eq!(account.end(after, Some(1_600)), Some(1.0));

        // A piece that begins while the counter cannot be read.
        let blind = account.begin(None);
        assert_eq!(account.end(blind, Some(2_000)), None);
        let after = account.begin(Some(2_000));
        assert_eq!(account.end(after, Some(3_000)), Some(1.0));
    }

    #[test]
    fn a_counter_that_begins_anew_is_no_energy() {
        let mut account = EnergyAccount::default();
        let piece = account.begin(Some(1_000_000));
        assert_eq!(account.end(piece, Some(3)), None);
        let piece = account.begin(Some(3));
        assert_eq!(account.end(piece, Some(1_003)), Some(1.0));
    }

    #[test]
    fn a_piece_that_is_dropped_has_ended() {
        let counter = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&counter);
        let energy = DeviceEnergy::new(move || Some(read.load(Relaxed)));
        let (kept, dropped) = (energy.begin(), energy.begin());
        counter.store(1_000, Relaxed);
        drop(dropped);
        counter.store(3_000, Relaxed);
        assert_eq!(kept.end(), Some(0.5 + 2.0));
        assert_eq!(energy.lock_account().pieces, 0);
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
}
