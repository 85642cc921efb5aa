//! Serves the numbers of this process to Prometheus.

use hopeval_cluster::metrics::{self, MetricsError, MetricsListener, MetricsServer};
use hopeval_jobs::run::generation::Generation;

/// Serves the counters of this process, until it ends.
///
/// # Errors
/// The server's thread does not start.
pub(crate) fn serve_metrics(listener: MetricsListener, generation: &Generation) -> Result<(), MetricsError> {
    let mut metrics = metrics::of_run(&generation.counters);
    // Models are open by now, and with them all devices of this process.
    metrics.extend(metrics::of_boards());
    let server = MetricsServer::serve_on(listener, metrics)?;
    tracing::info!(address = %server.address(), "serving metrics");
    // It lives as long as the process, so a scrape after the run's end finds the final counts.
    std::mem::forget(server);
    Ok(())
}
