//! Simulated nodes: registration, status, leases and availability.

mod conditions;
mod controller;
mod leases;
mod network;
mod slot;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k3_api::quantity::Quantity;
use k3_workloads::Node;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kubecontroller::object::Object;
use serde_json::{Value, json};

use self::conditions::REPORTED_CONDITIONS;
pub(crate) use self::{
    controller::{NodeController, NodeKeys},
    leases::LeaseController,
    network::{Network, address_of},
};
use crate::{
    condition::DesiredCondition,
    rules::{NodeRule, Rules},
};

/// The prefix of the names of simulated nodes.
const PREFIX: &str = "simulated-";
/// The capacity of a node unless a rule overrides it.
const CAPACITY: [(&str, &str); 4] = [
    ("cpu", "32"),
    ("ephemeral-storage", "1Ti"),
    ("memory", "256Gi"),
    ("pods", "110"),
];
/// The reported kubelet version.
const KUBELET: &str = "v1.37.0";

/// All simulated nodes.
#[derive(Clone)]
pub(crate) struct SimulatedNodes {
    pub(crate) count: u32,
    pub(crate) rules: Arc<Rules>,
}

/// Whether a node reports to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// The node reports, until a time or forever.
    Up(Option<Timestamp>),
    /// The node is silent, until a time or forever.
    Down(Option<Timestamp>),
}

/// The name of a node.
pub(crate) fn name(number: u32) -> String {
    format!("{PREFIX}{number}")
}

/// The number of a simulated node.
pub(crate) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(PREFIX)?;
    let is_plain = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| is_plain)
}

// --- SimulatedNodes ---

impl SimulatedNodes {
    /// The number of a node of this set.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        number(name).filter(|number| *number < self.count)
    }

    /// Whether a node reports to the API at `now`.
    pub(crate) fn availability(&self, number: u32, node: &Node, now: Timestamp) -> Availability {
        let vanish = self.rules.node(number).and_then(|rule| rule.vanish);
        let (Some(vanish), Some(created_at)) = (vanish, node.metadata.creation_timestamp) else {
            return Availability::Up(None);
        };
        let down_at = created_at + self.rules.length(vanish.delay(), &name(number), "vanish", 0);
        let up_at = vanish.length.map(|length| down_at + length);
        if now < down_at {
            Availability::Up(Some(down_at))
        } else if up_at.is_none_or(|up_at| now < up_at) {
            Availability::Down(up_at)
        } else {
            Availability::Up(None)
        }
    }

    fn labels(&self, number: u32) -> BTreeMap<String, String> {
        let fixed = [
            ("beta.kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/os", "linux"),
        ];
        let mut labels: BTreeMap<String, String> = fixed
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        labels.insert("kubernetes.io/hostname".to_owned(), name(number));
        if let Some(rule) = self.rules.node(number) {
            let topology = [("zone", rule.zone(number)), ("region", rule.region.as_deref())];
            for (name, value) in topology {
                if let Some(value) = value {
                    labels.insert(format!("topology.kubernetes.io/{name}"), value.to_owned());
                }
            }
            labels.extend(rule.labels.clone());
        }
        labels
    }

    fn capacity(&self, number: u32) -> BTreeMap<&str, &str> {
        let mut capacity = BTreeMap::from(CAPACITY);
        let rule = self.rules.node(number).map(|NodeRule { capacity, .. }| capacity);
        capacity.extend(
            rule.into_iter()
                .flatten()
                .map(|(name, amount)| (&**name, &**amount)),
        );
        capacity
    }

    // upstream: pkg/kubelet/kubelet_node_status.go initialNode
    /// The object that registers a node.
    fn initial_node(&self, number: u32, now: Timestamp) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name(number), "labels": self.labels(number)},
            "status": self.status(number, &Node::default(), now),
        })
    }

    /// The status of a node.
    fn status(&self, number: u32, known: &Node, now: Timestamp) -> Value {
        let conditions = REPORTED_CONDITIONS.map(|(kind, holds, reason, message)| {
            let wanted = DesiredCondition {
                kind,
                holds,
                reason,
                message,
            };
            let mut patch = wanted.patch(known.condition(kind), now);
            patch.insert("lastHeartbeatTime".to_owned(), json!(Time(now)));
            Value::Object(patch)
        });
        let name = name(number);
        let capacity = self.capacity(number);
        json!({
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": address_of(number)},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": name,
                "containerRuntimeVersion": "simulated://1",
                "kernelVersion": "simulated",
                "kubeProxyVersion": "",
                "kubeletVersion": KUBELET,
                "machineID": name,
                "operatingSystem": "linux",
                "osImage": "simulated",
                "systemUUID": name,
            },
        })
    }

    /// Whether the reported status of a node matches the desired one.
    fn is_status_current(&self, number: u32, node: &Node) -> bool {
        let status = &node.status;
        let has_condition = |kind, holds: bool| node.condition(kind) == Some(holds.into());
        let has = |name: &str, amount: &str| {
            let known = status
                .capacity
                .get(name)
                .and_then(|known| known.parse::<Quantity>().ok());
            known.is_some_and(|known| amount.parse::<Quantity>().is_ok_and(|amount| amount == known))
        };
        // Older versions assigned routable addresses.
        status.internal_ip == Some(address_of(number))
            && REPORTED_CONDITIONS
                .iter()
                .all(|(kind, holds, ..)| has_condition(kind, *holds))
            && self
                .capacity(number)
                .into_iter()
                .all(|(name, amount)| has(name, amount))
    }

    /// Whether a node has all desired labels.
    fn has_desired_labels(&self, number: u32, node: &Node) -> bool {
        let labels = self.labels(number);
        labels.iter().all(|(name, value)| node.label(name) == Some(value))
    }
}

// --- Availability ---

impl Availability {
    /// The remaining time in this state; `None` if it is permanent.
    pub(crate) fn remaining(self, now: Timestamp) -> Option<Duration> {
        let (Availability::Up(end) | Availability::Down(end)) = self;
        end.map(|end| until(end, now))
    }
}

/// The duration until `then`; zero if it has passed.
pub(crate) fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulated_nodes(rules: &str) -> SimulatedNodes {
        SimulatedNodes {
            count: 10,
            rules: Arc::new(Rules::parse(rules).unwrap()),
        }
    }

    #[test]
    fn parses_node_names() {
        assert_eq!(
            (number("simulated-0"), number("simulated-12")),
            (Some(0), Some(12))
        );
        for other in [
            "simulated-",
            "simulated-01",
            "simulated-+1",
            "simulated-x",
            "node-1",
        ] {
            assert_eq!(number(other), None, "{other}");
        }
        assert_eq!(simulated_nodes("").number("simulated-10"), None);
    }

    #[test]
    fn rules_set_labels_and_capacity() {
        let simulated_nodes = simulated_nodes(
            "nodes: [{match: {first: 2, last: 3}, zones: [a, b, c], region: north, labels: {disk: ssd}, capacity: {cpu: 64}}]",
        );
        let labels = simulated_nodes.labels(2);
        assert_eq!(labels["topology.kubernetes.io/zone"], "c");
        assert_eq!(labels["topology.kubernetes.io/region"], "north");
        assert_eq!(labels["disk"], "ssd");
        assert_eq!(
            (
                simulated_nodes.capacity(2)["cpu"],
                simulated_nodes.capacity(4)["cpu"]
            ),
            ("64", "32")
        );
        assert_eq!(simulated_nodes.labels(4).len(), 5);
    }

    #[test]
    fn node_is_down_for_the_configured_time() {
        let simulated_nodes = simulated_nodes("nodes: [{vanish: {after: 10s, for: 5s}}]");
        let created_at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let node = r#"{"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}"#;
        let node: Node = serde_json::from_str(node).unwrap();
        let after = |seconds| created_at + Duration::from_secs(seconds);
        for (now, availability) in [
            (9, Availability::Up(Some(after(10)))),
            (10, Availability::Down(Some(after(15)))),
            (15, Availability::Up(None)),
        ] {
            assert_eq!(simulated_nodes.availability(0, &node, after(now)), availability);
        }
    }
}
