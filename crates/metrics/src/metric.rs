//! Metric types: counter, gauge, histogram. Counting is one or two atomic additions without a lock.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::text::ExpositionText;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// A gauge.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

/// How many observations were how large.
#[derive(Debug)]
pub struct Histogram {
    scale: &'static HistogramBuckets,
    /// How many were at most as large as the bound at the same place and larger than the one before; the last: larger than all.
    counts: Box<[AtomicU64]>,
    /// Of all observations, in the smallest unit. Nanoseconds overflow after 500 years.
    sum: AtomicU64,
}

/// The counts of one or more histograms with the same buckets, at a point in time.
#[derive(Clone, Debug)]
pub struct HistogramSnapshot {
    scale: &'static HistogramBuckets,
    counts: Vec<u64>,
    sum: u64,
}

/// What a histogram measures in.
#[derive(Debug)]
pub struct HistogramBuckets {
    /// How many of the smallest unit are one of the reported unit.
    scale: f64,
    /// The upper ends of the buckets, ascending.
    bounds: &'static [f64],
}

// --- Counter ---

impl Counter {
    /// One more.
    pub fn count(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

// --- Gauge ---

impl Gauge {
    /// Adds, or takes away. Gives what it was.
    pub fn add(&self, more: i64) -> i64 {
        self.0.fetch_add(more, Relaxed)
    }

    /// How many there are.
    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

// --- HistogramBuckets ---

impl HistogramBuckets {
    /// Durations, counted in nanoseconds and reported in seconds.
    pub const fn seconds(bounds: &'static [f64]) -> Self {
        HistogramBuckets { scale: 1e9, bounds }
    }

    /// Numbers, such as bytes.
    pub const fn numbers(bounds: &'static [f64]) -> Self {
        HistogramBuckets { scale: 1.0, bounds }
    }

    // Divided, not multiplied by a fraction: ten nanoseconds then are exactly the bound 1e-8.
    #[expect(clippy::cast_precision_loss, reason = "a sum is reported with fifteen digits")]
    fn reported(&self, amount: u64) -> f64 {
        amount as f64 / self.scale
    }
}

// --- Histogram ---

impl Histogram {
    /// Without observations. The bounds of the buckets ascend.
    pub fn new(scale: &'static HistogramBuckets) -> Self {
        Histogram {
            scale,
            counts: (0..=scale.bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Something took this long.
    pub fn took(&self, time: Duration) {
        self.observe(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Something was this large, in the smallest unit.
    pub fn observe(&self, amount: u64) {
        let value = self.scale.reported(amount);
        let position = self.scale.bounds.partition_point(|bound| *bound < value);
        self.counts[position].fetch_add(1, Relaxed);
        self.sum.fetch_add(amount, Relaxed);
    }

    /// Writes the series of a histogram, with the buckets from this one up; the smaller ones are in it.
    pub fn write(&self, out: &mut ExpositionText, name: &str, labels: &[(&str, &str)], first: usize) {
        HistogramSnapshot::new(self.scale, [self]).write(out, name, labels, first);
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Relaxed) == 0)
    }
}

// --- HistogramSnapshot ---

impl HistogramSnapshot {
    /// The sum of histograms with these buckets.
    pub fn new<'h>(
        scale: &'static HistogramBuckets,
        histograms: impl IntoIterator<Item = &'h Histogram>,
    ) -> Self {
        let mut counts = vec![0; scale.bounds.len() + 1];
        let mut sum = 0_u64;
        for histogram in histograms {
            for (count, more) in counts.iter_mut().zip(&histogram.counts) {
                *count += more.load(Relaxed);
            }
            sum = sum.wrapping_add(histogram.sum.load(Relaxed));
        }
        HistogramSnapshot { scale, counts, sum }
    }

    /// Writes the series, with the buckets from this one up; the smaller ones are in it.
    pub fn write(&self, out: &mut ExpositionText, name: &str, labels: &[(&str, &str)], first: usize) {
        let bounds = self.scale.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets = bounds.zip(self.counts.iter().copied());
        out.histogram(name, labels, first, buckets, self.scale.reported(self.sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: HistogramBuckets = HistogramBuckets::seconds(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5]);

    #[test]
    fn histogram_buckets_are_inclusive() {
        let histogram = Histogram::new(&STEPS);
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
    fn snapshot_adds_histograms_and_bounds_are_exact() {
        const NANOSECONDS: HistogramBuckets = HistogramBuckets::seconds(&[1e-8, 1e-7]);
        let [first, second] = [Histogram::new(&NANOSECONDS), Histogram::new(&NANOSECONDS)];
        for nanos in [0, 10, 11, 100] {
            first.took(Duration::from_nanos(nanos));
        }
        second.took(Duration::from_mins(50));
        let snapshot = HistogramSnapshot::new(&NANOSECONDS, [&first, &second]);
        assert_eq!(snapshot.counts, [2, 2, 1]);
        assert_eq!(snapshot.sum, 3_000_000_000_121);
    }
}
