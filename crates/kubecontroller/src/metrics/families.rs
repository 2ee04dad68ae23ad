//! Under which names metrics are shown.

use std::{fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::{
    Metrics,
    controller::{MetricsSnapshot, QueueNow, ResultOf},
    histogram::HistogramSnapshot,
    informer,
};

/// Shows all that is counted.
#[derive(Debug)]
pub(super) struct Families {
    metrics: Metrics,
}

/// A family that has one value for each name.
struct Family<T> {
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> Value<'_>,
}

enum Value<'v> {
    Counter(u64),
    Number(i64),
    Seconds(Duration),
    Times(&'v HistogramSnapshot),
}

// --- the names ---

const OF_QUEUE: &[Family<QueueNow>] = &[
    Family {
        name: "workqueue_depth",
        help: "Current depth of workqueue",
        value: |queue| Value::count(queue.figures.depth),
    },
    Family {
        name: "workqueue_adds",
        help: "Total number of adds handled by workqueue",
        value: |queue| Value::Counter(queue.figures.adds),
    },
    Family {
        name: "workqueue_unfinished_work_seconds",
        help: "How many seconds of work has been done that is in progress and has not been observed by work_duration",
        value: |queue| Value::Seconds(queue.running.iter().sum()),
    },
    Family {
        name: "workqueue_longest_running_processor_seconds",
        help: "How many seconds has the longest running processor for workqueue been running",
        value: |queue| Value::Seconds(queue.running.iter().max().copied().unwrap_or_default()),
    },
    Family {
        name: "workqueue_retries",
        help: "Total number of retries handled by workqueue",
        value: |queue| Value::Counter(queue.figures.retries),
    },
];

/// The same under the names of the mission, and what upstream counts of workers.
const OF_QUEUE_BY_CONTROLLER: &[Family<QueueNow>] = &[
    Family {
        name: "controller_workqueue_depth",
        help: "Keys that are ready and not yet worked on",
        value: |queue| Value::count(queue.figures.depth),
    },
    Family {
        name: "controller_workqueue_adds",
        help: "How often a key became ready",
        value: |queue| Value::Counter(queue.figures.adds),
    },
    Family {
        name: "controller_workqueue_retries",
        help: "How often a key is tried again after a failure",
        value: |queue| Value::Counter(queue.figures.retries),
    },
    Family {
        name: "controller_runtime_active_workers",
        help: "Number of currently used workers per controller",
        value: |queue| Value::count(queue.running.len()),
    },
];

const OF_CONTROLLER_AS_QUEUE: &[Family<MetricsSnapshot>] = &[
    Family {
        name: "workqueue_queue_duration_seconds",
        help: "How long in seconds an item stays in workqueue before being requested",
        value: |shown| Value::Times(&shown.waited),
    },
    Family {
        name: "workqueue_work_duration_seconds",
        help: "How long in seconds processing an item from workqueue takes",
        value: |shown| Value::Times(&shown.worked),
    },
];

const OF_CONTROLLER: &[Family<MetricsSnapshot>] = &[
    Family {
        name: "controller_runtime_reconcile_errors",
        help: "Total number of reconciliation errors per controller",
        value: |shown| Value::Counter(shown.errors),
    },
    Family {
        name: "controller_runtime_terminal_reconcile_errors",
        help: "Total number of terminal reconciliation errors per controller",
        value: |shown| Value::Counter(shown.permanent),
    },
    Family {
        name: "controller_runtime_reconcile_panics",
        help: "Total number of reconciliation panics per controller",
        value: |shown| Value::Counter(shown.panics),
    },
    Family {
        name: "controller_runtime_reconcile_timeouts",
        help: "Total number of reconciliation timeouts per controller",
        value: |shown| Value::Counter(shown.timeouts),
    },
    Family {
        name: "controller_runtime_reconcile_time_seconds",
        help: "Length of time per reconciliation per controller",
        value: |shown| Value::Times(&shown.took),
    },
    Family {
        name: "controller_runtime_max_concurrent_reconciles",
        help: "Maximum number of concurrent reconciles per controller",
        value: |shown| Value::count(shown.most),
    },
    Family {
        name: "controller_reconcile_errors",
        help: "How often a reconcile failed",
        value: |shown| Value::Counter(shown.errors),
    },
    Family {
        name: "controller_reconcile_time_seconds",
        help: "How long a reconcile took",
        value: |shown| Value::Times(&shown.took),
    },
    Family {
        name: "controller_reconcile_stuck",
        help: "How often a key was reported because it failed again and again",
        value: |shown| Value::Counter(shown.stuck),
    },
    Family {
        name: "controller_restarts",
        help: "How often a supervised controller was started again",
        value: |shown| Value::Counter(shown.restarts),
    },
];

const OF_INFORMER: &[Family<informer::MetricsSnapshot>] = &[
    Family {
        name: "reflector_lists",
        help: "Total number of API lists done by the reflectors",
        value: |shown| Value::Counter(shown.lists),
    },
    Family {
        name: "reflector_list_duration_seconds",
        help: "How long an API list takes to return and decode for the reflectors",
        value: |shown| Value::Times(&shown.took),
    },
    Family {
        name: "reflector_watches",
        help: "Total number of API watches done by the reflectors",
        value: |shown| Value::Counter(shown.watches),
    },
    Family {
        name: "reflector_last_resource_version",
        help: "Last resource version seen for the reflectors",
        value: |shown| Value::large(shown.version),
    },
    Family {
        name: "informer_failures",
        help: "How often a list or a watch failed",
        value: |shown| Value::Counter(shown.failures),
    },
    Family {
        name: "informer_events",
        help: "How many changes came",
        value: |shown| Value::Counter(shown.events),
    },
    Family {
        name: "informer_objects",
        help: "How many objects are kept",
        value: |shown| Value::large(shown.objects),
    },
    Family {
        name: "informer_synced",
        help: "Whether what is kept is what there is",
        value: |shown| Value::count(usize::from(shown.is_synced)),
    },
];

// --- Families ---

impl Families {
    pub(super) fn of(metrics: Metrics) -> Self {
        Families { metrics }
    }
}

impl Collector for Families {
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
        show(&mut encoder, "name", OF_QUEUE, &queues)?;
        show(&mut encoder, "controller", OF_QUEUE_BY_CONTROLLER, &queues)?;
        show(&mut encoder, "name", OF_CONTROLLER_AS_QUEUE, &controllers)?;
        show(&mut encoder, "controller", OF_CONTROLLER, &controllers)?;
        show(&mut encoder, "name", OF_INFORMER, &informers)?;
        show_results(&mut encoder, &controllers)?;
        let leaders: Vec<_> = names.leaders.iter().map(|(name, leads)| (name, *leads)).collect();
        show(&mut encoder, "name", OF_LEASE, &leaders)?;
        self.metrics.own().show(&mut encoder)
    }
}

const OF_LEASE: &[Family<bool>] = &[Family {
    name: "leader_election_master_status",
    help: "Whether the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master",
    value: |leads| Value::count(usize::from(*leads)),
}];

fn show<T>(
    encoder: &mut DescriptorEncoder<'_>,
    label: &str,
    families: &[Family<T>],
    all: &[(&String, T)],
) -> fmt::Result {
    for family in families.iter().filter(|_| !all.is_empty()) {
        let kind = (family.value)(&all[0].1).metric_type();
        let mut samples = encoder.encode_descriptor(family.name, family.help, None, kind)?;
        for (name, shown) in all {
            let labels = [(label, name.as_str())];
            (family.value)(shown).encode(samples.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn show_results(encoder: &mut DescriptorEncoder<'_>, all: &[(&String, MetricsSnapshot)]) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    let help = "Total number of reconciliations per controller";
    let kind = MetricType::Counter;
    let mut samples = encoder.encode_descriptor("controller_runtime_reconcile", help, None, kind)?;
    for (name, shown) in all {
        for (result, count) in ResultOf::ALL.into_iter().zip(shown.results) {
            let labels = [("controller", name.as_str()), ("result", result.name())];
            Value::Counter(count).encode(samples.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

// --- Value ---

impl Value<'_> {
    fn count(number: usize) -> Self {
        Value::large(number as u64)
    }

    fn large(number: u64) -> Self {
        Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl EncodeMetric for Value<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Value::Counter(count) => encoder.encode_counter::<NoLabelSet, _, u64>(count, None),
            Value::Number(number) => encoder.encode_gauge(number),
            Value::Seconds(time) => encoder.encode_gauge(&time.as_secs_f64()),
            Value::Times(times) => {
                encoder.encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)
            }
        }
    }

    fn metric_type(&self) -> MetricType {
        match self {
            Value::Counter(_) => MetricType::Counter,
            Value::Number(_) | Value::Seconds(_) => MetricType::Gauge,
            Value::Times(_) => MetricType::Histogram,
        }
    }
}
