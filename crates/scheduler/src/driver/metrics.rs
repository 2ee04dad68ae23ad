//! What is counted of the scheduler, under upstream's names.

use std::time::Duration;

use kubecontroller::metrics::{MetricDesc, Metrics, exponential_buckets};

use crate::{
    interner::Text,
    queue::SchedulingAttempt,
    scheduler_core::{Preemption, SchedulerCore},
};

const ATTEMPTS: MetricDesc = MetricDesc::counter(
    "scheduler_schedule_attempts_total",
    "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
    &["profile", "result"],
);
const ATTEMPT_TIME: MetricDesc = MetricDesc::histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
    &["profile", "result"],
    &exponential_buckets::<15>(0.001, 2.0),
);
const ALGORITHM_TIME: MetricDesc = MetricDesc::histogram(
    "scheduler_scheduling_algorithm_duration_seconds",
    "Scheduling algorithm latency in seconds",
    &[],
    &exponential_buckets::<15>(0.001, 2.0),
);
const POD_TIME: MetricDesc = MetricDesc::histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
    &["attempts"],
    &exponential_buckets::<20>(0.01, 2.0),
);
const POD_ATTEMPTS: MetricDesc = MetricDesc::histogram(
    "scheduler_pod_scheduling_attempts",
    "Number of attempts to successfully schedule a pod.",
    &[],
    &exponential_buckets::<5>(1.0, 2.0),
);
const PREEMPTIONS: MetricDesc = MetricDesc::counter(
    "scheduler_preemption_attempts_total",
    "Total preemption attempts in the cluster till now",
    &[],
);
const VICTIMS: MetricDesc = MetricDesc::histogram(
    "scheduler_preemption_victims",
    "Number of selected preemption victims",
    &[],
    &exponential_buckets::<7>(1.0, 2.0),
);
const PENDING: MetricDesc = MetricDesc::gauge(
    "scheduler_pending_pods",
    "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.",
    &["queue"],
);
const INCOMING: MetricDesc = MetricDesc::counter(
    "scheduler_queue_incoming_pods_total",
    "Number of pods added to scheduling queues by event and queue type.",
    &["event", "queue"],
);
const KNOWN: MetricDesc = MetricDesc::gauge(
    "scheduler_cache_size",
    "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
    &["type"],
);

/// Attempt counts above this share one label value.
const MANY: u32 = 15;

/// Counts what the scheduler does. Clones are the same.
#[derive(Clone, Debug, Default)]
// upstream: pkg/scheduler/metrics/metrics.go InitMetrics
pub(super) struct SchedulerMetrics {
    metrics: Metrics,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl SchedulerMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        SchedulerMetrics {
            metrics: metrics.clone(),
        }
    }

    /// A decision was made.
    pub(super) fn observe_algorithm(&self, took: Duration) {
        self.metrics.observe(&ALGORITHM_TIME, &[], took.as_secs_f64());
    }

    /// A pod was tried, for the scheduler of that name.
    pub(super) fn observe_attempt(&self, profile: &Text, result: AttemptResult, took: Duration) {
        let result = match result {
            AttemptResult::Scheduled => "scheduled",
            AttemptResult::Unschedulable => "unschedulable",
            AttemptResult::Error => "error",
        };
        let labels = [&**profile, result];
        self.metrics.increment(&ATTEMPTS, &labels, 1);
        self.metrics.observe(&ATTEMPT_TIME, &labels, took.as_secs_f64());
    }

    /// A pod is on a node, after it had waited so long.
    pub(super) fn observe_scheduled_pod(&self, attempt: SchedulingAttempt, waited: Duration) {
        let label = if attempt.number > MANY {
            format!("{MANY}+")
        } else {
            attempt.number.to_string()
        };
        self.metrics.observe(&POD_TIME, &[&label], waited.as_secs_f64());
        self.metrics
            .observe(&POD_ATTEMPTS, &[], f64::from(attempt.number));
    }

    /// It was looked who could go for a pod.
    pub(super) fn observe_preemption(&self, preemption: Option<&Preemption>) {
        self.metrics.increment(&PREEMPTIONS, &[], 1);
        if let Some(preempt) = preemption {
            self.metrics.observe(&VICTIMS, &[], number(preempt.victims.len()));
        }
    }

    /// How it stands now.
    pub(super) fn set_pending_pods(&self, core: &mut SchedulerCore) {
        for ((queue, event), count) in core.take_incoming() {
            self.metrics.increment(&INCOMING, &[event, queue], count);
        }
        let pending_pods = core.pending_pods();
        for (queue, count) in [
            ("active", pending_pods.active),
            ("backoff", pending_pods.backoff),
            ("unschedulable", pending_pods.unschedulable),
            ("gated", pending_pods.gated),
        ] {
            self.metrics.set_gauge(&PENDING, &[queue], number(count));
        }
        let (nodes, pods) = core.sizes();
        for (kind, count) in [("nodes", nodes), ("pods", pods)] {
            self.metrics.set_gauge(&KNOWN, &[kind], number(count));
        }
    }
}

/// A number of pods or nodes; there are never more than a float can count.
fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
