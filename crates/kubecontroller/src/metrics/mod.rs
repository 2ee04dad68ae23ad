//! Metrics of controllers, work queues, informers, leader election and state machines.
//!
//! Guarantees:
//! - Names and labels are those of client-go's `workqueue`, `reflector` and `leader_election` metrics and of
//!   controller-runtime. Label values are names of controllers, informers and leases, so the number of series does not depend
//!   on the number of objects.
//! - A worker writes only to memory that no other worker writes. The depth and the running keys of a queue are read when
//!   metrics are scraped.
//! - Counters survive the restart of a controller.
//! - A controller can declare its own metrics as [`MetricDesc`]s.
//!
//! ```
//! use kubecontroller::metrics::Metrics;
//!
//! let metrics = Metrics::default();
//! metrics.record_restart("web");
//! assert!(metrics.text().contains(r#"controller_restarts_total{controller="web"} 1"#));
//! ```

mod buckets;
mod controller;
mod custom;
mod informer;
mod named;

use std::{collections::BTreeMap, fmt, hash::Hash, sync::Arc};

use k3_metrics::ExpositionText;
use parking_lot::{Mutex, MutexGuard};

use self::controller::QueueCounts;
pub(crate) use self::controller::{ControllerMetrics, ReconcileResult, WorkerMetrics};
pub use self::{
    custom::{MetricDesc, exponential_buckets},
    informer::InformerMetrics,
};
use crate::workqueue::WorkQueue;

/// What a process is to a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRole {
    /// It holds the lease.
    Leader,
    /// It does not.
    Candidate,
}

/// The metrics of a program. Clones share them.
#[derive(Clone, Default)]
pub struct Metrics {
    shared: Arc<SharedMetrics>,
}

#[derive(Default)]
struct SharedMetrics {
    names: Mutex<NamedMetrics>,
    own: custom::CustomMetrics,
}

/// All metrics by the name of their controller, queue, informer or lease.
#[derive(Default)]
struct NamedMetrics {
    controllers: BTreeMap<String, Arc<ControllerMetrics>>,
    queues: BTreeMap<String, QueueCounts>,
    informers: BTreeMap<String, InformerMetrics>,
    leaders: BTreeMap<String, bool>,
}

// --- Metrics ---

impl Metrics {
    /// All metrics in Prometheus' text format, version 0.0.4, which every scraper reads.
    pub fn text(&self) -> String {
        let mut out = ExpositionText::default();
        self.names().write(&mut out);
        self.own().write(&mut out);
        out.finish()
    }

    /// Registers the metrics of a queue. A new queue with the same name replaces the old one but continues its counters.
    pub fn register_workqueue<K: Clone + Eq + Hash + Send + 'static>(
        &self,
        name: &str,
        queue: &WorkQueue<K>,
    ) {
        let mut names = self.names();
        names.queues.entry(name.to_owned()).or_default().follow(queue);
    }

    /// Counts the restart of a controller or another runnable.
    pub fn record_restart(&self, controller: &str) {
        self.controller(controller).restarted();
    }

    /// Sets whether this process holds a lease.
    pub fn set_leader(&self, lease: &str, role: LeaseRole) {
        let is_leader = role == LeaseRole::Leader;
        self.names().leaders.insert(lease.to_owned(), is_leader);
    }

    /// The metrics of the informer with this name.
    pub fn informer(&self, name: &str) -> InformerMetrics {
        self.names().informers.entry(name.to_owned()).or_default().clone()
    }

    /// The metrics of the controller with this name.
    pub(crate) fn controller(&self, name: &str) -> Arc<ControllerMetrics> {
        let mut names = self.names();
        Arc::clone(names.controllers.entry(name.to_owned()).or_default())
    }

    fn own(&self) -> &custom::CustomMetrics {
        &self.shared.own
    }

    fn names(&self) -> MutexGuard<'_, NamedMetrics> {
        self.shared.names.lock()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names();
        f.debug_struct("Metrics")
            .field("controllers", &names.controllers.keys())
            .field("queues", &names.queues.keys())
            .field("informers", &names.informers.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::{LeaseRole, Metrics, ReconcileResult};
    use crate::workqueue::{WorkQueue, WorkQueueOptions};

    fn assert_lines(metrics: &Metrics, lines: &[&str]) {
        let text = metrics.text();
        for line in lines {
            assert!(
                text.lines().any(|known| known == *line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn queue_metrics_have_upstream_names() {
        let metrics = Metrics::default();
        let queue = WorkQueue::new(WorkQueueOptions::default());
        metrics.register_workqueue("web", &queue);
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
        let [first, second] = [queue.try_next(), queue.try_next()].map(Option::unwrap);
        advance(Duration::from_secs(2)).await;
        assert_lines(
            &metrics,
            &[
                "# TYPE workqueue_depth gauge",
                r#"workqueue_depth{name="web"} 1"#,
                "# HELP workqueue_adds_total Total number of adds handled by workqueue",
                "# TYPE workqueue_adds_total counter",
                r#"workqueue_adds_total{name="web"} 3"#,
                r#"workqueue_unfinished_work_seconds{name="web"} 4"#,
                r#"workqueue_longest_running_processor_seconds{name="web"} 2"#,
                r#"workqueue_retries_total{name="web"} 0"#,
                r#"controller_workqueue_depth{controller="web"} 1"#,
                r#"controller_workqueue_adds_total{controller="web"} 3"#,
                r#"controller_workqueue_retries_total{controller="web"} 0"#,
                r#"controller_runtime_active_workers{controller="web"} 2"#,
            ],
        );
        first.fail();
        second.done();
        assert_lines(
            &metrics,
            &[
                r#"workqueue_retries_total{name="web"} 1"#,
                r#"controller_workqueue_retries_total{controller="web"} 1"#,
                r#"workqueue_unfinished_work_seconds{name="web"} 0"#,
            ],
        );
    }

    #[tokio::test(start_paused = true)]
    async fn counters_survive_restart_of_controller() {
        let metrics = Metrics::default();
        for _ in 0..2 {
            let queue = WorkQueue::new(WorkQueueOptions::default());
            metrics.register_workqueue("web", &queue);
            queue.add("a");
            queue.add("b");
        }
        metrics.record_restart("web");
        assert_lines(
            &metrics,
            &[
                r#"workqueue_adds_total{name="web"} 4"#,
                r#"workqueue_depth{name="web"} 2"#,
                r#"controller_restarts_total{controller="web"} 1"#,
            ],
        );
    }

    #[test]
    fn counts_reconciles_by_result_and_duration() {
        let metrics = Metrics::default();
        let controller = metrics.controller("web");
        controller.set_max_concurrent(3);
        let waited = Duration::from_micros(5);
        for (number, result) in [
            ReconcileResult::Success,
            ReconcileResult::Success,
            ReconcileResult::Error,
        ]
        .into_iter()
        .enumerate()
        {
            let took = Duration::from_millis(5 + number as u64);
            controller.worker(number % 2).reconciled(result, waited, took);
        }
        controller.error();
        controller.permanent();
        assert_lines(
            &metrics,
            &[
                r#"controller_runtime_reconcile_total{controller="web",result="success"} 2"#,
                r#"controller_runtime_reconcile_total{controller="web",result="error"} 1"#,
                r#"controller_runtime_reconcile_total{controller="web",result="requeue"} 0"#,
                r#"controller_runtime_reconcile_total{controller="web",result="requeue_after"} 0"#,
                r#"controller_runtime_reconcile_errors_total{controller="web"} 1"#,
                r#"controller_reconcile_errors_total{controller="web"} 1"#,
                r#"controller_runtime_terminal_reconcile_errors_total{controller="web"} 1"#,
                r#"controller_runtime_reconcile_panics_total{controller="web"} 0"#,
                r#"controller_runtime_reconcile_timeouts_total{controller="web"} 0"#,
                r#"controller_runtime_max_concurrent_reconciles{controller="web"} 3"#,
                "# TYPE controller_runtime_reconcile_time_seconds histogram",
                r#"controller_runtime_reconcile_time_seconds_bucket{controller="web",le="0.005"} 1"#,
                r#"controller_runtime_reconcile_time_seconds_bucket{controller="web",le="0.01"} 3"#,
                r#"controller_runtime_reconcile_time_seconds_bucket{controller="web",le="60"} 3"#,
                r#"controller_runtime_reconcile_time_seconds_bucket{controller="web",le="+Inf"} 3"#,
                r#"controller_runtime_reconcile_time_seconds_count{controller="web"} 3"#,
                r#"controller_reconcile_time_seconds_count{controller="web"} 3"#,
                r#"workqueue_queue_duration_seconds_bucket{name="web",le="1e-08"} 0"#,
                r#"workqueue_queue_duration_seconds_bucket{name="web",le="1e-05"} 3"#,
                r#"workqueue_work_duration_seconds_count{name="web"} 3"#,
            ],
        );
    }

    #[test]
    fn exports_informer_and_leader_metrics() {
        let metrics = Metrics::default();
        assert_eq!(metrics.text(), "");
        let pods = metrics.informer("pods");
        pods.listed(Duration::from_millis(20));
        pods.watched();
        pods.event();
        pods.failed();
        pods.objects(7);
        pods.version(42);
        pods.synced(true);
        metrics.set_leader("manager", LeaseRole::Leader);
        assert_lines(
            &metrics,
            &[
                r#"reflector_lists_total{name="pods"} 1"#,
                r#"reflector_list_duration_seconds_bucket{name="pods",le="0.1"} 1"#,
                r#"reflector_watches_total{name="pods"} 1"#,
                r#"reflector_last_resource_version{name="pods"} 42"#,
                r#"informer_events_total{name="pods"} 1"#,
                r#"informer_failures_total{name="pods"} 1"#,
                r#"informer_objects{name="pods"} 7"#,
                r#"informer_synced{name="pods"} 1"#,
                r#"leader_election_master_status{name="manager"} 1"#,
            ],
        );
        metrics.set_leader("manager", LeaseRole::Candidate);
        assert_lines(&metrics, &[r#"leader_election_master_status{name="manager"} 0"#]);
    }
}
