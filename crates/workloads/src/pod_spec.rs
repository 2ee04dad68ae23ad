//! The spec of a pod.

use serde::{Deserialize, Deserializer};

use crate::{
    Affinity, Container, ResourceList, ResourceRequirements, Shared, SharedList, StringMap, Toleration,
    TopologySpreadConstraint, Volume, internable, volume::volumes,
};

/// Pod spec: what belongs to the one pod, and what the pods of a template have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "PodSpecFields")]
pub struct PodSpec {
    /// The node it is bound to; empty if none.
    pub node_name: Box<str>,
    /// The name it has within its subdomain.
    pub hostname: Box<str>,
    /// Affinity to nodes and pods. Pods of a DaemonSet differ in it.
    pub affinity: Option<Shared<Affinity>>,
    /// The volumes that bind it to claims, nodes or images. Pods of a StatefulSet differ in them.
    pub volumes: SharedList<Volume>,
    /// The rest.
    pub template: Shared<TemplateSpec>,
}

/// The part of a pod spec that the pods of a template have in common. It is stored once for all of them, so that two are equal if
/// their pointers are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TemplateSpec {
    /// The subdomain.
    pub subdomain: Box<str>,
    /// When containers that ended are restarted.
    pub restart_policy: RestartPolicy,
    /// Whether it is in the network of its node.
    pub host_network: bool,
    /// `activeDeadlineSeconds`
    pub active_deadline_seconds: Option<i64>,
    /// The containers.
    pub containers: Box<[Container]>,
    /// The init containers.
    pub init_containers: Box<[Container]>,
    /// The condition types of its readiness gates.
    pub readiness_gates: Box<[Box<str>]>,
    /// The taints that it tolerates.
    pub tolerations: SharedList<Toleration>,
    /// The name of its scheduler.
    pub scheduler_name: Box<str>,
    /// Its priority.
    pub priority: Option<i32>,
    /// `preemptionPolicy`; empty if it is not set.
    pub preemption_policy: Box<str>,
    /// Labels that its node must have.
    pub node_selector: StringMap,
    /// How it is spread.
    pub topology_spread_constraints: Box<[TopologySpreadConstraint]>,
    /// What running it takes besides its containers.
    pub overhead: ResourceList,
    /// What it requests as a whole.
    pub resources: ResourceRequirements,
    /// The names of its scheduling gates.
    pub scheduling_gates: Box<[Box<str>]>,
}

/// When containers that ended are restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum RestartPolicy {
    /// When they failed.
    OnFailure,
    /// Never.
    Never,
    /// Always.
    #[default]
    #[serde(other)]
    Always,
}

internable!(TemplateSpec);

/// A pod spec as it is written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpecFields {
    node_name: Box<str>,
    hostname: Box<str>,
    subdomain: Box<str>,
    restart_policy: RestartPolicy,
    host_network: bool,
    active_deadline_seconds: Option<i64>,
    affinity: Option<Shared<Affinity>>,
    tolerations: SharedList<Toleration>,
    containers: Box<[Container]>,
    init_containers: Box<[Container]>,
    #[serde(deserialize_with = "volumes")]
    volumes: SharedList<Volume>,
    #[serde(deserialize_with = "readiness_gates")]
    readiness_gates: Box<[Box<str>]>,
    scheduler_name: Box<str>,
    priority: Option<i32>,
    preemption_policy: Box<str>,
    node_selector: StringMap,
    topology_spread_constraints: Box<[TopologySpreadConstraint]>,
    overhead: ResourceList,
    resources: ResourceRequirements,
    #[serde(deserialize_with = "scheduling_gates")]
    scheduling_gates: Box<[Box<str>]>,
}

// --- PodSpec ---

impl PodSpec {
    /// The only node that it may be bound to, if its affinity names one. Pods of a DaemonSet have one.
    // upstream: pkg/controller/daemon/util/daemonset_util.go GetTargetNodeName
    pub fn required_node(&self) -> Option<&str> {
        let affinity = self.affinity.as_ref()?.node_affinity.as_ref()?;
        let mut terms = affinity.required.as_ref()?.node_selector_terms.iter();
        terms.find_map(|term| term.node_names().next())
    }

    /// The init containers that run as long as the pod does.
    pub fn sidecars(&self) -> impl Iterator<Item = &Container> {
        let init_containers = self.template.init_containers.iter();
        init_containers.filter(|container| container.is_sidecar)
    }
}

impl From<PodSpecFields> for PodSpec {
    fn from(fields: PodSpecFields) -> Self {
        let template = TemplateSpec {
            subdomain: fields.subdomain,
            restart_policy: fields.restart_policy,
            host_network: fields.host_network,
            active_deadline_seconds: fields.active_deadline_seconds,
            containers: fields.containers,
            init_containers: fields.init_containers,
            readiness_gates: fields.readiness_gates,
            tolerations: fields.tolerations,
            scheduler_name: fields.scheduler_name,
            priority: fields.priority,
            preemption_policy: fields.preemption_policy,
            node_selector: fields.node_selector,
            topology_spread_constraints: fields.topology_spread_constraints,
            overhead: fields.overhead,
            resources: fields.resources,
            scheduling_gates: fields.scheduling_gates,
        };
        PodSpec {
            node_name: fields.node_name,
            hostname: fields.hostname,
            affinity: fields.affinity,
            volumes: fields.volumes,
            template: Shared::new(template),
        }
    }
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

fn scheduling_gates<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[Box<str>]>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct SchedulingGateFields {
        name: Box<str>,
    }
    let gates = Option::<Vec<SchedulingGateFields>>::deserialize(from)?.unwrap_or_default();
    Ok(gates.into_iter().map(|gate| gate.name).collect())
}
