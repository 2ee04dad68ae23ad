//! Metrics that a controller declares itself.

use std::collections::BTreeMap;

use k3_metrics::{ExpositionText, Number};
use parking_lot::{Mutex, MutexGuard};

use super::Metrics;

/// The description of a metric: name, help and labels. A metric has one series per combination of label values; keep their
/// number small.
///
/// ```
/// use kubecontroller::metrics::{MetricDesc, Metrics};
///
/// const BAKED: MetricDesc = MetricDesc::counter("bakery_loaves_total", "Loaves that were baked", &["kind"]);
///
/// let metrics = Metrics::default();
/// metrics.increment(&BAKED, &["rye"], 2);
/// assert!(metrics.text().contains(r#"bakery_loaves_total{kind="rye"} 2"#));
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

#[cfg(test)]
impl Metrics {
    /// The value of a counter.
    pub(crate) fn count(&self, desc: &MetricDesc, labels: &[&str]) -> u64 {
        self.own().count(desc, labels)
    }
}

// --- CustomMetrics ---

impl CustomMetrics {
    fn change(&self, desc: &MetricDesc, labels: &[&str], change: impl FnOnce(&mut MetricValue)) {
        debug_assert_eq!(labels.len(), desc.labels.len(), "the labels of {}", desc.name);
        let mut metrics = self.metrics();
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

    /// Writes all metrics that have a sample.
    pub(super) fn write(&self, out: &mut ExpositionText) {
        for DeclaredMetric { desc, samples } in self.metrics().values() {
            let kind = match desc.kind {
                MetricKind::Counter if desc.name.ends_with("_total") => "counter",
                // Upstream has a few counters without the suffix, which are exported as untyped.
                MetricKind::Counter => "untyped",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram(_) => "histogram",
            };
            out.metric_family(desc.name, kind, desc.help);
            let mut samples: Vec<_> = samples.iter().collect();
            samples.sort_by(|(left, _), (right, _)| left.cmp(right));
            for (values, sample) in samples {
                let values = values.iter().map(|value| &**value);
                let labels: Vec<_> = desc.labels.iter().copied().zip(values).collect();
                match sample {
                    MetricValue::Counter(count) => out.sample(desc.name, &labels, count),
                    MetricValue::Gauge(level) => out.sample(desc.name, &labels, Number(*level)),
                    MetricValue::Histogram { buckets, sum } => {
                        out.histogram(desc.name, &labels, 0, buckets.iter().copied(), *sum);
                    }
                }
            }
        }
    }

    #[cfg(test)]
    fn count(&self, desc: &MetricDesc, labels: &[&str]) -> u64 {
        let metrics = self.metrics();
        let samples = metrics
            .get(desc.name)
            .into_iter()
            .flat_map(|metric| &metric.samples);
        let mut counts = samples.filter_map(|(known, sample)| match sample {
            MetricValue::Counter(count) if known.iter().map(|value| &**value).eq(labels.iter().copied()) => {
                Some(*count)
            }
            _ => None,
        });
        counts.next().unwrap_or_default()
    }

    fn metrics(&self) -> MutexGuard<'_, BTreeMap<&'static str, DeclaredMetric>> {
        self.metrics.lock()
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let metrics = Metrics::default();
        metrics.increment(&SYNCS, &["b", "ok"], 1);
        metrics.increment(&SYNCS, &["a", "ok"], 2);
        metrics.clone().increment(&SYNCS, &["b", "ok"], 4);
        metrics.increment(&CHANGES, &[], 3);
        metrics.set_gauge(&WAITING, &["active"], 7.0);
        metrics.set_gauge(&WAITING, &["active"], 5.0);
        for amount in [0.5, 0.6, 9.0] {
            metrics.observe(&TOOK, &["ok"], amount);
        }
        let text = metrics.text();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "changes 3",
                r#"job_syncs_total{mode="a",result="ok"} 2"#,
                r#"job_syncs_total{mode="b",result="ok"} 5"#,
                r#"took_seconds_bucket{result="ok",le="0.5"} 1"#,
                r#"took_seconds_bucket{result="ok",le="1"} 2"#,
                r#"took_seconds_bucket{result="ok",le="2"} 2"#,
                r#"took_seconds_bucket{result="ok",le="+Inf"} 3"#,
                r#"took_seconds_sum{result="ok"} 10.1"#,
                r#"took_seconds_count{result="ok"} 3"#,
                r#"waiting{queue="active"} 5"#,
            ]
        );
        assert!(text.contains("# HELP changes Changes\n# TYPE changes untyped\n"));
        assert!(
            text.contains("# HELP job_syncs_total The number of syncs\n# TYPE job_syncs_total counter\n")
        );
        assert!(text.contains("# TYPE took_seconds histogram"));
    }
}
