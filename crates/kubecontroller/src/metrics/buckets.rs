//! The buckets of the histograms.

use k3_metrics::HistogramBuckets;

/// Buckets of controller-runtime's workqueue metrics: powers of ten from 10 ns to 1000 s.
pub(super) const WORKQUEUE_BUCKETS: HistogramBuckets = HistogramBuckets::seconds(&[
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0,
]);

/// Buckets of controller-runtime's `controller_runtime_reconcile_time_seconds`: from 5 ms to 60 s.
pub(super) const RECONCILE_BUCKETS: HistogramBuckets = HistogramBuckets::seconds(&[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
]);
