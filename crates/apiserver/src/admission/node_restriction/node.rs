//! `NodeRestriction` for Nodes: a kubelet must not set labels and taints that attract pods meant for other nodes.

use std::collections::BTreeSet;

use k3_api::{go, status::Status, strategy::Tree};
use serde_json::{Map, Value};

use super::NodeRequest;
use crate::admission::Operation;

/// Labels of Kubernetes that nodes set on themselves.
const OWN: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// Namespaces of labels that nodes set on themselves.
const OWN_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

// upstream: plugin/pkg/admission/noderestriction/admission.go admitNode, getForbiddenLabels
pub(super) fn admit(asked: &NodeRequest<'_>) -> Result<(), Status> {
    let node = asked.quoted();
    if asked.name() != asked.node {
        let other = go::quote(asked.name());
        return asked.refuse(format!("node {node} is not allowed to modify node {other}"));
    }
    let spec = asked.object().at("spec");
    let labels = labels(asked.object());
    if asked.attributes.operation == Operation::Create {
        if spec.has("configSource") {
            return asked.refuse(format!(
                "node {node} is not allowed to create pods with a non-nil configSource"
            ));
        }
        let forbidden = forbidden(labels, &Map::new());
        if !forbidden.is_empty() {
            return asked.refuse(format!(
                "node {node} is not allowed to set the following labels: {forbidden}"
            ));
        }
    }
    let Some(old) = asked.attributes.old else {
        return Ok(());
    };
    let before = old.at("spec");
    if spec.has("configSource") && spec.at("configSource") != before.at("configSource") {
        return asked.refuse(format!(
            "node {node} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    if spec.items("taints") != before.items("taints") {
        return asked.refuse(format!("node {node} is not allowed to modify taints"));
    }
    let owners = |node: &Value| node.at("metadata").items("ownerReferences").to_vec();
    if owners(asked.object()) != owners(old) {
        return asked.refuse(format!("node {node} is not allowed to modify ownerReferences"));
    }
    let forbidden = forbidden(labels, self::labels(old));
    if forbidden.is_empty() {
        return Ok(());
    }
    asked.refuse(format!("is not allowed to modify labels: {forbidden}"))
}

fn labels(node: &Value) -> &Map<String, Value> {
    node.at("metadata").entries("labels")
}

/// The labels that are changed and not a node's to change.
fn forbidden(new: &Map<String, Value>, old: &Map<String, Value>) -> String {
    let forbidden: BTreeSet<_> = new
        .keys()
        .chain(old.keys())
        .filter(|key| new.get(*key) != old.get(*key) && is_forbidden(key))
        .map(String::as_str)
        .collect();
    Vec::from_iter(forbidden).join(", ")
}

fn is_forbidden(key: &str) -> bool {
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    let is_in = |parent: &str| {
        namespace == parent
            || namespace
                .strip_suffix(parent)
                .is_some_and(|below| below.ends_with('.'))
    };
    let is_own = OWN.contains(&key) || OWN_NAMESPACES.into_iter().any(is_in);
    is_in("node-restriction.kubernetes.io") || ((is_in("kubernetes.io") || is_in("k8s.io")) && !is_own)
}
