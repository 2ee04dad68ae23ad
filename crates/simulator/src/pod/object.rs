//! Pods, as far as a simulated node has to know them.

use std::net::IpAddr;

use k8s_openapi::jiff::Timestamp;
use kubecontroller::object::Object;
use serde::{Deserialize, Deserializer};

use crate::{
    condition::{ConditionFields, ConditionState, ConditionStates},
    meta::ObjectMeta,
    node::number,
    rules::Rules,
};

/// A pod. Its containers all do the same at the same time, so that what the first one does is enough.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
    /// The rule it lives by.
    #[serde(skip)]
    pub(crate) rule: u16,
}

impl Object for Pod {
    type Metadata = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    /// The number of its node, if that is a simulated one.
    #[serde(rename = "nodeName", deserialize_with = "node")]
    pub(crate) node: Option<u32>,
    pub(crate) restart_policy: RestartPolicy,
    pub(crate) host_network: bool,
    pub(crate) active_deadline_seconds: Option<u32>,
    pub(crate) containers: Box<[Container]>,
    pub(crate) init_containers: Box<[Container]>,
    #[serde(deserialize_with = "gates")]
    pub(crate) readiness_gates: Box<[Box<str>]>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: Box<str>,
    pub(crate) image: Box<str>,
    /// Whether it runs as long as the pod does, though it is an init container.
    #[serde(rename = "restartPolicy", deserialize_with = "is_always")]
    pub(crate) is_sidecar: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    pub(crate) start_time: Option<Timestamp>,
    #[serde(rename = "podIP", deserialize_with = "address")]
    pub(crate) ip: Option<IpAddr>,
    pub(crate) conditions: Conditions,
    #[serde(rename = "containerStatuses", deserialize_with = "first")]
    pub(crate) container: ContainerStatus,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    #[serde(other)]
    Unknown,
}

/// The conditions of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// Those that a node writes.
    pub(crate) own: ConditionStates,
    /// Type and status of those that others write: gates may wait for them.
    pub(crate) others: Box<[(Box<str>, Box<str>)]>,
    /// What is said of gates that are not open.
    pub(crate) gates: Box<str>,
}

/// The conditions that a node writes.
pub(crate) const OWN: [&str; 5] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

/// Why a pod is not ready though its containers are.
pub(crate) const GATES_NOT_READY: &str = "ReadinessGatesNotReady";

/// What the first container does.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerStatus {
    pub(crate) restart_count: u32,
    /// Since when it runs; if it does not, it waits.
    pub(crate) running: Option<Timestamp>,
    /// How it ended the last time.
    pub(crate) last: Option<Box<Terminated>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub(crate) exit_code: i32,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Timestamp,
}

// --- Pod ---

impl Pod {
    /// Finds the rule of a pod that was just read, and forgets what is not needed any more.
    pub(crate) fn settle(&mut self, rules: &Rules) {
        if self.spec.node.is_none() {
            (self.spec, self.status) = (Spec::default(), Status::default());
        } else {
            self.rule = rules.choose(self);
        }
        self.metadata.origin = None;
    }

    /// Whether all of it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.status.phase, Phase::Succeeded | Phase::Failed)
    }

    /// A condition that a node writes.
    pub(crate) fn condition(&self, kind: &str) -> ConditionState {
        self.status.conditions.own.get(&OWN, kind)
    }
}

// --- fields ---

fn node<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let name = Option::<Box<str>>::deserialize(from)?;
    Ok(name.and_then(|name| number(&name)))
}

fn gates<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[Box<str>]>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct SchedulingGateFields {
        condition_type: Box<str>,
    }
    let gates = Option::<Vec<SchedulingGateFields>>::deserialize(from)?.unwrap_or_default();
    Ok(gates.into_iter().map(|gate| gate.condition_type).collect())
}

fn is_always<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let policy = Option::<Box<str>>::deserialize(from)?;
    Ok(policy.as_deref() == Some("Always"))
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IpAddr>, D::Error> {
    let text = Option::<Box<str>>::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

fn first<'de, D: Deserializer<'de>>(from: D) -> Result<ContainerStatus, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct PodFields {
        restart_count: u32,
        state: ContainerStateFields,
        last_state: ContainerStateFields,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ContainerStateFields {
        running: Option<RunningFields>,
        terminated: Option<Box<Terminated>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct RunningFields {
        started_at: Timestamp,
    }
    let all = Option::<Vec<PodFields>>::deserialize(from)?.unwrap_or_default();
    let first = all.into_iter().next().unwrap_or_default();
    Ok(ContainerStatus {
        restart_count: first.restart_count,
        running: first.state.running.map(|running| running.started_at),
        last: first.last_state.terminated,
    })
}

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut conditions = Conditions::default();
        let mut others = Vec::new();
        for read in Option::<Vec<ConditionFields>>::deserialize(from)?.unwrap_or_default() {
            if !conditions.own.learn(&OWN, &read) {
                others.push((read.kind, read.status));
            } else if &*read.reason == GATES_NOT_READY {
                conditions.gates = read.message;
            }
        }
        conditions.others = others.into();
        Ok(conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_kept_of_a_pod() {
        let mut pod: Pod = serde_json::from_str(
            r#"{"metadata": {"name": "web", "labels": {"app": "web"}, "managedFields": [{}]},
                "spec": {"nodeName": "simulated-3", "containers": [{"name": "web", "env": [{}]}], "volumes": [{}]}}"#,
        )
        .unwrap();
        pod.settle(&Rules::default());
        assert_eq!(pod.spec.node, Some(3));
        assert!(pod.metadata.origin.is_none());
        // There may be 150,000 of them.
        assert!(size_of::<Pod>() <= 320, "{}", size_of::<Pod>());
    }

    #[test]
    fn of_pods_elsewhere_nothing_is_kept_but_their_names() {
        let mut pod: Pod = serde_json::from_str(
            r#"{"metadata": {"name": "web"}, "spec": {"nodeName": "n1", "containers": [{"name": "web"}]}}"#,
        )
        .unwrap();
        pod.settle(&Rules::default());
        assert!(pod.spec.containers.is_empty());
        assert_eq!(&*pod.metadata.name, "web");
    }
}
