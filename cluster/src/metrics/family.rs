//! Families of metrics, for Prometheus's registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::{Registry, proto};

use super::{Metric, MetricKind, MetricsError};

/// A registry of all families.
pub(super) fn build_registry(metrics: Vec<Metric>) -> Result<Registry, MetricsError> {
    let mut families: BTreeMap<String, Vec<Metric>> = BTreeMap::new();
    for metric in metrics {
        families.entry(metric.name.clone()).or_default().push(metric);
    }
    let registry = Registry::new();
    for (name, metrics) in families {
        let malformed = |source| MetricsError::Malformed { name: name.clone(), source };
        let family = MetricFamily::new(&name, metrics).map_err(malformed)?;
        registry.register(Box::new(family)).map_err(malformed)?;
    }
    Ok(registry)
}

/// Metrics of one name, for the registry.
struct MetricFamily {
    descriptions: Vec<Desc>,
    metrics: Arc<[Metric]>,
}

impl MetricFamily {
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

impl Collector for MetricFamily {
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
