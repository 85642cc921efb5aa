//! Telemetry for Prometheus: serves numbers, read by closures at the moment of the scrape.
//!
//! The server has a thread and a runtime of its own, so workers and scrapes never delay each other. `/metrics` has the
//! text format 0.0.4, `/healthz` shows the process answers. There is no authentication: bind the server to an address
//! reached by the monitoring only.

mod boards;
mod family;
mod run;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use prometheus::{Encoder, Registry, TextEncoder};
use tokio::sync::oneshot;

pub use boards::of_boards;
pub use run::of_run;

use family::build_registry;

/// The meaning of a number to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations by size.
    Histogram,
}

/// Reads a number, at each scrape; must not block.
pub type NumberReader = Box<dyn Fn() -> f64 + Send + Sync>;

/// Reads a histogram, at each scrape; must not block.
pub type HistogramReader = Box<dyn Fn() -> HistogramReading + Send + Sync>;

/// The value of a metric.
pub enum MetricReader {
    /// A counter's or a gauge's.
    Number(NumberReader),
    /// A histogram's.
    Histogram(HistogramReader),
}

/// A histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramReading {
    /// Upper ends of the buckets, ascending, each with the number of observations up to it.
    pub buckets: Vec<(f64, u64)>,
    /// All observations.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

/// One number. Metrics of equal name are one family and differ in their labels.
pub struct Metric {
    /// Name with its unit, as `hopeval_questions_admitted_total` or `hopeval_queue_seconds`.
    pub name: String,
    /// One sentence.
    pub help: String,
    /// Counter, gauge or histogram; the same in the whole family.
    pub kind: MetricKind,
    /// Names and values of labels; the same names in the whole family.
    pub labels: Vec<(String, String)>,
    /// Its value.
    pub read: MetricReader,
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metric").field("name", &self.name).field("labels", &self.labels).finish_non_exhaustive()
    }
}

impl Metric {
    /// A counter without labels.
    pub fn counter(name: &str, help: &str, read: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self::new(name, help, MetricKind::Counter, read)
    }

    /// A gauge without labels.
    pub fn gauge(name: &str, help: &str, read: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self::new(name, help, MetricKind::Gauge, read)
    }

    /// A histogram without labels.
    pub fn histogram(name: &str, help: &str, read: impl Fn() -> HistogramReading + Send + Sync + 'static) -> Self {
        let (name, help, read) = (name.to_owned(), help.to_owned(), MetricReader::Histogram(Box::new(read)));
        Self { name, help, kind: MetricKind::Histogram, labels: Vec::new(), read }
    }

    /// The same with one more label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.push((name.to_owned(), value.to_owned()));
        self
    }

    fn new(name: &str, help: &str, kind: MetricKind, read: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        let (name, help, read) = (name.to_owned(), help.to_owned(), MetricReader::Number(Box::new(read)));
        Self { name, help, kind, labels: Vec::new(), read }
    }
}

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The address cannot be listened on, for one because it is in use.
    #[error("metrics cannot be served on {address}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The thread or its runtime did not start.
    #[error("the server of metrics does not start")]
    Start(#[source] io::Error),
    /// A name, a label or a family breaks the conventions.
    #[error("the metric {name} is not well formed")]
    Malformed {
        /// Its name.
        name: String,
        /// The fault.
        #[source]
        source: prometheus::Error,
    },
}

/// A socket that listens for scrapes, before there are metrics to serve.
#[derive(Debug)]
pub struct MetricsListener {
    address: SocketAddr,
    listener: TcpListener,
}

impl MetricsListener {
    /// Listens on `address`; port 0 takes any free port.
    ///
    /// # Errors
    /// [`MetricsError::Bind`].
    pub fn open(address: SocketAddr) -> Result<Self, MetricsError> {
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(Self { address: listener.local_addr()?, listener })
        };
        bind().map_err(|source| MetricsError::Bind { address, source })
    }
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Serves `metrics` on `address`; port 0 takes any free port.
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn serve(address: SocketAddr, metrics: Vec<Metric>) -> Result<Self, MetricsError> {
        Self::serve_on(MetricsListener::open(address)?, metrics)
    }

    /// Serves `metrics` on an open listener.
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn serve_on(listener: MetricsListener, metrics: Vec<Metric>) -> Result<Self, MetricsError> {
        let registry = build_registry(metrics)?;
        let MetricsListener { address: bound, listener } = listener;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build().map_err(MetricsError::Start)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            let served = runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let server = axum::serve(listener, router(registry)).into_future();
                // Stops at once, also amid a scrape: there is nothing to finish.
                tokio::select! {
                    served = server => served,
                    _ = stopped => Ok(()),
                }
            });
            if let Err(error) = served {
                tracing::warn!(%error, "metrics are not served any more");
            }
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(serve);
        Ok(Self { address: bound, stop: Some(stop), thread: Some(thread.map_err(MetricsError::Start)?) })
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // Either may have ended by itself.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn router(registry: Registry) -> Router {
    let scrape = move || {
        let registry = registry.clone();
        async move {
            let mut text = Vec::new();
            let encoder = TextEncoder::new();
            match encoder.encode(&registry.gather(), &mut text) {
                Ok(()) => Ok(([(header::CONTENT_TYPE, encoder.format_type().to_owned())], text)),
                Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))),
            }
        }
    };
    Router::new().route("/metrics", get(scrape)).route("/healthz", get(async || "ok\n"))
}

#[cfg(test)]
mod tests;
