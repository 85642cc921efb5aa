//! The number of calls in flight: one more after each round of answers, a part less after a limit.
//!
//! As TCP does it (Chiu and Jain 1989): additive increase and multiplicative decrease lead several clients of one
//! server to equal shares.

/// The factor after a limit.
const DECREASE: f64 = 0.75;

/// The most calls in flight.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    most: f64,
    now: f64,
    /// Attempts that began before this one say nothing new about a limit.
    counts_from: u64,
}

impl ConcurrencyLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most as f64, now: most as f64, counts_from: 0 }
    }

    /// The most calls in flight now, at least 1.
    pub(crate) fn current(&self) -> usize {
        self.now as usize
    }

    /// An answer came.
    pub(crate) fn increase(&mut self) {
        self.now = (self.now + 1.0 / self.now).min(self.most);
    }

    /// The server stated a limit to attempt number `attempt`; `next` is the number of the next attempt. All calls that
    /// are in flight now count once.
    pub(crate) fn decrease(&mut self, attempt: u64, next: u64) {
        if attempt >= self.counts_from {
            self.now = (self.now * DECREASE).max(1.0);
            self.counts_from = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_one_round_count_once() {
        let mut limit = ConcurrencyLimit::new(64);
        (0..64).for_each(|attempt| limit.decrease(attempt, 64));
        assert_eq!(limit.current(), 48);
        limit.decrease(64, 70);
        assert_eq!(limit.current(), 36);
        (0..37).for_each(|_| limit.increase());
        assert_eq!(limit.current(), 37, "one more after a round of answers");
        (0..5_000).for_each(|_| limit.increase());
        assert_eq!(limit.current(), 64);
        (0..100).for_each(|attempt| limit.decrease(1_000 + attempt, 0));
        assert_eq!(limit.current(), 1);
    }
}
