//! Names and help texts of the metrics.

use std::{fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::{
    Metrics,
    controller::{ControllerMetricsSnapshot, QueueSnapshot, ReconcileResult},
    histogram::HistogramSnapshot,
    informer,
};

/// Exports all metrics when they are scraped.
#[derive(Debug)]
pub(super) struct MetricsCollector {
    metrics: Metrics,
}

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
        name: "workqueue_adds",
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
        name: "workqueue_retries",
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
        name: "controller_workqueue_adds",
        help: "Number of times a key became ready",
        value: |queue| CollectedValue::Counter(queue.stats.adds),
    },
    NamedMetric {
        name: "controller_workqueue_retries",
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
        name: "controller_runtime_reconcile_errors",
        help: "Total number of reconciliation errors per controller",
        value: |shown| CollectedValue::Counter(shown.errors),
    },
    NamedMetric {
        name: "controller_runtime_terminal_reconcile_errors",
        help: "Total number of terminal reconciliation errors per controller",
        value: |shown| CollectedValue::Counter(shown.permanent),
    },
    NamedMetric {
        name: "controller_runtime_reconcile_panics",
        help: "Total number of reconciliation panics per controller",
        value: |shown| CollectedValue::Counter(shown.panics),
    },
    NamedMetric {
        name: "controller_runtime_reconcile_timeouts",
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
        name: "controller_reconcile_errors",
        help: "Number of failed reconciles",
        value: |shown| CollectedValue::Counter(shown.errors),
    },
    NamedMetric {
        name: "controller_reconcile_time_seconds",
        help: "Duration of reconciles in seconds",
        value: |shown| CollectedValue::Histogram(&shown.took),
    },
    NamedMetric {
        name: "controller_reconcile_stuck",
        help: "Number of keys reported because of repeated failures",
        value: |shown| CollectedValue::Counter(shown.stuck),
    },
    NamedMetric {
        name: "controller_restarts",
        help: "Number of restarts of supervised controllers",
        value: |shown| CollectedValue::Counter(shown.restarts),
    },
];

const INFORMER_METRICS: &[NamedMetric<informer::InformerMetricsSnapshot>] = &[
    NamedMetric {
        name: "reflector_lists",
        help: "Total number of API lists done by the reflectors",
        value: |shown| CollectedValue::Counter(shown.lists),
    },
    NamedMetric {
        name: "reflector_list_duration_seconds",
        help: "How long an API list takes to return and decode for the reflectors",
        value: |shown| CollectedValue::Histogram(&shown.took),
    },
    NamedMetric {
        name: "reflector_watches",
        help: "Total number of API watches done by the reflectors",
        value: |shown| CollectedValue::Counter(shown.watches),
    },
    NamedMetric {
        name: "reflector_last_resource_version",
        help: "Last resource version seen for the reflectors",
        value: |shown| CollectedValue::large(shown.version),
    },
    NamedMetric {
        name: "informer_failures",
        help: "Number of failed list and watch requests",
        value: |shown| CollectedValue::Counter(shown.failures),
    },
    NamedMetric {
        name: "informer_events",
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

// --- MetricsCollector ---

impl MetricsCollector {
    pub(super) fn new(metrics: Metrics) -> Self {
        MetricsCollector { metrics }
    }
}

impl Collector for MetricsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let names = self.metrics.names();
        let queues: Vec<_> = names
            .queues
            .iter()
            .map(|(name, queue)| (name, queue.now()))
            .collect();
        let controllers = names.controllers.iter();
        let controllers: Vec<_> = controllers
            .map(|(name, counts)| (name, counts.snapshot()))
            .collect();
        let informers = names.informers.iter();
        let informers: Vec<_> = informers
            .map(|(name, counts)| (name, counts.snapshot()))
            .collect();
        encode_metrics(&mut encoder, "name", WORKQUEUE_METRICS, &queues)?;
        encode_metrics(&mut encoder, "controller", CONTROLLER_QUEUE_METRICS, &queues)?;
        encode_metrics(&mut encoder, "name", WORKQUEUE_DURATION_METRICS, &controllers)?;
        encode_metrics(&mut encoder, "controller", CONTROLLER_METRICS, &controllers)?;
        encode_metrics(&mut encoder, "name", INFORMER_METRICS, &informers)?;
        encode_reconcile_results(&mut encoder, &controllers)?;
        let leaders: Vec<_> = names.leaders.iter().map(|(name, leads)| (name, *leads)).collect();
        encode_metrics(&mut encoder, "name", LEADER_ELECTION_METRICS, &leaders)?;
        self.metrics.own().encode_metrics(&mut encoder)
    }
}

const LEADER_ELECTION_METRICS: &[NamedMetric<bool>] = &[NamedMetric {
    name: "leader_election_master_status",
    help: "Whether the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master",
    value: |leads| CollectedValue::count(usize::from(*leads)),
}];

fn encode_metrics<T>(
    encoder: &mut DescriptorEncoder<'_>,
    label: &str,
    metrics: &[NamedMetric<T>],
    all: &[(&String, T)],
) -> fmt::Result {
    for metric in metrics.iter().filter(|_| !all.is_empty()) {
        let kind = (metric.value)(&all[0].1).metric_type();
        let mut samples = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
        for (name, shown) in all {
            let labels = [(label, name.as_str())];
            (metric.value)(shown).encode(samples.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_reconcile_results(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[(&String, ControllerMetricsSnapshot)],
) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    let help = "Total number of reconciliations per controller";
    let kind = MetricType::Counter;
    let mut samples = encoder.encode_descriptor("controller_runtime_reconcile", help, None, kind)?;
    for (name, shown) in all {
        for (result, count) in ReconcileResult::ALL.into_iter().zip(shown.results) {
            let labels = [("controller", name.as_str()), ("result", result.name())];
            CollectedValue::Counter(count).encode(samples.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

// --- CollectedValue ---

impl CollectedValue<'_> {
    fn count(number: usize) -> Self {
        CollectedValue::large(number as u64)
    }

    fn large(number: u64) -> Self {
        CollectedValue::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl EncodeMetric for CollectedValue<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            CollectedValue::Counter(count) => encoder.encode_counter::<NoLabelSet, _, u64>(count, None),
            CollectedValue::Number(number) => encoder.encode_gauge(number),
            CollectedValue::Seconds(time) => encoder.encode_gauge(&time.as_secs_f64()),
            CollectedValue::Histogram(times) => {
                encoder.encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)
            }
        }
    }

    fn metric_type(&self) -> MetricType {
        match self {
            CollectedValue::Counter(_) => MetricType::Counter,
            CollectedValue::Number(_) | CollectedValue::Seconds(_) => MetricType::Gauge,
            CollectedValue::Histogram(_) => MetricType::Histogram,
        }
    }
}
