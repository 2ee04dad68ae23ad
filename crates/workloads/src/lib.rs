//! Pods, nodes and volumes as controllers, scheduler and simulator read them.
//!
//! Promises:
//! - In one process there is one informer of each kind ([`pod_informer`], [`node_informer`], [`claim_informer`],
//!   [`volume_informer`]): each event is decoded once, and every reader shares the decoded object.
//! - What no reader needs is skipped while decoding and takes no memory. What many objects have in common, such as the containers
//!   of the pods of one template, is stored once.
//! - `null` is read as Go reads it ([`kubecontroller::decode`]).

mod affinity;
mod condition;
mod container;
mod informers;
mod int_or_string;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_spec;
mod resource_list;
mod status_values;
mod taint;
mod topology_spread;
mod volume;

pub use kubecontroller::{
    internable,
    object::{Internable, Interner, ObjectMeta, OwnerReference, Shared, SharedList, StringMap},
    projected_object,
};

pub use self::{
    affinity::{
        Affinity, NodeAffinity, PodAffinity, PodAffinityTerm, PreferredSchedulingTerm,
        WeightedPodAffinityTerm,
    },
    condition::{Condition, ConditionStatus},
    container::{
        Container, ContainerPort, ContainerState, ContainerStateRunning, ContainerStateTerminated,
        ContainerStatus, ResourceRequirements,
    },
    informers::{claim_informer, node_informer, pod_informer, pods_by_node, volume_informer},
    int_or_string::{IntOrString, Rounding},
    node::{ContainerImage, Node, NodeSpec, NodeStatus},
    persistent_volume::{
        ClaimRef, CsiVolumeSource, HostPath, PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus,
        StorageRequest, VolumeMode, VolumeNodeAffinity, VolumePhase,
    },
    persistent_volume_claim::{
        ClaimPhase, ClaimResources, ModifyVolumeStatus, PersistentVolumeClaim, PersistentVolumeClaimSpec,
        PersistentVolumeClaimStatus,
    },
    pod::{Pod, PodPhase, PodStatus},
    pod_spec::{PodSpec, RestartPolicy, TemplateSpec},
    resource_list::{ResourceList, ResourceQuantity},
    taint::{Taint, Toleration},
    topology_spread::TopologySpreadConstraint,
    volume::{Volume, VolumeSource},
};
