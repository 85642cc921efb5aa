//! A limit of so many a minute, as a bucket that fills steadily.
//!
//! Amounts are reserved before they are spent, and corrected afterwards: the level may fall below zero, and then the
//! next reservation waits. The rate falls by a factor with each limit that the server states, and rises again steadily:
//! two runs that do not know of each other come to share a limit.

use std::time::Duration;
use tokio::time::Instant;

/// The part of the stated limit that is used. Clocks differ, and a server counts when a request arrives.
const USED_PART: f64 = 0.985;

/// The bucket's size, in seconds of the limit: more would exceed a limit by so much in a minute.
const BURST_SECONDS: f64 = 0.5;

/// The factor of the rate after a limit.
const DECREASE: f64 = 0.85;

/// The least part of the limit that remains.
const LEAST_SHARE: f64 = 0.02;

/// The part of the limit that comes back each second.
const INCREASE_PER_SECOND: f64 = 0.006;

/// The shortest time between two decreases: limits that come together are one sign.
const DECREASE_PAUSE: Duration = Duration::from_secs(2);

/// A limit of so many a minute.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// The limit, a second.
    limit: f64,
    /// The part of it that is used now, by the server's signs.
    share: f64,
    /// What may be spent at `filled`; below zero, what must come first.
    level: f64,
    filled: Instant,
    /// Nothing may be spent before.
    held: Option<Instant>,
    decreased: Option<Instant>,
}

impl RateLimit {
    /// A full bucket for a limit by the minute.
    pub(crate) fn per_minute(limit: f64, now: Instant) -> Self {
        let mut rate =
            Self { limit: limit * USED_PART / 60.0, share: 1.0, level: 0.0, filled: now, held: None, decreased: None };
        rate.level = rate.most_level();
        rate
    }

    fn most_level(&self) -> f64 {
        (self.limit * BURST_SECONDS).max(1.0)
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.level = (self.level + elapsed * self.limit * self.share).min(self.most_level());
        self.share = (self.share + elapsed * INCREASE_PER_SECOND).min(1.0);
        self.filled = now;
    }

    /// The time at which an amount may be spent: `now`, or later. An amount beyond the bucket's size needs a full one.
    pub(crate) fn ready_at(&mut self, amount: f64, now: Instant) -> Instant {
        self.fill(now);
        let missing = amount.min(self.most_level()) - self.level;
        let filled =
            if missing <= 0.0 { now } else { now + Duration::from_secs_f64(missing / (self.limit * self.share)) };
        self.held.map_or(filled, |held| held.max(filled))
    }

    /// Spends an amount; negative amounts come back.
    pub(crate) fn spend(&mut self, amount: f64, now: Instant) {
        self.fill(now);
        self.level = (self.level - amount).min(self.most_level());
    }

    /// The server stated a limit.
    pub(crate) fn decrease(&mut self, now: Instant) {
        self.fill(now);
        if self.decreased.is_none_or(|before| now.saturating_duration_since(before) >= DECREASE_PAUSE) {
            self.share = (self.share * DECREASE).max(LEAST_SHARE);
            self.decreased = Some(now);
        }
    }

    /// The part of the limit that is used now.
    #[cfg(test)]
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Spends nothing before a time.
    pub(crate) fn hold_until(&mut self, time: Instant) {
        self.held = Some(self.held.map_or(time, |held| held.max(time)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of amounts spent as early as may be, in seconds.
    fn spend_all(rate: &mut RateLimit, start: Instant, amounts: &[f64]) -> Vec<f64> {
        let mut now = start;
        let mut times = Vec::new();
        for amount in amounts {
            now = rate.ready_at(*amount, now);
            rate.spend(*amount, now);
            times.push((now - start).as_secs_f64());
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_exceeds_the_limit() {
        let start = Instant::now();
        let times = spend_all(&mut RateLimit::per_minute(600.0, start), start, &vec![1.0; 3000]);
        let most = times.iter().map(|begin| times.iter().filter(|time| (*begin..begin + 60.0).contains(*time)).count());
        assert!(most.max().unwrap() <= 600, "never more than the limit in a minute");
        let five_minutes = times.iter().filter(|time| **time < 300.0).count();
        assert!(five_minutes >= 2850, "{five_minutes} of 3000 used");
    }

    #[tokio::test(start_paused = true)]
    async fn reservations_come_back() {
        let start = Instant::now();
        let mut rate = RateLimit::per_minute(60_000.0, start);
        rate.spend(1_000.0, start);
        let late = rate.ready_at(100.0, start) - start;
        rate.spend(-900.0, start);
        assert!(late > Duration::from_millis(500) && rate.ready_at(100.0, start) == start);
        // One amount beyond the bucket's size is taken whole, and paid for by waiting afterwards.
        let times = spend_all(&mut RateLimit::per_minute(60_000.0, start), start, &[3_000.0, 3_000.0, 3_000.0]);
        assert!(times[0] == 0.0 && (times[2] - times[1] - 3.0).abs() < 0.1, "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn two_strangers_share_a_limit() {
        let start = Instant::now();
        let mut runs = [RateLimit::per_minute(600.0, start), RateLimit::per_minute(600.0, start)];
        // A server of 600 a minute for both, as a bucket of one second.
        let (mut level, mut filled) = (10.0_f64, start);
        let (mut taken, mut limited) = ([0_u32; 2], 0_u32);
        let mut next = [start, start];
        loop {
            let run = usize::from(next[1] < next[0]);
            let now = next[run];
            let elapsed = (now - start).as_secs_f64();
            if elapsed >= 360.0 {
                break;
            }
            level = (level + (now - filled).as_secs_f64() * 10.0).min(10.0);
            filled = now;
            runs[run].spend(1.0, now);
            if level >= 1.0 {
                level -= 1.0;
                taken[run] += u32::from(elapsed >= 60.0);
            } else {
                runs[run].decrease(now);
                limited += u32::from(elapsed >= 60.0);
            }
            next[run] = runs[run].ready_at(1.0, now + Duration::from_micros(1));
        }
        let sum = taken[0] + taken[1];
        assert!(sum >= 2_550, "{taken:?}: at least 85 % of 3,000 in five minutes");
        assert!(taken.iter().all(|own| f64::from(*own) >= 0.4 * f64::from(sum)), "{taken:?}");
        assert!(f64::from(limited) <= 0.05 * f64::from(sum + limited), "{limited} limits beside {sum}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_kept() {
        let start = Instant::now();
        let mut rate = RateLimit::per_minute(600.0, start);
        rate.hold_until(start + Duration::from_secs(9));
        rate.hold_until(start + Duration::from_secs(3));
        assert_eq!(rate.ready_at(1.0, start), start + Duration::from_secs(9));
    }
}
