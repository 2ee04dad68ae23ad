//! Projections of API objects: the fields that controllers read, and nothing else.
//!
//! Every field here is kept in memory for each object of its kind. What is rarely needed, such as pod templates, is kept as raw
//! JSON.

mod condition;
mod controller_revision;
mod cron_job;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod endpoints;
mod intern;
mod job;
mod meta;
mod node;
mod node_selector;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod replica_set;
mod service;
mod service_cidr;
mod stateful_set;
mod string_map;
mod template;
mod toleration;

pub use self::{
    condition::{Condition, ConditionStatus},
    controller_revision::ControllerRevision,
    cron_job::{ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, JobReference},
    daemon_set::{DaemonSet, DaemonSpec, DaemonStatus, DaemonStrategy, UpdateStrategyKind},
    deployment::{
        Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, IntOrPercent, RawSelector,
        RollingUpdate, StrategyKind,
    },
    endpoint_slice::{Endpoint, EndpointConditions, EndpointHint, EndpointHints, EndpointSlice, SlicePort},
    endpoints::{AddressPort, EndpointAddress, Endpoints, Subset, Target},
    intern::{Internable, Interner, SharedList},
    job::{
        CompletionMode, ExitCodes, FailureAction, FailurePolicy, FailureRule, Job, JobSpec, JobStatus,
        PodCondition, PodReplacementPolicy, SuccessPolicy, SuccessRule, UncountedTerminatedPods,
    },
    meta::{OwnerRef, ProjectedMeta},
    node::{Allocatable, Node, NodeSpec, NodeStatus, Taint},
    node_selector::NodeSelector,
    persistent_volume::{
        BindingMode, ClaimRef, HostPath, PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus,
        StorageClass, StorageRequest, VolumeMode, VolumePhase,
    },
    persistent_volume_claim::{
        ClaimPhase, ClaimResources, ClaimSpec, ClaimStatus, ModifyVolumeStatus, PersistentVolumeClaim,
    },
    pod::{
        Container, ContainerRunning, ContainerState, ContainerStatus, ContainerTerminated, Pod, PodPhase,
        PodSpec, PodStatus, Port, Volume,
    },
    pod_disruption_budget::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus},
    replica_set::{LabelEqualitySelector, ReplicaSet, ReplicaSpec, ReplicaStatus, ReplicationController},
    service::{Service, ServicePort, ServiceSpec, TargetPort},
    service_cidr::{IpAddress, ServiceCidr, ServiceCidrSpec, ServiceCidrStatus},
    stateful_set::{
        ClaimRetention, ClaimRetentionPolicy, ClaimTemplate, Ordinals, PodManagementPolicy,
        StatefulRollingUpdate, StatefulSet, StatefulSpec, StatefulStatus, StatefulStrategy,
    },
    string_map::StringMap,
    template::{TEMPLATE_HASH, Template, TemplateMeta, TemplateParts},
    toleration::Toleration,
};
pub(crate) use self::{intern::internable, meta::object};

/// A projection of an object: metadata, and the parts `S` and `T` of its spec and status that are kept.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(
    default,
    bound = "S: serde::de::DeserializeOwned + Default, T: serde::de::DeserializeOwned + Default"
)]
pub struct Projection<S, T = serde::de::IgnoredAny> {
    /// The metadata.
    pub metadata: ProjectedMeta,
    /// The spec.
    pub spec: S,
    /// The status.
    pub status: T,
}

object!(Projection<S, T>, S, T);
