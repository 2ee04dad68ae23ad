//! Nodes, as controllers see them.

use k3_api::quantity::Quantity;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Condition, ConditionStatus, Projection};

/// A node.
pub type Node = Projection<NodeSpec, NodeStatus>;

/// Node spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The networks of its pods.
    #[serde(rename = "podCIDRs")]
    pub pod_networks: Vec<Box<str>>,
}

/// A taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// The name.
    pub key: Box<str>,
    /// The value; may be empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub value: Box<str>,
    /// How: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Box<str>,
    /// Since when, as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Box<str>>,
}

/// Node status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// Allocatable resources.
    pub allocatable: Allocatable,
}

/// Allocatable resources of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Allocatable {
    /// Thousandths of processors.
    #[serde(rename = "cpu", deserialize_with = "milli")]
    pub milli_cpu: i64,
}

// --- Node ---

impl Node {
    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        Condition::holds(&self.status.conditions, "Ready")
    }

    /// The status of a condition; `None` if it is missing, which differs from Unknown.
    // upstream: pkg/controller/util/node/controller_utils.go GetNodeCondition
    pub fn condition(&self, kind: &str) -> Option<ConditionStatus> {
        Condition::find(&self.status.conditions, kind).map(|condition| condition.status)
    }

    /// Whether it has a taint of that name.
    pub fn has_taint(&self, key: &str) -> bool {
        self.spec.taints.iter().any(|taint| &*taint.key == key)
    }
}

/// An amount in milli-units; zero if it is invalid.
fn milli<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let amount = Option::<serde_json::Value>::deserialize(from)?;
    let amount = amount.and_then(|amount| Quantity::from_value(&amount).ok());
    Ok(amount.map_or(0, |amount| amount.milli_value()))
}
