//! What upstream costs, and how much less is asked of k3.
//!
//! kube-apiserver v1.37 with etcd 3.7 and the controllers, TLS, HTTP/1.1, 16 connections, two cores shared by
//! server and load. Where runs differed, the lower cost stands here.

use serde::Serialize;

use super::load::LoadResult;

/// An operation as upstream does it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Upstream {
    #[serde(skip)]
    operation: &'static str,
    pub(crate) cpu_s_per_1000: f64,
    pub(crate) per_second: f64,
    /// How many times less CPU time k3 is asked to take.
    pub(crate) asked: f64,
}

/// An operation as k3 does it, beside upstream.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OperationRow {
    pub(crate) operation: &'static str,
    pub(crate) operations: usize,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// How long an answer is; zero of watches.
    pub(crate) answer_bytes: usize,
    /// CPU time of the server.
    pub(crate) cpu_s_per_1000: f64,
    pub(crate) upstream: Upstream,
    /// How many times less CPU time than upstream; `None` if it was too little to be counted.
    pub(crate) cpu_ratio: Option<f64>,
    /// How many times as many per second.
    pub(crate) rate_ratio: f64,
    /// Whether the CPU time is as asked and every answer was right.
    pub(crate) met: bool,
    pub(crate) errors: usize,
    pub(crate) first_error: Option<String>,
}

/// A row: operation, CPU seconds per 1,000, per second, times less that are asked.
macro_rules! upstream {
    ($($operation:literal, $cpu:literal, $rate:literal, $asked:literal;)*) => {
        [$(Upstream { operation: $operation, cpu_s_per_1000: $cpu, per_second: $rate, asked: $asked }),*]
    };
}

/// In the order in which they are measured. The rates of whole lists come from megabytes per second.
pub(crate) const UPSTREAM: [Upstream; 18] = upstream![
    "create ConfigMap", 2.2, 580.0, 10.0;
    "create Pod", 5.2, 290.0, 10.0;
    "get ConfigMap", 0.87, 1700.0, 20.0;
    "get Pod", 1.0, 1570.0, 20.0;
    "list 10,000 ConfigMaps", 230.0, 3.3, 15.0;
    "list 5,000 Pods", 550.0, 1.6, 15.0;
    "list page of 500 Pods", 61.0, 14.0, 15.0;
    "list by label, 1 % of Pods", 13.0, 77.0, 10.0;
    "update ConfigMap", 2.3, 790.0, 10.0;
    "merge patch Pod status", 8.8, 217.0, 10.0;
    "apply ConfigMap, new", 2.8, 660.0, 10.0;
    "apply ConfigMap, change", 2.8, 660.0, 10.0;
    "apply Deployment, new", 17.0, 113.0, 10.0;
    "apply Deployment, change", 17.0, 113.0, 10.0;
    "delete ConfigMap", 2.2, 808.0, 10.0;
    "delete Pod", 8.2, 231.0, 10.0;
    "watch event, 100 watchers", 0.055, 28_000.0, 8.0;
    "watch event, 1,000 watchers", 0.020, 58_000.0, 4.0;
];

// --- OperationRow ---

impl OperationRow {
    /// Sets a measurement beside upstream's. The operation must be one of [`UPSTREAM`].
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(crate) fn new(operation: &'static str, measured: LoadResult) -> Self {
        let mut known = UPSTREAM.into_iter();
        let upstream = known
            .find(|upstream| upstream.operation == operation)
            .expect("each operation has its line in the table");
        let operations = measured.operations.max(1) as f64;
        let cpu_s_per_1000 = measured.cpu.as_secs_f64() * 1000.0 / operations;
        let per_second = measured.operations as f64 / measured.took.as_secs_f64();
        let is_right = measured.errors == 0 && measured.operations > 0;
        Self {
            operation,
            operations: measured.operations,
            per_second,
            p50_us: measured.latency.p50_us,
            p99_us: measured.latency.p99_us,
            answer_bytes: measured.bytes / measured.operations.max(1),
            cpu_s_per_1000,
            upstream,
            cpu_ratio: (cpu_s_per_1000 > 0.0).then(|| upstream.cpu_s_per_1000 / cpu_s_per_1000),
            rate_ratio: per_second / upstream.per_second,
            met: is_right && cpu_s_per_1000 * upstream.asked <= upstream.cpu_s_per_1000,
            errors: measured.errors,
            first_error: measured.first_error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::latency::Latencies;

    fn row(operations: usize, cpu_ms: u64, errors: usize) -> OperationRow {
        let measured = LoadResult {
            operations,
            took: Duration::from_secs(2),
            cpu: Duration::from_millis(cpu_ms),
            latency: Latencies::default().percentiles(),
            bytes: operations * 1300,
            errors,
            first_error: None,
        };
        OperationRow::new("create ConfigMap", measured)
    }

    fn is_close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn costs_are_set_beside_upstreams() {
        let row = row(5800, 1160, 0);
        assert!(is_close(row.cpu_s_per_1000, 0.2), "{row:?}");
        assert!(
            row.cpu_ratio.is_some_and(|ratio| is_close(ratio, 11.0)),
            "{row:?}"
        );
        assert!(is_close(row.per_second, 2900.0), "{row:?}");
        assert!(is_close(row.rate_ratio, 5.0), "{row:?}");
        assert_eq!(row.answer_bytes, 1300);
        assert!(row.met);
    }

    #[test]
    fn a_cost_above_what_is_asked_or_a_wrong_answer_misses() {
        assert!(!row(5800, 1300, 0).met);
        assert!(!row(5800, 1160, 1).met);
        assert!(!row(0, 0, 0).met);
    }
}
