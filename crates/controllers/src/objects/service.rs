//! Services, as controllers see them.

use std::collections::BTreeMap;

use k3_workloads::{IntOrString, StringMap};
use serde::Deserialize;

use super::Projection;

/// A service.
pub type Service = Projection<ServiceSpec>;

/// Service spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// Pod selector. Without it, endpoints are managed by another client.
    pub selector: BTreeMap<Box<str>, Box<str>>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// clusterIP; `None` for a headless Service.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Box<str>,
    /// The families of its addresses, the first one first.
    pub ip_families: Vec<Box<str>>,
    /// How it is reached: `ClusterIP` and others.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// Whether unready pods are published as ready.
    pub publish_not_ready_addresses: bool,
    /// trafficDistribution.
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
    /// appProtocol.
    pub app_protocol: Option<Box<str>>,
    /// The port of the pods, by number or by the name that a container gives it.
    pub target_port: IntOrString,
}

// --- Service ---

impl Service {
    /// Whether pods are chosen for it: it has a selector, and is no mere name for something outside.
    pub fn selects_pods(&self) -> bool {
        &*self.spec.kind != "ExternalName" && !self.spec.selector.is_empty()
    }

    /// Whether pods with these labels are behind it.
    // upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go getServicesForPod
    pub fn selects(&self, labels: &StringMap) -> bool {
        let mut wanted = self.spec.selector.iter();
        !self.spec.selector.is_empty() && wanted.all(|(label, value)| labels.get(label) == Some(&**value))
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
