//! The buckets of the histograms, as upstream has them.

use k3_metrics::HistogramBuckets;

/// Seconds, for whole requests.
pub(super) const REQUEST_SECONDS: HistogramBuckets = HistogramBuckets::seconds(&[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
]);
/// Seconds, for steps of admission.
pub(super) const STEP_SECONDS: HistogramBuckets =
    HistogramBuckets::seconds(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5]);
/// Bytes, for answers.
pub(super) const ANSWER_BYTES: HistogramBuckets =
    HistogramBuckets::numbers(&[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]);
/// Bytes, for events.
pub(super) const EVENT_BYTES: HistogramBuckets = HistogramBuckets::numbers(&[
    1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0,
]);
