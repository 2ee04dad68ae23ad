//! Affinity of pods to nodes and to other pods.

use kubecontroller::selector::{NodeSelector, NodeSelectorTerm, Selector};
use serde::Deserialize;

use crate::internable;

/// Affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// To nodes.
    pub node_affinity: Option<NodeAffinity>,
    /// To pods.
    pub pod_affinity: Option<PodAffinity>,
    /// Away from pods.
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// Affinity to nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution`
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<PreferredSchedulingTerm>,
}

/// Nodes that are preferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct PreferredSchedulingTerm {
    /// How much.
    pub weight: i64,
    /// The nodes.
    pub preference: NodeSelectorTerm,
}

/// Affinity to pods, or anti-affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution`
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Vec<PodAffinityTerm>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// Pods that are preferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedPodAffinityTerm {
    /// How much.
    pub weight: i64,
    /// The pods.
    pub pod_affinity_term: PodAffinityTerm,
}

/// Other pods, and the topology in which they are near.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// Their labels.
    pub label_selector: Option<Selector>,
    /// Their namespaces by name.
    pub namespaces: Vec<Box<str>>,
    /// Their namespaces by label.
    pub namespace_selector: Option<Selector>,
    /// The label of nodes that must be equal.
    pub topology_key: Box<str>,
}

internable!(Affinity);
