//! Counts a process's outcomes while they come: failures, and the times of questions as a histogram.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The upper ends of the buckets of times, in seconds; later times are in one more bucket.
pub const TIME_BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 25.0, 60.0, 120.0, 300.0, 600.0];

/// Counters of outcomes, raised by all workers of a process.
#[derive(Debug, Default)]
pub struct OutcomeCounters {
    failed: AtomicU64,
    /// By bucket, not summed up.
    times: [AtomicU64; TIME_BUCKETS.len() + 1],
    /// Microseconds of all.
    total_us: AtomicU64,
}

/// The times of outcomes at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutcomeTimes {
    /// Outcomes with a time at most the end of each of [`TIME_BUCKETS`].
    pub at_most: Vec<u64>,
    /// All outcomes with a time.
    pub count: u64,
    /// Their seconds.
    pub total_s: f64,
}

impl OutcomeCounters {
    /// Counts an outcome with its time from first request to end, in seconds, if it was measured.
    pub fn count_outcome(&self, is_failure: bool, wall_s: Option<f64>) {
        self.failed.fetch_add(u64::from(is_failure), Relaxed);
        let Some(wall_s) = wall_s else { return };
        let bucket = TIME_BUCKETS.partition_point(|end| *end < wall_s);
        self.total_us.fetch_add((wall_s * 1e6).round() as u64, Relaxed);
        self.times[bucket].fetch_add(1, Relaxed);
    }

    /// Outcomes with another status than success.
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// The times so far.
    pub fn times(&self) -> OutcomeTimes {
        let mut count = 0;
        let summed = self.times.iter().map(|times| {
            count += times.load(Relaxed);
            count
        });
        let mut at_most: Vec<u64> = summed.collect();
        at_most.truncate(TIME_BUCKETS.len());
        OutcomeTimes { at_most, count, total_s: self.total_us.load(Relaxed) as f64 / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_at_the_end_of_a_bucket_is_in_it() {
        let counters = OutcomeCounters::default();
        [0.0, 0.001, 0.0011, 600.0, 601.0]
            .into_iter()
            .for_each(|time| counters.count_outcome(time > 600.0, Some(time)));
        counters.count_outcome(false, None);
        let times = counters.times();
        assert_eq!((times.at_most[0], times.at_most[1], times.at_most[13], times.count), (2, 3, 4, 5));
        assert!((times.total_s - 1201.0021).abs() < 1e-9, "{times:?}");
        assert_eq!(counters.failed(), 1);
    }
}
