//! Families of metrics, for Prometheus's registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::{Registry, proto};

use super::{HistogramReading, Metric, MetricKind, MetricReader, MetricsError};

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
                return wrong("a family is of counters, of gauges or of histograms");
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
            let field_type = match (&metric.read, metric.kind) {
                (MetricReader::Number(read), MetricKind::Counter) => {
                    let mut counter = proto::Counter::default();
                    counter.set_value(read());
                    sample.set_counter(counter);
                    proto::MetricType::COUNTER
                }
                (MetricReader::Number(read), _) => {
                    let mut gauge = proto::Gauge::default();
                    gauge.set_value(read());
                    sample.set_gauge(gauge);
                    proto::MetricType::GAUGE
                }
                (MetricReader::Histogram(read), _) => {
                    sample.set_histogram(to_histogram(read()));
                    proto::MetricType::HISTOGRAM
                }
            };
            family.set_field_type(field_type);
            family.mut_metric().push(sample);
        }
        vec![family]
    }
}

fn to_histogram(reading: HistogramReading) -> proto::Histogram {
    let mut histogram = proto::Histogram::default();
    histogram.set_sample_count(reading.count);
    histogram.set_sample_sum(reading.sum);
    let buckets = reading.buckets.into_iter().map(|(end, count)| {
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(end);
        bucket.set_cumulative_count(count);
        bucket
    });
    histogram.set_bucket(buckets.collect());
    histogram
}
