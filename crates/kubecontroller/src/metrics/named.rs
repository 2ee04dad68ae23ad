//! Names and help texts of the metrics.

use std::time::Duration;

use k3_metrics::{ExpositionText, HistogramSnapshot, Number};

use super::{
    NamedMetrics,
    controller::{ControllerMetricsSnapshot, QueueSnapshot, ReconcileResult},
    informer,
};

/// A metric with one series per name.
struct NamedMetric<T> {
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> CollectedValue<'_>,
}

enum CollectedValue<'v> {
    Counter(u64),
    Number(i64),
    Seconds(Duration),
    Histogram(&'v HistogramSnapshot),
}

// --- the names ---

// upstream: staging/src/k8s.io/component-base/metrics/prometheus/workqueue/metrics.go prometheusMetricsProvider; same help texts
const WORKQUEUE_METRICS: &[NamedMetric<QueueSnapshot>] = &[
    NamedMetric {
        name: "workqueue_depth",
        help: "Current depth of workqueue",
        value: |queue| CollectedValue::count(queue.stats.depth),
    },
    NamedMetric {
        name: "workqueue_adds_total",
        help: "Total number of adds handled by workqueue",
        value: |queue| CollectedValue::Counter(queue.stats.adds),
    },
    NamedMetric {
        name: "workqueue_unfinished_work_seconds",
        help: "How many seconds of work has been done that is in progress and has not been observed by work_duration",
        value: |queue| CollectedValue::Seconds(queue.running.iter().sum()),
    },
    NamedMetric {
        name: "workqueue_longest_running_processor_seconds",
        help: "How many seconds has the longest running processor for workqueue been running",
        value: |queue| CollectedValue::Seconds(queue.running.iter().max().copied().unwrap_or_default()),
    },
    NamedMetric {
        name: "workqueue_retries_total",
        help: "Total number of retries handled by workqueue",
        value: |queue| CollectedValue::Counter(queue.stats.retries),
    },
];

/// The queue metrics with the label `controller`, and controller-runtime's number of active workers.
const CONTROLLER_QUEUE_METRICS: &[NamedMetric<QueueSnapshot>] = &[
    NamedMetric {
        name: "controller_workqueue_depth",
        help: "Number of keys that are ready and not being processed",
        value: |queue| CollectedValue::count(queue.stats.depth),
    },
    NamedMetric {
        name: "controller_workqueue_adds_total",
        help: "Number of times a key became ready",
        value: |queue| CollectedValue::Counter(queue.stats.adds),
    },
    NamedMetric {
        name: "controller_workqueue_retries_total",
        help: "Number of retries after a failure",
        value: |queue| CollectedValue::Counter(queue.stats.retries),
    },
    NamedMetric {
        name: "controller_runtime_active_workers",
        help: "Number of currently used workers per controller",
        value: |queue| CollectedValue::count(queue.running.len()),
    },
];

const WORKQUEUE_DURATION_METRICS: &[NamedMetric<ControllerMetricsSnapshot>] = &[
    NamedMetric {
        name: "workqueue_queue_duration_seconds",
        help: "How long in seconds an item stays in workqueue before being requested",
        value: |shown| CollectedValue::Histogram(&shown.waited),
    },
    NamedMetric {
        name: "workqueue_work_duration_seconds",
        help: "How long in seconds processing an item from workqueue takes",
        value: |shown| CollectedValue::Histogram(&shown.worked),
    },
];

const CONTROLLER_METRICS: &[NamedMetric<ControllerMetricsSnapshot>] = &[
    NamedMetric {
        name: "controller_runtime_reconcile_errors_total",
        help: "Total number of reconciliation errors per controller",
        value: |shown| CollectedValue::Counter(shown.errors),
    },
    NamedMetric {
        name: "controller_runtime_terminal_reconcile_errors_total",
        help: "Total number of terminal reconciliation errors per controller",
        value: |shown| CollectedValue::Counter(shown.permanent),
    },
    NamedMetric {
        name: "controller_runtime_reconcile_panics_total",
        help: "Total number of reconciliation panics per controller",
        value: |shown| CollectedValue::Counter(shown.panics),
    },
    NamedMetric {
        name: "controller_runtime_reconcile_timeouts_total",
        help: "Total number of reconciliation timeouts per controller",
        value: |shown| CollectedValue::Counter(shown.timeouts),
    },
    NamedMetric {
        name: "controller_runtime_reconcile_time_seconds",
        help: "Length of time per reconciliation per controller",
        value: |shown| CollectedValue::Histogram(&shown.took),
    },
    NamedMetric {
        name: "controller_runtime_max_concurrent_reconciles",
        help: "Maximum number of concurrent reconciles per controller",
        value: |shown| CollectedValue::count(shown.max_concurrent),
    },
    NamedMetric {
        name: "controller_reconcile_errors_total",
        help: "Number of failed reconciles",
        value: |shown| CollectedValue::Counter(shown.errors),
    },
    NamedMetric {
        name: "controller_reconcile_time_seconds",
        help: "Duration of reconciles in seconds",
        value: |shown| CollectedValue::Histogram(&shown.took),
    },
    NamedMetric {
        name: "controller_reconcile_stuck_total",
        help: "Number of keys reported because of repeated failures",
        value: |shown| CollectedValue::Counter(shown.stuck),
    },
    NamedMetric {
        name: "controller_restarts_total",
        help: "Number of restarts of supervised controllers",
        value: |shown| CollectedValue::Counter(shown.restarts),
    },
];

const INFORMER_METRICS: &[NamedMetric<informer::InformerMetricsSnapshot>] = &[
    NamedMetric {
        name: "reflector_lists_total",
        help: "Total number of API lists done by the reflectors",
        value: |shown| CollectedValue::Counter(shown.lists),
    },
    NamedMetric {
        name: "reflector_list_duration_seconds",
        help: "How long an API list takes to return and decode for the reflectors",
        value: |shown| CollectedValue::Histogram(&shown.took),
    },
    NamedMetric {
        name: "reflector_watches_total",
        help: "Total number of API watches done by the reflectors",
        value: |shown| CollectedValue::Counter(shown.watches),
    },
    NamedMetric {
        name: "reflector_last_resource_version",
        help: "Last resource version seen for the reflectors",
        value: |shown| CollectedValue::large(shown.version),
    },
    NamedMetric {
        name: "informer_failures_total",
        help: "Number of failed list and watch requests",
        value: |shown| CollectedValue::Counter(shown.failures),
    },
    NamedMetric {
        name: "informer_events_total",
        help: "Number of received changes",
        value: |shown| CollectedValue::Counter(shown.events),
    },
    NamedMetric {
        name: "informer_objects",
        help: "Number of objects in the store",
        value: |shown| CollectedValue::large(shown.objects),
    },
    NamedMetric {
        name: "informer_synced",
        help: "Whether the store is synced with the API server",
        value: |shown| CollectedValue::count(usize::from(shown.is_synced)),
    },
];

// --- NamedMetrics ---

impl NamedMetrics {
    /// Writes all metrics.
    pub(super) fn write(&self, out: &mut ExpositionText) {
        let queues = self.queues.iter();
        let queues: Vec<_> = queues.map(|(name, queue)| (name, queue.now())).collect();
        let controllers = self.controllers.iter();
        let controllers: Vec<_> = controllers
            .map(|(name, counts)| (name, counts.snapshot()))
            .collect();
        let informers = self.informers.iter();
        let informers: Vec<_> = informers
            .map(|(name, counts)| (name, counts.snapshot()))
            .collect();
        write_metrics(out, "name", WORKQUEUE_METRICS, &queues);
        write_metrics(out, "controller", CONTROLLER_QUEUE_METRICS, &queues);
        write_metrics(out, "name", WORKQUEUE_DURATION_METRICS, &controllers);
        write_metrics(out, "controller", CONTROLLER_METRICS, &controllers);
        write_metrics(out, "name", INFORMER_METRICS, &informers);
        write_reconcile_results(out, &controllers);
        let leaders: Vec<_> = self.leaders.iter().map(|(name, leads)| (name, *leads)).collect();
        write_metrics(out, "name", LEADER_ELECTION_METRICS, &leaders);
    }
}

const LEADER_ELECTION_METRICS: &[NamedMetric<bool>] = &[NamedMetric {
    name: "leader_election_master_status",
    help: "Whether the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master",
    value: |leads| CollectedValue::count(usize::from(*leads)),
}];

fn write_metrics<T>(out: &mut ExpositionText, label: &str, metrics: &[NamedMetric<T>], all: &[(&String, T)]) {
    let Some((_, first)) = all.first() else {
        return;
    };
    for metric in metrics {
        out.metric_family(metric.name, (metric.value)(first).metric_type(), metric.help);
        for (name, shown) in all {
            let labels = [(label, name.as_str())];
            (metric.value)(shown).write(out, metric.name, &labels);
        }
    }
}

fn write_reconcile_results(out: &mut ExpositionText, all: &[(&String, ControllerMetricsSnapshot)]) {
    if all.is_empty() {
        return;
    }
    let name = "controller_runtime_reconcile_total";
    let help = "Total number of reconciliations per controller";
    out.metric_family(name, "counter", help);
    for (controller, shown) in all {
        for (result, count) in ReconcileResult::ALL.into_iter().zip(shown.results) {
            let labels = [("controller", controller.as_str()), ("result", result.name())];
            out.sample(name, &labels, count);
        }
    }
}

// --- CollectedValue ---

impl CollectedValue<'_> {
    fn count(number: usize) -> Self {
        CollectedValue::large(number as u64)
    }

    fn large(number: u64) -> Self {
        CollectedValue::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn write(&self, out: &mut ExpositionText, name: &str, labels: &[(&str, &str)]) {
        match self {
            CollectedValue::Counter(count) => out.sample(name, labels, count),
            CollectedValue::Number(number) => out.sample(name, labels, number),
            CollectedValue::Seconds(time) => out.sample(name, labels, Number(time.as_secs_f64())),
            CollectedValue::Histogram(times) => times.write(out, name, labels, 0),
        }
    }

    fn metric_type(&self) -> &'static str {
        match self {
            CollectedValue::Counter(_) => "counter",
            CollectedValue::Number(_) | CollectedValue::Seconds(_) => "gauge",
            CollectedValue::Histogram(_) => "histogram",
        }
    }
}
