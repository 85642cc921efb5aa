//! Serves the numbers of this process to Prometheus.

use hopeval_cluster::metrics::{self, MetricsError, MetricsListener, MetricsServer};
use hopeval_jobs::run::generation::Generation;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

/// The address of this process's metrics, taken before a run is made. Without one, nothing is served.
#[derive(Debug, Default)]
pub(crate) struct MetricsPort {
    listener: Option<MetricsListener>,
    /// Serves the numbers of the last generation, until the process ends: a scrape then finds the final counts.
    server: Mutex<Option<MetricsServer>>,
}

impl MetricsPort {
    /// Takes the address.
    ///
    /// # Errors
    /// The address cannot be used.
    pub(crate) fn take(address: SocketAddr) -> Result<Self, MetricsError> {
        Ok(Self { listener: Some(MetricsListener::bind(address)?), server: Mutex::default() })
    }

    /// Serves the counters of a generation instead of those of an earlier one.
    ///
    /// # Errors
    /// The server cannot be started.
    pub(crate) fn serve(&self, generation: &Generation) -> Result<(), MetricsError> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let mut metrics = metrics::of_run(&generation.counters);
        // Models are open by now, and with them all devices of this process.
        metrics.extend(metrics::of_boards());
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        drop(server.take());
        let started = server.insert(MetricsServer::serve_on(listener, metrics)?);
        tracing::info!(address = %started.address(), "serving metrics");
        Ok(())
    }
}
