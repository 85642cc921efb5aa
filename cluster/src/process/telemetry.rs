//! Serves the numbers of this process to Prometheus.

mod outcome_metrics;
mod service_metrics;

use hopeval_cluster::metrics::{self, MetricsError, MetricsListener, MetricsServer};
use hopeval_jobs::JobError;
use hopeval_jobs::run::generation::Generation;

/// Serves the counters of this process, until it ends. Each metric has the run as a label.
///
/// # Errors
/// The server's thread does not start; the run was opened without its services.
pub(crate) fn serve_metrics(listener: MetricsListener, generation: &Generation) -> Result<(), TelemetryError> {
    let mut metrics = metrics::of_run(&generation.counters);
    metrics.extend(outcome_metrics::of_outcomes(generation));
    metrics.extend(service_metrics::of_services(generation)?);
    // Models are open by now, and with them all devices of this process.
    metrics.extend(metrics::of_boards());
    let metrics = metrics.into_iter().map(|metric| metric.label("run", generation.run.id()));
    let server = MetricsServer::serve_on(listener, metrics.collect())?;
    tracing::info!(address = %server.address(), "serving metrics");
    // It lives as long as the process, so a scrape after the run's end finds the final counts.
    std::mem::forget(server);
    Ok(())
}

/// The reason why a process serves no metrics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelemetryError {
    /// They cannot be served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The run has no services.
    #[error(transparent)]
    Job(#[from] JobError),
}
