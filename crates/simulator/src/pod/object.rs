//! The cached part of a pod.

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

/// The cached part of a pod. All containers behave alike, so the status of the first container stands for all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
    /// The index of its rule.
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
pub(crate) struct PodSpec {
    /// The number of the node if it is a simulated one.
    #[serde(rename = "nodeName", deserialize_with = "simulated_node")]
    pub(crate) node: Option<u32>,
    pub(crate) restart_policy: RestartPolicy,
    pub(crate) host_network: bool,
    pub(crate) active_deadline_seconds: Option<u32>,
    pub(crate) containers: Box<[Container]>,
    pub(crate) init_containers: Box<[Container]>,
    #[serde(deserialize_with = "readiness_gates")]
    pub(crate) readiness_gates: Box<[Box<str>]>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: Box<str>,
    pub(crate) image: Box<str>,
    /// Whether this is an init container with restart policy `Always`.
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
pub(crate) struct PodStatus {
    pub(crate) phase: PodPhase,
    pub(crate) start_time: Option<Timestamp>,
    #[serde(rename = "podIP", deserialize_with = "ip_address")]
    pub(crate) ip: Option<IpAddr>,
    pub(crate) conditions: PodConditions,
    #[serde(rename = "containerStatuses", deserialize_with = "first_container_status")]
    pub(crate) container: ContainerStatus,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum PodPhase {
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
pub(crate) struct PodConditions {
    /// The conditions that the kubelet writes.
    pub(crate) reported: ConditionStates,
    /// Type and status of other conditions, which readiness gates may name.
    pub(crate) others: Box<[(Box<str>, Box<str>)]>,
    /// The reported message about readiness gates that are not true.
    pub(crate) gates: Box<str>,
}

/// The conditions that the kubelet writes.
pub(crate) const REPORTED_CONDITIONS: [&str; 5] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

/// The reason of a pod that is not ready although its containers are.
pub(crate) const GATES_NOT_READY: &str = "ReadinessGatesNotReady";

/// The status of the first container.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerStatus {
    pub(crate) restart_count: u32,
    /// The start time of a running container; `None` while it waits.
    pub(crate) running: Option<Timestamp>,
    /// The last termination.
    pub(crate) last: Option<Box<ContainerStateTerminated>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStateTerminated {
    pub(crate) exit_code: i32,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Timestamp,
}

// --- Pod ---

impl Pod {
    /// Selects the rule of a decoded pod, then drops the fields that only the selection needs.
    pub(crate) fn assign_rule(&mut self, rules: &Rules) {
        if self.spec.node.is_none() {
            (self.spec, self.status) = (PodSpec::default(), PodStatus::default());
        } else {
            self.rule = rules.choose(self);
        }
        self.metadata.rule_inputs = None;
    }

    /// Whether the phase is final.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// The state of a condition that the kubelet writes.
    pub(crate) fn condition(&self, kind: &str) -> ConditionState {
        self.status.conditions.reported.get(&REPORTED_CONDITIONS, kind)
    }
}

// --- fields ---

fn simulated_node<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let name = Option::<Box<str>>::deserialize(from)?;
    Ok(name.and_then(|name| number(&name)))
}

fn readiness_gates<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[Box<str>]>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ReadinessGateFields {
        condition_type: Box<str>,
    }
    let gates = Option::<Vec<ReadinessGateFields>>::deserialize(from)?.unwrap_or_default();
    Ok(gates.into_iter().map(|gate| gate.condition_type).collect())
}

fn is_always<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let policy = Option::<Box<str>>::deserialize(from)?;
    Ok(policy.as_deref() == Some("Always"))
}

fn ip_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IpAddr>, D::Error> {
    let text = Option::<Box<str>>::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

fn first_container_status<'de, D: Deserializer<'de>>(from: D) -> Result<ContainerStatus, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ContainerStatusFields {
        restart_count: u32,
        state: ContainerStateFields,
        last_state: ContainerStateFields,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ContainerStateFields {
        running: Option<RunningFields>,
        terminated: Option<Box<ContainerStateTerminated>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct RunningFields {
        started_at: Timestamp,
    }
    let all = Option::<Vec<ContainerStatusFields>>::deserialize(from)?.unwrap_or_default();
    let first = all.into_iter().next().unwrap_or_default();
    Ok(ContainerStatus {
        restart_count: first.restart_count,
        running: first.state.running.map(|running| running.started_at),
        last: first.last_state.terminated,
    })
}

impl<'de> Deserialize<'de> for PodConditions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut conditions = PodConditions::default();
        let mut others = Vec::new();
        for read in Option::<Vec<ConditionFields>>::deserialize(from)?.unwrap_or_default() {
            if !conditions.reported.record(&REPORTED_CONDITIONS, &read) {
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
    fn cached_pods_are_small() {
        let mut pod: Pod = serde_json::from_str(
            r#"{"metadata": {"name": "web", "labels": {"app": "web"}, "managedFields": [{}]},
                "spec": {"nodeName": "simulated-3", "containers": [{"name": "web", "env": [{}]}], "volumes": [{}]}}"#,
        )
        .unwrap();
        pod.assign_rule(&Rules::default());
        assert_eq!(pod.spec.node, Some(3));
        assert!(pod.metadata.rule_inputs.is_none());
        // A large cluster has 150,000 pods.
        assert!(size_of::<Pod>() <= 320, "{}", size_of::<Pod>());
    }

    #[test]
    fn keeps_only_metadata_of_pods_on_other_nodes() {
        let mut pod: Pod = serde_json::from_str(
            r#"{"metadata": {"name": "web"}, "spec": {"nodeName": "n1", "containers": [{"name": "web"}]}}"#,
        )
        .unwrap();
        pod.assign_rule(&Rules::default());
        assert!(pod.spec.containers.is_empty());
        assert_eq!(&*pod.metadata.name, "web");
    }
}
