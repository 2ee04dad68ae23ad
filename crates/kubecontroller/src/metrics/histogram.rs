//! Histograms of durations.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// The upper bounds of buckets in nanoseconds, in ascending order.
pub(super) type BucketBounds = &'static [u64];

/// Buckets of controller-runtime's workqueue metrics: powers of ten from 10 ns to 1000 s.
pub(super) const WORKQUEUE_BUCKETS: BucketBounds = &[
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
    100_000_000_000,
    1_000_000_000_000,
];

/// Buckets of controller-runtime's `controller_runtime_reconcile_time_seconds`: from 5 ms to 60 s.
pub(super) const RECONCILE_BUCKETS: BucketBounds = &millis([
    5, 10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1_000, 1_250, 1_500,
    1_750, 2_000, 2_500, 3_000, 3_500, 4_000, 4_500, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000, 15_000,
    20_000, 25_000, 30_000, 40_000, 50_000, 60_000,
]);

/// A lock-free histogram: observers and readers do not block each other.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: BucketBounds,
    /// The counts per bucket; the last one is for durations above all bounds.
    counts: Box<[AtomicU64]>,
    /// The sum in nanoseconds, which overflows after 500 years.
    sum: AtomicU64,
}

/// The counts of histograms at a point in time.
pub(super) struct HistogramSnapshot {
    pub(super) sum: f64,
    pub(super) count: u64,
    /// The upper bound of each bucket in seconds, and its own count, which is not cumulative.
    pub(super) buckets: Vec<(f64, u64)>,
}

// --- Histogram ---

impl Histogram {
    pub(super) fn new(bounds: BucketBounds) -> Self {
        Histogram {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    pub(super) fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.bounds.partition_point(|bound| *bound < nanos);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(nanos, Relaxed);
    }

    /// Adds up histograms with the same bounds.
    pub(super) fn snapshot<'h>(
        bounds: BucketBounds,
        all: impl Iterator<Item = &'h Histogram>,
    ) -> HistogramSnapshot {
        let mut counts = vec![0; bounds.len() + 1];
        let mut sum = 0.0;
        for histogram in all {
            for (count, more) in counts.iter_mut().zip(&histogram.counts) {
                *count += more.load(Relaxed);
            }
            sum += Duration::from_nanos(histogram.sum.load(Relaxed)).as_secs_f64();
        }
        let seconds = bounds
            .iter()
            .map(|nanos| Duration::from_nanos(*nanos).as_secs_f64());
        HistogramSnapshot {
            sum,
            count: counts.iter().sum(),
            buckets: seconds.chain([f64::INFINITY]).zip(counts).collect(),
        }
    }
}

const fn millis<const N: usize>(mut bounds: [u64; N]) -> [u64; N] {
    let mut at = 0;
    while at < N {
        bounds[at] *= 1_000_000;
        at += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observation_counts_in_first_bucket_with_sufficient_bound() {
        let [first, second] = [
            Histogram::new(WORKQUEUE_BUCKETS),
            Histogram::new(WORKQUEUE_BUCKETS),
        ];
        for nanos in [0, 10, 11, 100] {
            first.observe(Duration::from_nanos(nanos));
        }
        second.observe(Duration::from_mins(50));
        let counted = Histogram::snapshot(WORKQUEUE_BUCKETS, [&first, &second].into_iter());
        let filled: Vec<_> = counted.buckets.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [&(1e-8, 2), &(1e-7, 2), &(f64::INFINITY, 1)]);
        assert_eq!(counted.count, 5);
        assert!((counted.sum - 3000.0).abs() < 0.001);
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [WORKQUEUE_BUCKETS, RECONCILE_BUCKETS] {
            assert!(bounds.is_sorted());
        }
    }
}
