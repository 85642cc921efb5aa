//! Times of questions: of one alone, and the distribution of latencies.

use hopeval_results::tables::LatencyRow;
use serde::Serialize;

/// Times of a question running alone, in seconds: means over questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct IsolatedCosts {
    /// From the first request to the outcome.
    pub wall_s: f64,
    /// Time of devices; `None` if none was used.
    pub device_s: Option<f64>,
    /// Busy share of the devices' time; for a CPU, the share of all its processors' time.
    pub device_use: Option<f64>,
    /// Money for devices; `None` if the price is unknown.
    pub money: Option<f64>,
}

/// Latencies of a configuration's questions, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Timed outcomes.
    pub n: u64,
    /// Critical path: for each round the longest of its requests' service times.
    pub service: TimeDistribution,
    /// Waiting of the requests on the critical path.
    pub queue: TimeDistribution,
    /// From the first request to the outcome.
    pub wall: TimeDistribution,
}

/// A distribution of times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeDistribution {
    /// The mean.
    pub mean: f64,
    /// The median; like the others by nearest rank, so each is a measured time.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl TimeDistribution {
    /// The distribution of at least one time.
    fn from_times(mut times: Vec<f64>) -> Self {
        let n = times.len();
        let mean = times.iter().sum::<f64>() / n as f64;
        times.sort_by(f64::total_cmp);
        let rank = |percent: usize| times[(n * percent).div_ceil(100).clamp(1, n) - 1];
        Self { mean, p50: rank(50), p90: rank(90), p99: rank(99) }
    }
}

/// Times of a configuration's outcomes, in seconds.
#[derive(Default)]
pub(super) struct LatencySamples {
    service: Vec<f64>,
    queue: Vec<f64>,
    wall: Vec<f64>,
    device_s: Option<f64>,
}

impl LatencySamples {
    /// Whether no outcome was timed.
    pub(super) fn is_empty(&self) -> bool {
        self.wall.is_empty()
    }

    pub(super) fn add(&mut self, row: &LatencyRow) {
        self.service.push(row.service_s);
        self.queue.push(row.queue_s);
        self.wall.push(row.wall_s);
        if let Some(seconds) = row.device_s {
            *self.device_s.get_or_insert(0.0) += seconds;
        }
    }

    /// Means over the outcomes. `price` is the price of a device's hour.
    pub(super) fn isolated(&self, price: Option<f64>) -> IsolatedCosts {
        let (n, wall) = (self.wall.len() as f64, self.wall.iter().sum::<f64>());
        let device_use = self.device_s.filter(|_| wall > 0.0).map(|device_s| device_s / wall);
        let device_s = self.device_s.map(|sum| sum / n);
        let money = device_s.zip(price).map(|(seconds, price)| seconds * price / 3600.0);
        IsolatedCosts { wall_s: wall / n, device_s, device_use, money }
    }

    pub(super) fn into_summary(self) -> LatencySummary {
        LatencySummary {
            n: self.wall.len() as u64,
            service: TimeDistribution::from_times(self.service),
            queue: TimeDistribution::from_times(self.queue),
            wall: TimeDistribution::from_times(self.wall),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = TimeDistribution::from_times((1..=100).rev().map(f64::from).collect());
        assert_eq!(times, TimeDistribution { mean: 50.5, p50: 50.0, p90: 90.0, p99: 99.0 });
        assert_eq!(
            TimeDistribution::from_times(vec![2.0]),
            TimeDistribution { mean: 2.0, p50: 2.0, p90: 2.0, p99: 2.0 }
        );
        assert_eq!(TimeDistribution::from_times(vec![3.0, 1.0, 2.0]).p90, 3.0);
    }

    #[test]
    fn a_device_s_share_is_of_the_time_of_all_questions() {
        let mut samples = LatencySamples::default();
        for (wall_s, device_s) in [(2.0, Some(1.0)), (2.0, None)] {
            samples.add(&LatencyRow { wall_s, device_s, ..LatencyRow::default() });
        }
        let expected = IsolatedCosts { wall_s: 2.0, device_s: Some(0.5), device_use: Some(0.25), money: None };
        assert_eq!(samples.isolated(None), expected);
        assert_eq!(samples.isolated(Some(7200.0)), IsolatedCosts { money: Some(1.0), ..expected });
        assert_eq!(samples.into_summary().n, 2);
    }
}
