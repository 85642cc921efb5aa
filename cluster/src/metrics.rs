//! Telemetry for Prometheus: serves numbers that closures read at the moment of the scrape.
//!
//! The server has a thread and a runtime of its own, so a busy worker never delays a scrape and a scrape never a
//! worker. `/metrics` is the text format 0.0.4, `/healthz` says that the process answers. There is no authentication:
//! bind it to an address that only the monitoring reaches.

mod boards;
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use prometheus::core::{Collector, Desc};
use prometheus::proto;
use prometheus::{Encoder, Registry, TextEncoder};
use tokio::sync::oneshot;

pub use boards::of_boards;
pub use run::of_run;

/// What a number means to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// One number. Those of equal name are one family and differ in their labels.
pub struct Metric {
    /// Name with its unit, as `hopeval_questions_admitted_total` or `hopeval_queue_seconds`.
    pub name: String,
    /// One sentence.
    pub help: String,
    /// Counter or gauge; the same in the whole family.
    pub kind: MetricKind,
    /// Names and values of labels; the same names in the whole family.
    pub labels: Vec<(String, String)>,
    /// Reads the number, at each scrape; must not block.
    pub read: Box<dyn Fn() -> f64 + Send + Sync>,
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

    /// The same with one more label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.push((name.to_owned(), value.to_owned()));
        self
    }

    fn new(name: &str, help: &str, kind: MetricKind, read: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), help: help.to_owned(), kind, labels: Vec::new(), read: Box::new(read) }
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
        /// What the system said.
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
        /// What is wrong.
        #[source]
        source: prometheus::Error,
    },
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Serves `metrics` on `address`; port 0 takes any free port.
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn serve(address: SocketAddr, metrics: Vec<Metric>) -> Result<Self, MetricsError> {
        let registry = registry(metrics)?;
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let (bound, listener) = bind().map_err(|source| MetricsError::Bind { address, source })?;
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
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

fn registry(metrics: Vec<Metric>) -> Result<Registry, MetricsError> {
    let mut families: BTreeMap<String, Vec<Metric>> = BTreeMap::new();
    for metric in metrics {
        families.entry(metric.name.clone()).or_default().push(metric);
    }
    let registry = Registry::new();
    for (name, metrics) in families {
        let malformed = |source| MetricsError::Malformed { name: name.clone(), source };
        let family = Family::new(&name, metrics).map_err(malformed)?;
        registry.register(Box::new(family)).map_err(malformed)?;
    }
    Ok(registry)
}

/// Metrics of one name, as the registry collects them.
struct Family {
    descriptions: Vec<Desc>,
    metrics: Arc<[Metric]>,
}

impl Family {
    fn new(name: &str, metrics: Vec<Metric>) -> prometheus::Result<Self> {
        let wrong = |what: &str| Err(prometheus::Error::Msg(what.to_owned()));
        let mut descriptions = Vec::new();
        for metric in &metrics {
            if metric.kind != metrics[0].kind {
                return wrong("a family is either of counters or of gauges");
            }
            if (metric.kind == MetricKind::Counter) != name.ends_with("_total") {
                return wrong("names of counters, and only they, end in _total");
            }
            // The registry refuses equal label values and differing label names or helps.
            let labels = metric.labels.iter().cloned().collect();
            descriptions.push(Desc::new(name.to_owned(), metric.help.clone(), Vec::new(), labels)?);
        }
        Ok(Self { descriptions, metrics: metrics.into() })
    }
}

impl Collector for Family {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let mut family = proto::MetricFamily::default();
        for metric in self.metrics.iter() {
            let mut sample = proto::Metric::default();
            let labels = metric.labels.iter().map(|(name, value)| {
                let mut pair = proto::LabelPair::default();
                pair.set_name(name.clone());
                pair.set_value(value.clone());
                pair
            });
            sample.set_label(labels.collect());
            family.set_name(metric.name.clone());
            family.set_help(metric.help.clone());
            match metric.kind {
                MetricKind::Counter => {
                    family.set_field_type(proto::MetricType::COUNTER);
                    let mut counter = proto::Counter::default();
                    counter.set_value((metric.read)());
                    sample.set_counter(counter);
                }
                MetricKind::Gauge => {
                    family.set_field_type(proto::MetricType::GAUGE);
                    let mut gauge = proto::Gauge::default();
                    gauge.set_value((metric.read)());
                    sample.set_gauge(gauge);
                }
            }
            family.mut_metric().push(sample);
        }
        vec![family]
    }
}

#[cfg(test)]
mod tests;
