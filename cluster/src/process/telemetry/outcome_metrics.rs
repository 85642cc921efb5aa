//! Metrics of a run's outcomes: what is expected, failures, and times.

use hopeval_cluster::metrics::{HistogramReading, Metric};
use hopeval_jobs::run::generation::Generation;
use hopeval_jobs::run::outcome_counters::{OutcomeCounters, TIME_BUCKETS};
use std::sync::Arc;

/// The metrics.
pub(super) fn of_outcomes(generation: &Generation) -> Vec<Metric> {
    let resolved = &generation.run.resolved;
    let (expected, before) = (resolved.outcome_count() as f64, generation.outcomes_before() as f64);
    let (failed, times) = (Arc::clone(&generation.outcome_counters), Arc::clone(&generation.outcome_counters));
    vec![
        Metric::gauge("hopeval_outcomes_expected", "Outcomes of the whole run, by all processes.", move || expected),
        Metric::gauge("hopeval_outcomes_before", "Outcomes committed before this process joined the run.", move || {
            before
        }),
        Metric::counter("hopeval_outcomes_failed_total", "Outcomes with another status than ok.", move || {
            failed.failed() as f64
        }),
        Metric::histogram("hopeval_outcome_seconds", "Time from an outcome's first request to its end.", move || {
            read_times(&times)
        }),
    ]
}

fn read_times(counters: &OutcomeCounters) -> HistogramReading {
    let times = counters.times();
    HistogramReading {
        buckets: TIME_BUCKETS.into_iter().zip(times.at_most).collect(),
        count: times.count,
        sum: times.total_s,
    }
}
