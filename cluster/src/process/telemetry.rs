//! Serves the numbers of this process to Prometheus.

use hopeval_cluster::metrics::{self, MetricsError, MetricsServer};
use hopeval_jobs::run::generation::Generation;
use std::net::SocketAddr;

/// Serves the counters of this process, until it ends.
///
/// # Errors
/// The address cannot be used.
pub(crate) fn serve_metrics(address: SocketAddr, generation: &Generation) -> Result<(), MetricsError> {
    let mut metrics = metrics::of_run(&generation.counters);
    // Models are open by now, and with them all devices of this process.
    metrics.extend(metrics::of_boards());
    let server = MetricsServer::serve(address, metrics)?;
    tracing::info!(address = %server.address(), "serving metrics");
    // It lives as long as the process, so a scrape after the run's end finds the final counts.
    std::mem::forget(server);
    Ok(())
}
