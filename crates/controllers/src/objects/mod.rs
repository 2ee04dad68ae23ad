//! Projections of API objects: the fields that controllers read, and nothing else.
//!
//! Every field here is kept in memory for each object of its kind. What is rarely needed, such as pod templates, is kept as raw
//! JSON.

mod controller_revision;
mod cron_job;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod endpoints;
mod job;
mod pod_disruption_budget;
mod replica_set;
mod service;
mod service_cidr;
mod stateful_set;
mod storage_class;
mod template;

pub use self::{
    controller_revision::ControllerRevision,
    cron_job::{ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, JobReference},
    daemon_set::{DaemonSet, DaemonSpec, DaemonStatus, DaemonStrategy, UpdateStrategyKind},
    deployment::{
        Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, RawSelector, RollingUpdate,
        StrategyKind,
    },
    endpoint_slice::{Endpoint, EndpointConditions, EndpointHint, EndpointHints, EndpointSlice, SlicePort},
    endpoints::{AddressPort, EndpointAddress, Endpoints, Subset, Target},
    job::{
        CompletionMode, ExitCodes, FailureAction, FailurePolicy, FailureRule, Job, JobSpec, JobStatus,
        PodCondition, PodReplacementPolicy, SuccessPolicy, SuccessRule, UncountedTerminatedPods,
    },
    pod_disruption_budget::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus},
    replica_set::{LabelEqualitySelector, ReplicaSet, ReplicaSpec, ReplicaStatus, ReplicationController},
    service::{Service, ServicePort, ServiceSpec},
    service_cidr::{IpAddress, ServiceCidr, ServiceCidrSpec, ServiceCidrStatus},
    stateful_set::{
        ClaimRetention, ClaimRetentionPolicy, ClaimTemplate, Ordinals, PodManagementPolicy,
        StatefulRollingUpdate, StatefulSet, StatefulSpec, StatefulStatus, StatefulStrategy,
    },
    storage_class::{BindingMode, StorageClass},
    template::{TEMPLATE_HASH, Template, TemplateMeta, TemplateParts},
};

/// A projection of an object: metadata, and the parts `S` and `T` of its spec and status that are kept.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(
    default,
    bound = "S: serde::de::DeserializeOwned + Default, T: serde::de::DeserializeOwned + Default"
)]
pub struct Projection<S, T = serde::de::IgnoredAny> {
    /// The metadata.
    pub metadata: k3_workloads::ObjectMeta,
    /// The spec.
    pub spec: S,
    /// The status.
    pub status: T,
}

k3_workloads::projected_object!(Projection<S, T>, S, T);
