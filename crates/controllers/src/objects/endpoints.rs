//! Endpoints, as controllers read and write them.

use k3_workloads::{ObjectMeta, projected_object};
use serde::{Deserialize, Serialize};

/// Endpoints of a Service.
// upstream: staging/src/k8s.io/api/core/v1/types.go Endpoints, EndpointSubset
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// Addresses that have the same ports.
    pub subsets: Vec<Subset>,
}

projected_object!(Endpoints);

/// Addresses, and the ports that all of them have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subset {
    /// Ready addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<EndpointAddress>,
    /// Unready addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// The ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<AddressPort>,
}

/// An address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    /// The address.
    pub ip: Box<str>,
    /// The name it has within the service.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub hostname: Box<str>,
    /// The node it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Box<str>>,
    /// The object with the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<Box<Target>>,
}

/// A port of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressPort {
    /// The name; may be empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The number.
    pub port: i32,
    /// The protocol.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub protocol: Box<str>,
    /// appProtocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Box<str>>,
}

/// The object with an address. Equality ignores its resourceVersion.
#[derive(Clone, Debug, Default, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Target {
    /// The kind.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: Box<str>,
    /// The namespace.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Box<str>,
    /// The name.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The uid.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: Box<str>,
    /// Group and version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub api_version: Box<str>,
    /// The version it was seen at.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: Box<str>,
    /// fieldPath.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub field_path: Box<str>,
}

// --- Target ---

impl Target {
    /// A pod.
    pub fn pod(meta: &ObjectMeta) -> Box<Self> {
        Box::new(Target {
            kind: "Pod".into(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            ..Target::default()
        })
    }

    fn facts(&self) -> [&str; 6] {
        [
            &self.kind,
            &self.namespace,
            &self.name,
            &self.uid,
            &self.api_version,
            &self.field_path,
        ]
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        self.facts() == other.facts()
    }
}
