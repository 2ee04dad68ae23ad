//! Nodes.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer};

use crate::{
    Condition, ConditionStatus, ObjectMeta, ResourceList, Shared, SharedList, StringMap, Taint, internable,
    projected_object, status_values,
};

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: NodeSpec,
    /// The status.
    pub status: NodeStatus,
}

projected_object!(Node);

/// Node spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Its taints.
    pub taints: SharedList<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The networks of its pods.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Vec<Box<str>>,
}

/// Node status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// What pods can use.
    #[serde(deserialize_with = "status_values::resource_list")]
    pub allocatable: Shared<ResourceList>,
    /// What it has, as it was written.
    pub capacity: StringMap,
    /// The first address of type `InternalIP`.
    #[serde(rename = "addresses", deserialize_with = "internal_ip")]
    pub internal_ip: Option<IpAddr>,
    /// The images that it has.
    pub images: Box<[Shared<ContainerImage>]>,
}

/// An image of a node. Nodes have many images in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// Its names.
    pub names: Box<[Box<str>]>,
    /// Its size.
    pub size_bytes: i64,
}

internable!(ContainerImage);

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

    /// Allocatable thousandths of processors.
    pub fn milli_cpu(&self) -> i64 {
        self.status
            .allocatable
            .get("cpu")
            .map_or(0, |amount| amount.milli)
    }

    /// Whether it has a taint of that name.
    pub fn has_taint(&self, key: &str) -> bool {
        self.spec.taints.iter().any(|taint| &*taint.key == key)
    }
}

fn internal_ip<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IpAddr>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct NodeAddressFields {
        #[serde(rename = "type")]
        kind: Box<str>,
        address: Box<str>,
    }
    let addresses = Option::<Vec<NodeAddressFields>>::deserialize(from)?.unwrap_or_default();
    let internal = addresses.iter().find(|found| &*found.kind == "InternalIP");
    Ok(internal.and_then(|found| found.address.parse().ok()))
}
