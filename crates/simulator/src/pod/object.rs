//! A pod, its rule and the run of its containers.

use std::{ops::Deref, sync::Arc};

use k3_workloads::{Condition, ConditionStatus, ContainerStatus, Pod};
use k8s_openapi::jiff::Timestamp;

use crate::rules::Rules;

/// A pod on a simulated node. All containers behave alike, so the status of the first container stands for all.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedPod {
    pod: Arc<Pod>,
    /// The index of its rule.
    pub(super) rule: u16,
    /// The run of its containers.
    pub(super) run: ContainerRun,
}

/// The deletion of a terminating pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deletion {
    pub(super) at: Timestamp,
    /// The grace period in seconds.
    pub(super) grace: u32,
}

/// The reason of a pod that is not ready although its containers are.
pub(super) const GATES_NOT_READY: &str = "ReadinessGatesNotReady";

/// The run of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerRun {
    pub(super) restart_count: u32,
    /// The start time of a running container; `None` while it waits.
    pub(super) running: Option<Timestamp>,
    /// How the previous run ended.
    pub(super) last: Option<FinishedRun>,
}

/// A run of a container that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FinishedRun {
    pub(super) exit_code: i32,
    pub(super) started_at: Timestamp,
    pub(super) finished_at: Timestamp,
}

// --- SimulatedPod ---

impl SimulatedPod {
    /// Selects the rule of a pod.
    pub(crate) fn new(pod: Arc<Pod>, rules: &Rules) -> Self {
        let run = pod.status.container_statuses.first();
        SimulatedPod {
            rule: rules.choose(&*pod),
            run: run.map(ContainerRun::new).unwrap_or_default(),
            pod,
        }
    }

    /// The status of a condition; `None` if it is not reported.
    pub(super) fn condition(&self, kind: &str) -> Option<ConditionStatus> {
        Condition::find(&self.status.conditions, kind).map(|condition| condition.status)
    }

    /// The reported message about readiness gates that are not true; empty if none is reported.
    pub(super) fn reported_gates_message(&self) -> &str {
        let ready = Condition::find(&self.status.conditions, "Ready");
        let ready = ready.filter(|ready| &*ready.reason == GATES_NOT_READY);
        ready.map_or("", |ready| &ready.message)
    }

    /// Set while the pod is terminating.
    pub(super) fn deletion(&self) -> Option<Deletion> {
        let grace = self.metadata.deletion_grace_period_seconds.unwrap_or(0);
        Some(Deletion {
            at: self.metadata.deletion_timestamp?,
            grace: u32::try_from(grace).unwrap_or(0),
        })
    }
}

impl Deref for SimulatedPod {
    type Target = Pod;

    fn deref(&self) -> &Pod {
        &self.pod
    }
}

// --- ContainerRun ---

impl ContainerRun {
    fn new(status: &ContainerStatus) -> Self {
        let running = status.state.running;
        let last = status.last_termination.as_deref();
        ContainerRun {
            restart_count: status.restart_count,
            running: running.map(|running| running.started_at.unwrap_or_default()),
            last: last.map(|last| FinishedRun {
                exit_code: last.exit_code,
                started_at: last.started_at.unwrap_or_default(),
                finished_at: last.finished_at.unwrap_or_default(),
            }),
        }
    }
}
