//! Services, as controllers see them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Projection;

/// A service.
pub type Service = Projection<ServiceSpec>;

/// What a service is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// The labels of the pods behind it. Without any, somebody else says what is behind it.
    pub selector: BTreeMap<Box<str>, Box<str>>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Its address; `None` in words if it is to have none.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Box<str>,
    /// The families of its addresses, the first one first.
    pub ip_families: Vec<Box<str>>,
    /// How it is reached: `ClusterIP` and others.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// Whether pods that are not ready are told of as if they were.
    pub publish_not_ready_addresses: bool,
    /// Which endpoints are to be preferred.
    pub traffic_distribution: Box<str>,
}

/// A port of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// The name; may be empty.
    pub name: Box<str>,
    /// The protocol.
    pub protocol: Box<str>,
    /// What is spoken there.
    pub app_protocol: Option<Box<str>>,
    /// The port of the pods.
    pub target_port: TargetPort,
}

/// A port of a pod, by number or by the name that a container gives it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum TargetPort {
    /// The number.
    Number(i32),
    /// The name.
    Name(Box<str>),
}

// --- Service ---

impl Service {
    /// Whether pods are chosen for it: it has a selector, and is no mere name for something outside.
    pub fn selects_pods(&self) -> bool {
        &*self.spec.kind != "ExternalName" && !self.spec.selector.is_empty()
    }

    /// Whether pods with these labels are behind it.
    pub fn selects(&self, labels: &BTreeMap<Box<str>, Box<str>>) -> bool {
        let mut wanted = self.spec.selector.iter();
        !self.spec.selector.is_empty() && wanted.all(|(label, value)| labels.get(label) == Some(value))
    }

    /// Whether it is to have no address of its own.
    pub fn is_headless(&self) -> bool {
        &*self.spec.cluster_ip == "None"
    }

    /// Whether it has an address of its own.
    pub fn has_address(&self) -> bool {
        !self.is_headless() && !self.spec.cluster_ip.is_empty()
    }
}

// --- TargetPort ---

impl Default for TargetPort {
    fn default() -> Self {
        TargetPort::Number(0)
    }
}
