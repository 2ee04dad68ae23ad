//! Quota usage of a Service.

// upstream: pkg/quota/v1/evaluator/core/services.go Usage, portsWithNodePorts

use serde_json::Value;

use super::pieces;
use crate::{kinds::pod_amounts::Totals, strategy::Tree};

const NAMES: [&str; 4] = [
    "count/services",
    "services",
    "services.nodeports",
    "services.loadbalancers",
];

pub(super) fn tracks(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Ports of nodes count as they are meant: most are not given yet.
pub(super) fn usage(service: &Value) -> Totals {
    let spec = service.at("spec");
    let ports = spec.items("ports");
    let is_balanced = spec.text("type") == "LoadBalancer";
    let node_ports = match spec.text("type") {
        "LoadBalancer" if spec.at("allocateLoadBalancerNodePorts") == &Value::Bool(false) => ports
            .iter()
            .filter(|port| port.int("nodePort").is_some_and(|port| port != 0))
            .count(),
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    let counts = [1, 1, node_ports, usize::from(is_balanced)];
    NAMES
        .into_iter()
        .zip(counts)
        .map(|(name, count)| (name.to_owned(), pieces(count)))
        .collect()
}
