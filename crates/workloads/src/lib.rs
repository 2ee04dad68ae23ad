//! Pods and nodes as controllers, scheduler and simulator read them.
//!
//! Promises:
//! - In one process there is one informer of pods and one of nodes ([`pod_informer`], [`node_informer`]): each event is decoded
//!   once, and every reader shares the decoded object.
//! - What no reader needs is skipped while decoding and takes no memory. What many objects have in common, such as the containers
//!   of the pods of one template, is stored once.
//! - `null` is read as Go reads it ([`kubecontroller::decode`]).

mod affinity;
mod condition;
mod container;
mod informers;
mod intern;
mod label_selector;
mod node;
mod node_selector;
mod object_meta;
mod pod;
mod pod_spec;
mod resource_list;
mod status_values;
mod string_map;
mod taint;
mod topology_spread;
mod volume;

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
    informers::{node_informer, pod_informer, pods_by_node},
    intern::{Internable, Interner, Shared, SharedList},
    label_selector::{LabelSelector, SelectorRequirement},
    node::{ContainerImage, Node, NodeSpec, NodeStatus},
    node_selector::{NodeSelector, NodeSelectorTerm},
    object_meta::{ObjectMeta, OwnerReference},
    pod::{Pod, PodPhase, PodStatus},
    pod_spec::{PodSpec, RestartPolicy, TemplateSpec},
    resource_list::{ResourceList, ResourceQuantity},
    string_map::StringMap,
    taint::{Taint, Toleration},
    topology_spread::TopologySpreadConstraint,
    volume::{Volume, VolumeSource},
};
