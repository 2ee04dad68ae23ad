//! The cached part of a node.

use std::net::IpAddr;

use k8s_openapi::jiff::Timestamp;
use kubecontroller::object::{Object, StringMap};
use serde::{Deserialize, Deserializer};

use super::network::Network;
use crate::{
    condition::{ConditionFields, ConditionStates},
    meta::ObjectMeta,
};

/// The cached part of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: NodeSpec,
    pub(crate) status: NodeStatus,
}

impl Object for Node {
    type Metadata = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    /// The pod networks.
    #[serde(rename = "podCIDRs", deserialize_with = "networks")]
    pub(crate) networks: Vec<Network>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    pub(crate) capacity: StringMap,
    pub(crate) conditions: NodeConditions,
    /// The address of type `InternalIP`.
    #[serde(rename = "addresses", deserialize_with = "internal_ip")]
    pub(crate) internal_ip: Option<IpAddr>,
}

/// The conditions of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeConditions {
    pub(crate) reported: ConditionStates,
    /// `lastHeartbeatTime` of the condition `Ready`.
    pub(crate) heartbeat: Option<Timestamp>,
}

/// The conditions that a kubelet reports: type, status, reason and message.
pub(crate) const REPORTED_CONDITIONS: [(&str, bool, &str, &str); 4] = [
    (
        "MemoryPressure",
        false,
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        false,
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        false,
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    ("Ready", true, "KubeletReady", "kubelet is posting ready status"),
];

/// The types of [`REPORTED_CONDITIONS`].
pub(crate) const REPORTED_TYPES: [&str; 4] = [
    REPORTED_CONDITIONS[0].0,
    REPORTED_CONDITIONS[1].0,
    REPORTED_CONDITIONS[2].0,
    REPORTED_CONDITIONS[3].0,
];

fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Network>, D::Error> {
    let texts = Option::<Vec<Box<str>>>::deserialize(from)?.unwrap_or_default();
    Ok(texts.iter().filter_map(|text| text.parse().ok()).collect())
}

fn internal_ip<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IpAddr>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Address {
        #[serde(rename = "type")]
        kind: Option<Box<str>>,
        address: Option<Box<str>>,
    }
    let addresses = Option::<Vec<Address>>::deserialize(from)?.unwrap_or_default();
    let internal = addresses
        .into_iter()
        .find(|found| found.kind.as_deref() == Some("InternalIP"));
    Ok(internal.and_then(|found| found.address?.parse().ok()))
}

impl<'de> Deserialize<'de> for NodeConditions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut conditions = NodeConditions::default();
        for read in Option::<Vec<ConditionFields>>::deserialize(from)?.unwrap_or_default() {
            conditions.reported.record(&REPORTED_TYPES, &read);
            if &*read.kind == "Ready" {
                conditions.heartbeat = read.last_heartbeat_time;
            }
        }
        Ok(conditions)
    }
}
