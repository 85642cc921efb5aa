//! Metrics of a run's services: requests, journal hits, failures, the queue, time and tokens.

use hopeval_cluster::metrics::{Metric, MetricKind, MetricReader};
use hopeval_jobs::JobError;
use hopeval_jobs::run::generation::Generation;
use hopeval_jobs::run::progress::ProcessUsage;
use hopeval_jobs::services::usage::Usage;
use hopeval_methods::ServiceName;
use std::sync::{Arc, PoisonError};

/// A number of a service's usage.
type UsageNumber = fn(&Usage) -> f64;

/// All numbers of a service.
const METRICS: [(&str, &str, MetricKind, UsageNumber); 9] = [
    ("hopeval_service_requests_total", "Requests that the service received.", MetricKind::Counter, |usage| {
        usage.requests as f64
    }),
    (
        "hopeval_service_journal_hits_total",
        "Requests answered from the journal or from memory.",
        MetricKind::Counter,
        |usage| usage.journalled as f64,
    ),
    (
        "hopeval_service_computed_total",
        "Requests that were computed, failures included.",
        MetricKind::Counter,
        |usage| usage.computed as f64,
    ),
    ("hopeval_service_failed_total", "Requests that failed.", MetricKind::Counter, |usage| usage.failed as f64),
    ("hopeval_service_queue_requests", "Requests that wait for their answers.", MetricKind::Gauge, |usage| {
        usage.requests.saturating_sub(usage.journalled + usage.computed) as f64
    }),
    (
        "hopeval_service_busy_seconds_total",
        "Seconds of service; for a model those of its device.",
        MetricKind::Counter,
        |usage| usage.service_us as f64 / 1e6,
    ),
    ("hopeval_service_prompt_tokens_total", "Prompt tokens of computed requests.", MetricKind::Counter, |usage| {
        usage.model.prompt_tokens as f64
    }),
    ("hopeval_service_completion_tokens_total", "Generated tokens.", MetricKind::Counter, |usage| {
        usage.model.completion_tokens as f64
    }),
    ("hopeval_service_scored_tokens_total", "Scored tokens.", MetricKind::Counter, |usage| {
        usage.model.scored_tokens as f64
    }),
];

/// The metrics of all services whose answers are journalled, with the service and its kind as labels.
///
/// # Errors
/// The run was opened without its services.
pub(super) fn of_services(generation: &Generation) -> Result<Vec<Metric>, JobError> {
    let catalogue = &generation.run.configurations()?.catalogue;
    let mut metrics = Vec::new();
    for name in generation.progress_probe()?.services.keys() {
        let kind = catalogue.info(&ServiceName(Arc::clone(name))).map_or("", |info| info.kind);
        for (metric, help, metric_kind, number) in METRICS {
            let (usage, service) = (Arc::clone(&generation.usage), Arc::clone(name));
            let read = MetricReader::Number(Box::new(move || number(&service_usage(&usage, &service))));
            let metric =
                Metric { name: metric.to_owned(), help: help.to_owned(), kind: metric_kind, labels: Vec::new(), read };
            metrics.push(metric.label("service", name).label("kind", kind));
        }
    }
    Ok(metrics)
}

/// The usage of a service by all workers of this process.
fn service_usage(usage: &ProcessUsage, service: &Arc<str>) -> Usage {
    let workers = usage.lock().unwrap_or_else(PoisonError::into_inner);
    workers
        .iter()
        .filter_map(|worker| worker.get(service))
        .fold(Usage::default(), |sum, counters| sum + counters.read())
}
