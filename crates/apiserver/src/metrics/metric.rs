//! Metric types: counter, gauge, histogram. Counting is one or two atomic additions without a lock.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::text::ExpositionText;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

/// A gauge.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

/// How many observations were how large.
#[derive(Debug)]
pub(crate) struct Histogram {
    scale: &'static HistogramBuckets,
    /// How many were at most as large as the bound at the same place and larger than the one before; the last: larger than all.
    counts: Box<[AtomicU64]>,
    /// Of all observations, in the smallest unit.
    sum: AtomicU64,
}

/// What a histogram measures in.
#[derive(Debug)]
pub(crate) struct HistogramBuckets {
    /// The smallest unit, as a fraction of the reported unit.
    unit: f64,
    /// The upper ends of the buckets, ascending.
    bounds: &'static [f64],
}

/// Seconds, for whole requests.
pub(crate) const REQUEST_SECONDS: HistogramBuckets = HistogramBuckets::seconds(&[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
]);
/// Seconds, for steps of admission.
pub(crate) const STEP_SECONDS: HistogramBuckets =
    HistogramBuckets::seconds(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5]);
/// Bytes, for answers.
pub(crate) const ANSWER_BYTES: HistogramBuckets =
    HistogramBuckets::bytes(&[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]);
/// Bytes, for events.
pub(crate) const EVENT_BYTES: HistogramBuckets = HistogramBuckets::bytes(&[
    1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0,
]);

// --- Counter ---

impl Counter {
    /// One more.
    pub(crate) fn count(&self) {
        self.add(1);
    }

    /// So many more.
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// How many there were.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

// --- Gauge ---

impl Gauge {
    /// Adds, or takes away. Gives what it was.
    pub(crate) fn add(&self, more: i64) -> i64 {
        self.0.fetch_add(more, Relaxed)
    }

    /// How many there are.
    pub(crate) fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

// --- HistogramBuckets ---

impl HistogramBuckets {
    const fn seconds(bounds: &'static [f64]) -> Self {
        HistogramBuckets { unit: 1e-9, bounds }
    }

    const fn bytes(bounds: &'static [f64]) -> Self {
        HistogramBuckets { unit: 1.0, bounds }
    }
}

// --- Histogram ---

impl Histogram {
    pub(crate) fn new(scale: &'static HistogramBuckets) -> Self {
        Histogram {
            scale,
            counts: (0..=scale.bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Something took this long.
    pub(crate) fn took(&self, time: Duration) {
        self.observe(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Something was this large, in the smallest unit.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the bounds are far from the last digit"
    )]
    pub(crate) fn observe(&self, amount: u64) {
        let value = amount as f64 * self.scale.unit;
        let position = self.scale.bounds.iter().position(|bound| value <= *bound);
        self.counts[position.unwrap_or(self.scale.bounds.len())].fetch_add(1, Relaxed);
        self.sum.fetch_add(amount, Relaxed);
    }

    /// Writes the series of a histogram, with the buckets from this one up; the smaller ones are in it.
    #[expect(clippy::cast_precision_loss, reason = "a sum is reported with fifteen digits")]
    pub(crate) fn write(&self, out: &mut ExpositionText, name: &str, labels: &[(&str, &str)], first: usize) {
        let mut count = 0;
        for (position, counted) in self.counts.iter().enumerate() {
            count += counted.load(Relaxed);
            if position < first {
                continue;
            }
            let bound = self
                .scale
                .bounds
                .get(position)
                .map_or_else(|| "+Inf".to_owned(), |bound| bound_text(*bound));
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            out.sample(&format!("{name}_bucket"), &labels, count);
        }
        let sum = self.sum.load(Relaxed) as f64 * self.scale.unit;
        out.sample(&format!("{name}_sum"), labels, sum);
        out.sample(&format!("{name}_count"), labels, count);
    }

    /// Whether nothing was observed.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Relaxed) == 0)
    }
}

/// A bound as upstream writes it: millions with an exponent.
fn bound_text(bound: f64) -> String {
    if bound >= 1e6 {
        return format!("{bound:e}").replace('e', "e+0");
    }
    bound.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_buckets_are_inclusive() {
        let histogram = Histogram::new(&STEP_SECONDS);
        for millis in [5, 6, 90, 10_000] {
            histogram.took(Duration::from_millis(millis));
        }
        let mut out = ExpositionText::default();
        histogram.write(&mut out, "took", &[("type", "admit")], 0);
        let text = out.finish();
        for line in [
            "took_bucket{type=\"admit\",le=\"0.005\"} 1",
            "took_bucket{type=\"admit\",le=\"0.025\"} 2",
            "took_bucket{type=\"admit\",le=\"2.5\"} 3",
            "took_bucket{type=\"admit\",le=\"+Inf\"} 4",
            "took_count{type=\"admit\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    fn bounds_are_formatted_like_upstream() {
        assert_eq!(
            [0.005, 1.0, 1e5, 1e6, 1e9].map(bound_text),
            ["0.005", "1", "100000", "1e+06", "1e+09"]
        );
    }
}
