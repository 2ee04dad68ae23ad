//! EndpointSlices, as controllers read and write them.

use k3_workloads::{ObjectMeta, projected_object};
use serde::{Deserialize, Deserializer, Serialize};

use super::Target;

/// An EndpointSlice.
// upstream: staging/src/k8s.io/api/discovery/v1/types.go EndpointSlice
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// What its addresses are: `IPv4`, `IPv6` or names.
    pub address_type: Box<str>,
    /// The endpoints.
    #[serde(deserialize_with = "nullable")]
    pub endpoints: Vec<Endpoint>,
    /// The ports that all of them have.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<SlicePort>,
}

projected_object!(EndpointSlice);

/// An endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Its addresses, which mean the same.
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<Box<str>>,
    /// How it is.
    pub conditions: EndpointConditions,
    /// The name it has within the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<Box<Target>>,
    /// The node it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Box<str>>,
    /// The zone it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Box<str>>,
    /// Hints for consumers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<EndpointHints>>,
}

/// How an endpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Ready for traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Serving, ready or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// The pod is terminating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// Hints for consumers of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// Those in these zones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<EndpointHint>,
    /// Those on these nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<EndpointHint>,
}

/// A zone or a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointHint {
    /// Its name.
    pub name: Box<str>,
}

/// A port of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlicePort {
    /// The name; may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// The protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Box<str>>,
    /// The number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// appProtocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Box<str>>,
}

/// An empty list is written as null.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(from).map(Option::unwrap_or_default)
}

// --- EndpointHints ---

impl EndpointHints {
    /// Hints for a zone and a node; `None` if there is neither.
    pub fn new(zone: Option<&str>, node: Option<&str>) -> Option<Box<Self>> {
        let hint = |name: Option<&str>| {
            name.map(|name| EndpointHint { name: name.into() })
                .into_iter()
                .collect()
        };
        let hints = EndpointHints {
            for_zones: hint(zone),
            for_nodes: hint(node),
        };
        (hints != EndpointHints::default()).then(|| Box::new(hints))
    }
}
