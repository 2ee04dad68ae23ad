//! ReplicaSets and ReplicationControllers, which differ in their selector only.

use std::collections::BTreeMap;

use k3_workloads::Condition;
use kubecontroller::selector::Selector;
use serde::{Deserialize, Deserializer};

use super::{Projection, Template};

/// A replica set.
pub type ReplicaSet = Projection<ReplicaSpec<Selector>, ReplicaStatus>;

/// A replication controller.
pub type ReplicationController = Projection<ReplicaSpec<LabelEqualitySelector>, ReplicaStatus>;

/// ReplicaSet spec.
// upstream: staging/src/k8s.io/api/apps/v1/types.go ReplicaSetSpec
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSpec<S> {
    /// How many.
    #[serde(default = "one")]
    pub replicas: i32,
    /// How long a pod is ready before it counts as available.
    pub min_ready_seconds: i32,
    /// The pod selector.
    pub selector: S,
    /// The pod template.
    pub template: Template,
}

/// How many pods there are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaStatus {
    /// How many.
    pub replicas: i32,
    /// Pods with all labels of the template.
    pub fully_labeled_replicas: i32,
    /// Ready pods.
    pub ready_replicas: i32,
    /// Available pods.
    pub available_replicas: i32,
    /// Terminating pods; not set for ReplicationControllers.
    pub terminating_replicas: Option<i32>,
    /// The generation of the spec that this is about.
    pub observed_generation: i64,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// A selector that is written as the labels that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelEqualitySelector(Selector);

fn one() -> i32 {
    1
}

// --- EqualSelector ---

impl<'de> Deserialize<'de> for LabelEqualitySelector {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let labels = BTreeMap::<String, String>::deserialize(from)?;
        Ok(LabelEqualitySelector(Selector::from_labels(labels)))
    }
}

impl AsRef<Selector> for LabelEqualitySelector {
    fn as_ref(&self) -> &Selector {
        &self.0
    }
}
