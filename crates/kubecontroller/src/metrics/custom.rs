//! Figures that a controller counts beside those that all controllers have.

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

/// A desc of a controller: its name, and what it is of. It has a value for each combination of labels; whoever declares one
/// sees to it that those are few.
///
/// ```
/// use kubecontroller::metrics::{self, MetricDesc, Metrics};
/// use prometheus_client::registry::Registry;
///
/// const BAKED: MetricDesc = MetricDesc::counter("bakery_loaves_total", "Loaves that were baked", &["kind"]);
///
/// let mut registry = Registry::default();
/// let metrics = Metrics::new(&mut registry);
/// metrics.count(&BAKED, &["rye"], 2);
/// assert!(metrics::encode_text(&registry).contains(r#"bakery_loaves_total{kind="rye"} 2"#));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MetricDesc {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Level,
    /// The upper ends of its buckets, in rising order.
    Spread(&'static [f64]),
}

/// All metrics that something was told of, by name.
#[derive(Default)]
pub(super) struct CustomMetrics {
    families: Mutex<BTreeMap<&'static str, Family>>,
}

struct Family {
    desc: MetricDesc,
    /// By the values of the labels. They are few: looking through them costs less than keeping them in order.
    samples: Vec<(Box<[Box<str>]>, Sample)>,
}

enum Sample {
    Counter(u64),
    Level(f64),
    Spread {
        /// One more than there are bounds: what is above all of them.
        buckets: Vec<(f64, u64)>,
        sum: f64,
    },
}

/// Bounds of buckets, each so many times the one before.
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
    /// Something that is counted.
    pub const fn counter(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        MetricDesc {
            name,
            help,
            labels,
            kind: Kind::Counter,
        }
    }

    /// Something that rises and falls.
    pub const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        MetricDesc {
            name,
            help,
            labels,
            kind: Kind::Level,
        }
    }

    /// Times or amounts, counted by how long or large they are.
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
            kind: Kind::Spread(bounds),
        }
    }
}

// --- Metrics ---

impl Metrics {
    /// Counts a desc up.
    pub fn increment(&self, desc: &MetricDesc, labels: &[&str], more: u64) {
        self.own().change(desc, labels, |sample| {
            if let Sample::Counter(count) = sample {
                *count += more;
            }
        });
    }

    /// Says how high a desc is now.
    pub fn set_gauge(&self, desc: &MetricDesc, labels: &[&str], now: f64) {
        self.own().change(desc, labels, |sample| {
            if let Sample::Level(level) = sample {
                *level = now;
            }
        });
    }

    /// Counts a time in seconds, or an amount.
    pub fn observe(&self, desc: &MetricDesc, labels: &[&str], amount: f64) {
        self.own().change(desc, labels, |sample| {
            if let Sample::Spread { buckets, sum } = sample {
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
    fn change(&self, desc: &MetricDesc, labels: &[&str], change: impl FnOnce(&mut Sample)) {
        debug_assert_eq!(labels.len(), desc.labels.len(), "the labels of {}", desc.name);
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let family = families.entry(desc.name).or_insert_with(|| Family {
            desc: *desc,
            samples: Vec::new(),
        });
        let samples = &mut family.samples;
        let is_it = |(known, _): &(Box<[Box<str>]>, Sample)| {
            known.iter().map(|value| &**value).eq(labels.iter().copied())
        };
        let at = samples.iter().position(is_it).unwrap_or_else(|| {
            let labels = labels.iter().copied().map(Box::from).collect();
            samples.push((labels, Sample::new(desc.kind)));
            samples.len() - 1
        });
        change(&mut samples[at].1);
    }

    pub(super) fn show(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        for Family { desc, samples } in families.values() {
            // The library adds the ending of counters itself. A few of upstream's have none.
            let (name, kind) = match (desc.kind, desc.name.strip_suffix("_total")) {
                (Kind::Counter, Some(name)) => (name, MetricType::Counter),
                (Kind::Counter, None) => (desc.name, MetricType::Unknown),
                (Kind::Level, _) => (desc.name, MetricType::Gauge),
                (Kind::Spread(_), _) => (desc.name, MetricType::Histogram),
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

// --- Sample ---

impl Sample {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Counter => Sample::Counter(0),
            Kind::Level => Sample::Level(0.0),
            Kind::Spread(bounds) => Sample::Spread {
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
            Sample::Counter(count) if matches!(kind, MetricType::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(count, None)
            }
            Sample::Counter(count) => encoder.encode_gauge(count),
            Sample::Level(level) => encoder.encode_gauge(level),
            Sample::Spread { buckets, sum } => {
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
    const WAITING: MetricDesc = MetricDesc::gauge("waiting", "Who waits", &["queue"]);
    const TOOK: MetricDesc = MetricDesc::histogram(
        "took_seconds",
        "How long",
        &["result"],
        &exponential_buckets::<3>(0.5, 2.0),
    );

    #[test]
    fn figures_of_a_controller_are_shown_by_name_and_labels() {
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
        let encode_text = encode_text(&registry);
        let lines: Vec<_> = encode_text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
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
        assert!(encode_text.contains("# TYPE job_syncs_total counter"));
        assert!(encode_text.contains("# TYPE took_seconds histogram"));
    }
}
