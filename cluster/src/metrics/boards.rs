//! The metrics of this process's boards, read from NVML.

use std::sync::Arc;

use hopeval_cuda::boards::{self, Board};
use hopeval_cuda::energy::CounterSample;

use super::{Metric, MetricKind};

/// Metrics of the boards opened by this process so far; empty without a GPU. Numbers unknown to a board are left out.
pub fn of_boards() -> Vec<Metric> {
    boards::opened_boards().iter().flat_map(of_board).collect()
}

/// One number of a sample.
type SampleField = fn(&CounterSample) -> Option<f64>;

/// All numbers of a board.
const METRICS: [(&str, &str, MetricKind, SampleField); 4] = [
    (
        "hopeval_gpu_utilisation_ratio",
        "Share of the last second, or less, in which the GPU ran some kernel.",
        MetricKind::Gauge,
        |sample| sample.utilisation.map(|percent| f64::from(percent) / 100.0),
    ),
    (
        "hopeval_gpu_memory_used_bytes",
        "Memory of the GPU that is taken, by all processes.",
        MetricKind::Gauge,
        |sample| Some(sample.memory_used as f64),
    ),
    ("hopeval_gpu_memory_bytes", "Memory of the GPU.", MetricKind::Gauge, |sample| Some(sample.memory as f64)),
    (
        "hopeval_gpu_energy_joules_total",
        "Energy that the GPU used since its driver was loaded, whoever used it.",
        MetricKind::Counter,
        |sample| sample.millijoules.map(|millijoules| millijoules as f64 / 1e3),
    ),
];

fn of_board(board: &Arc<Board>) -> Vec<Metric> {
    let shared = Arc::clone(board);
    of_samples(board.name(), board.uuid(), move || shared.sample().ok())
}

/// Metrics of the board sampled by `sample`.
fn of_samples(
    name: &str,
    uuid: &str,
    sample: impl Fn() -> Option<CounterSample> + Clone + Send + Sync + 'static,
) -> Vec<Metric> {
    let Some(first) = sample() else { return Vec::new() };
    let told = METRICS.into_iter().filter(|(.., pick)| pick(&first).is_some());
    told.map(|(metric, help, kind, pick)| {
        let sample = sample.clone();
        let read = move || sample().as_ref().and_then(pick).unwrap_or(f64::NAN);
        Metric::new(metric, help, kind, read).label("device", name).label("uuid", uuid)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricReader;
    use crate::metrics::family::build_registry;

    fn numbers(sample: CounterSample) -> Vec<(String, f64)> {
        let metrics = of_samples("cuda:0", "GPU-1", move || Some(sample));
        let read = |metric: &Metric| match &metric.read {
            MetricReader::Number(read) => read(),
            MetricReader::Histogram(_) => panic!("boards have numbers"),
        };
        metrics.iter().map(|metric| (metric.name.clone(), read(metric))).collect()
    }

    #[test]
    fn a_board_s_numbers_have_the_units_of_their_names() {
        let whole = CounterSample { millijoules: Some(2_500), utilisation: Some(75), memory_used: 30, memory: 80 };
        let expected = [
            ("hopeval_gpu_utilisation_ratio", 0.75),
            ("hopeval_gpu_memory_used_bytes", 30.0),
            ("hopeval_gpu_memory_bytes", 80.0),
            ("hopeval_gpu_energy_joules_total", 2.5),
        ];
        assert_eq!(numbers(whole), expected.map(|(name, value)| (name.to_owned(), value)));
        // A slice of a board.
        let slice = numbers(CounterSample { millijoules: None, utilisation: None, ..whole });
        assert_eq!(slice, expected[1..3].iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Vec<_>>());
    }

    #[test]
    fn boards_differ_in_their_labels() {
        let sample = || Some(CounterSample { millijoules: Some(1), utilisation: Some(1), memory_used: 1, memory: 1 });
        let two = ["cuda:0", "cuda:1"].into_iter().flat_map(|name| of_samples(name, &format!("of {name}"), sample));
        assert!(build_registry(two.collect()).is_ok());
        assert!(of_samples("cuda:0", "GPU-1", || None).is_empty());
    }

    #[test]
    fn a_process_that_opened_no_gpu_has_no_metrics_of_one() {
        assert!(of_boards().is_empty());
    }
}
