//! Metrics that a controller declares itself.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
};

use prometheus_client::{
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::Metrics;

/// The description of a metric: name, help and labels. A metric has one series per combination of label values; keep their
/// number small.
///
/// ```
/// use kubecontroller::metrics::{self, MetricDesc, Metrics};
/// use prometheus_client::registry::Registry;
///
/// const BAKED: MetricDesc = MetricDesc::counter("bakery_loaves_total", "Loaves that were baked", &["kind"]);
///
/// let mut registry = Registry::default();
/// let metrics = Metrics::new(&mut registry);
/// metrics.increment(&BAKED, &["rye"], 2);
/// assert!(metrics::encode_text(&registry).contains(r#"bakery_loaves_total{kind="rye"} 2"#));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MetricDesc {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    kind: MetricKind,
}

#[derive(Clone, Copy, Debug)]
enum MetricKind {
    Counter,
    Gauge,
    /// The upper bounds of the buckets, in ascending order.
    Histogram(&'static [f64]),
}

/// The values of all declared metrics, by name.
#[derive(Default)]
pub(super) struct CustomMetrics {
    metrics: Mutex<BTreeMap<&'static str, DeclaredMetric>>,
}

struct DeclaredMetric {
    desc: MetricDesc,
    /// By label values. There are few series per metric, so a linear search is cheaper than a map.
    samples: Vec<(Box<[Box<str>]>, MetricValue)>,
}

enum MetricValue {
    Counter(u64),
    Gauge(f64),
    Histogram {
        /// The last bucket counts values above all bounds.
        buckets: Vec<(f64, u64)>,
        sum: f64,
    },
}

/// Bucket bounds that grow exponentially.
pub const fn exponential_buckets<const N: usize>(first: f64, factor: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut at = 1;
    while at < N {
        bounds[at] = bounds[at - 1] * factor;
        at += 1;
    }
    bounds
}

// --- MetricDesc ---

impl MetricDesc {
    /// A counter.
    pub const fn counter(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        MetricDesc {
            name,
            help,
            labels,
            kind: MetricKind::Counter,
        }
    }

    /// A gauge.
    pub const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        MetricDesc {
            name,
            help,
            labels,
            kind: MetricKind::Gauge,
        }
    }

    /// A histogram with the given upper bounds.
    pub const fn histogram(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
    ) -> Self {
        MetricDesc {
            name,
            help,
            labels,
            kind: MetricKind::Histogram(bounds),
        }
    }
}

// --- Metrics ---

impl Metrics {
    /// Adds to a counter.
    pub fn increment(&self, desc: &MetricDesc, labels: &[&str], more: u64) {
        self.own().change(desc, labels, |sample| {
            if let MetricValue::Counter(count) = sample {
                *count += more;
            }
        });
    }

    /// Sets a gauge.
    pub fn set_gauge(&self, desc: &MetricDesc, labels: &[&str], now: f64) {
        self.own().change(desc, labels, |sample| {
            if let MetricValue::Gauge(level) = sample {
                *level = now;
            }
        });
    }

    /// Adds an observation to a histogram.
    pub fn observe(&self, desc: &MetricDesc, labels: &[&str], amount: f64) {
        self.own().change(desc, labels, |sample| {
            if let MetricValue::Histogram { buckets, sum } = sample {
                let at = buckets.partition_point(|(bound, _)| *bound < amount);
                if let Some((_, count)) = buckets.get_mut(at) {
                    *count += 1;
                }
                *sum += amount;
            }
        });
    }
}

// --- CustomMetrics ---

impl CustomMetrics {
    fn change(&self, desc: &MetricDesc, labels: &[&str], change: impl FnOnce(&mut MetricValue)) {
        debug_assert_eq!(labels.len(), desc.labels.len(), "the labels of {}", desc.name);
        let mut metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let metric = metrics.entry(desc.name).or_insert_with(|| DeclaredMetric {
            desc: *desc,
            samples: Vec::new(),
        });
        let samples = &mut metric.samples;
        let is_it = |(known, _): &(Box<[Box<str>]>, MetricValue)| {
            known.iter().map(|value| &**value).eq(labels.iter().copied())
        };
        let at = samples.iter().position(is_it).unwrap_or_else(|| {
            let labels = labels.iter().copied().map(Box::from).collect();
            samples.push((labels, MetricValue::new(desc.kind)));
            samples.len() - 1
        });
        change(&mut samples[at].1);
    }

    pub(super) fn encode_metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        for DeclaredMetric { desc, samples } in metrics.values() {
            // The library appends `_total` to counters. Upstream has a few counters without it, exported as untyped.
            let (name, kind) = match (desc.kind, desc.name.strip_suffix("_total")) {
                (MetricKind::Counter, Some(name)) => (name, MetricType::Counter),
                (MetricKind::Counter, None) => (desc.name, MetricType::Unknown),
                (MetricKind::Gauge, _) => (desc.name, MetricType::Gauge),
                (MetricKind::Histogram(_), _) => (desc.name, MetricType::Histogram),
            };
            let mut shown = encoder.encode_descriptor(name, desc.help, None, kind)?;
            let mut samples: Vec<_> = samples.iter().collect();
            samples.sort_by(|(left, _), (right, _)| left.cmp(right));
            for (values, sample) in samples {
                if values.is_empty() {
                    sample.encode(kind, &mut shown)?;
                    continue;
                }
                let labels: Vec<_> = desc
                    .labels
                    .iter()
                    .copied()
                    .zip(values.iter().map(|value| &**value))
                    .collect();
                sample.encode(kind, &mut shown.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

// --- MetricValue ---

impl MetricValue {
    fn new(kind: MetricKind) -> Self {
        match kind {
            MetricKind::Counter => MetricValue::Counter(0),
            MetricKind::Gauge => MetricValue::Gauge(0.0),
            MetricKind::Histogram(bounds) => MetricValue::Histogram {
                buckets: bounds
                    .iter()
                    .copied()
                    .chain([f64::INFINITY])
                    .map(|bound| (bound, 0))
                    .collect(),
                sum: 0.0,
            },
        }
    }

    fn encode(&self, kind: MetricType, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            MetricValue::Counter(count) if matches!(kind, MetricType::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(count, None)
            }
            MetricValue::Counter(count) => encoder.encode_gauge(count),
            MetricValue::Gauge(level) => encoder.encode_gauge(level),
            MetricValue::Histogram { buckets, sum } => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::encode_text;

    const SYNCS: MetricDesc =
        MetricDesc::counter("job_syncs_total", "The number of syncs", &["mode", "result"]);
    const CHANGES: MetricDesc = MetricDesc::counter("changes", "Changes", &[]);
    const WAITING: MetricDesc = MetricDesc::gauge("waiting", "Number of waiting jobs", &["queue"]);
    const TOOK: MetricDesc = MetricDesc::histogram(
        "took_seconds",
        "Duration of a sync in seconds",
        &["result"],
        &exponential_buckets::<3>(0.5, 2.0),
    );

    #[test]
    fn exports_declared_metrics_by_name_and_labels() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        metrics.increment(&SYNCS, &["b", "ok"], 1);
        metrics.increment(&SYNCS, &["a", "ok"], 2);
        metrics.clone().increment(&SYNCS, &["b", "ok"], 4);
        metrics.increment(&CHANGES, &[], 3);
        metrics.set_gauge(&WAITING, &["active"], 7.0);
        metrics.set_gauge(&WAITING, &["active"], 5.0);
        for amount in [0.5, 0.6, 9.0] {
            metrics.observe(&TOOK, &["ok"], amount);
        }
        let text = encode_text(&registry);
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "changes 3",
                r#"job_syncs_total{mode="a",result="ok"} 2"#,
                r#"job_syncs_total{mode="b",result="ok"} 5"#,
                r#"took_seconds_sum{result="ok"} 10.1"#,
                r#"took_seconds_count{result="ok"} 3"#,
                r#"took_seconds_bucket{result="ok",le="0.5"} 1"#,
                r#"took_seconds_bucket{result="ok",le="1"} 2"#,
                r#"took_seconds_bucket{result="ok",le="2"} 2"#,
                r#"took_seconds_bucket{result="ok",le="+Inf"} 3"#,
                r#"waiting{queue="active"} 5.0"#,
            ]
        );
        assert!(text.contains("# TYPE job_syncs_total counter"));
        assert!(text.contains("# TYPE took_seconds histogram"));
    }
}
