//! Simulated nodes: what they are, when they are heard of, and who keeps them up to date.

mod controller;
mod leases;
mod network;
mod object;
mod slot;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k3_api::quantity::Quantity;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kubecontroller::object::Object;
use serde_json::{Value, json};

use self::object::{OWN, TYPES};
pub(crate) use self::{
    controller::{NodeController, NodeKeys},
    leases::LeaseController,
    network::{Network, address_of},
    object::Node,
};
use crate::{
    condition::DesiredCondition,
    rules::{NodeRule, Rules},
};

/// What the names of simulated nodes begin with.
const PREFIX: &str = "simulated-";
/// What a node has unless a rule sets it.
const CAPACITY: [(&str, &str); 4] = [
    ("cpu", "32"),
    ("ephemeral-storage", "1Ti"),
    ("memory", "256Gi"),
    ("pods", "110"),
];
/// The version of the kubelet that there is none of.
const KUBELET: &str = "v1.37.0";

/// All simulated nodes.
#[derive(Clone)]
pub(crate) struct SimulatedNodes {
    pub(crate) count: u32,
    pub(crate) rules: Arc<Rules>,
}

/// Whether a node is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It is, until then, or for good.
    Up(Option<Timestamp>),
    /// It is not, until then, or for good.
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
    /// The number of a node, if it is one of these.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        number(name).filter(|number| *number < self.count)
    }

    /// Whether a node is heard of.
    pub(crate) fn availability(&self, number: u32, node: &Node, now: Timestamp) -> Availability {
        let vanish = self.rules.node(number).and_then(|rule| rule.vanish);
        let (Some(vanish), Some(made)) = (vanish, node.metadata.made()) else {
            return Availability::Up(None);
        };
        let leaves = made + self.rules.length(vanish.delay(), &name(number), "vanish", 0);
        let returns = vanish.length.map(|length| leaves + length);
        if now < leaves {
            Availability::Up(Some(leaves))
        } else if returns.is_none_or(|returns| now < returns) {
            Availability::Down(returns)
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

    /// A node as it registers itself.
    fn made(&self, number: u32, now: Timestamp) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name(number), "labels": self.labels(number)},
            "status": self.status(number, &Node::default(), now),
        })
    }

    /// The status of a node.
    fn status(&self, number: u32, known: &Node, now: Timestamp) -> Value {
        let conditions = OWN.map(|(kind, holds, reason, message)| {
            let wanted = DesiredCondition {
                kind,
                holds,
                reason,
                message,
            };
            let mut patch = wanted.patch(known.status.conditions.own.get(&TYPES, kind), now);
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

    /// Whether the status of a node is as desired.
    fn is_described(&self, number: u32, node: &Node) -> bool {
        let status = &node.status;
        let has_condition = |kind, holds: bool| status.conditions.own.get(&TYPES, kind) == holds.into();
        let has = |name: &str, amount: &str| {
            let known = status
                .capacity
                .get(name)
                .and_then(|known| known.parse::<Quantity>().ok());
            known.is_some_and(|known| amount.parse::<Quantity>().is_ok_and(|amount| amount == known))
        };
        // Older versions gave out addresses that machines may have.
        status.internal_ip == Some(address_of(number))
            && OWN.iter().all(|(kind, holds, ..)| has_condition(kind, *holds))
            && self
                .capacity(number)
                .into_iter()
                .all(|(name, amount)| has(name, amount))
    }

    /// Whether a node has the labels that it should.
    fn is_labelled(&self, number: u32, node: &Node) -> bool {
        let labels = self.labels(number);
        labels.iter().all(|(name, value)| node.label(name) == Some(value))
    }
}

// --- Availability ---

impl Availability {
    /// How long it is like this.
    pub(crate) fn left(self, now: Timestamp) -> Option<Duration> {
        let (Availability::Up(end) | Availability::Down(end)) = self;
        end.map(|end| until(end, now))
    }
}

/// How long it is until then.
pub(crate) fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(rules: &str) -> SimulatedNodes {
        SimulatedNodes {
            count: 10,
            rules: Arc::new(Rules::parse(rules).unwrap()),
        }
    }

    #[test]
    fn a_name_has_a_number() {
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
        assert_eq!(fleet("").number("simulated-10"), None);
    }

    #[test]
    fn rules_say_where_a_node_is_and_what_it_has() {
        let fleet = fleet(
            "nodes: [{match: {first: 2, last: 3}, zones: [a, b, c], region: north, labels: {disk: ssd}, capacity: {cpu: 64}}]",
        );
        let labels = fleet.labels(2);
        assert_eq!(labels["topology.kubernetes.io/zone"], "c");
        assert_eq!(labels["topology.kubernetes.io/region"], "north");
        assert_eq!(labels["disk"], "ssd");
        assert_eq!((fleet.capacity(2)["cpu"], fleet.capacity(4)["cpu"]), ("64", "32"));
        assert_eq!(fleet.labels(4).len(), 5);
    }

    #[test]
    fn a_node_vanishes_and_returns() {
        let fleet = fleet("nodes: [{vanish: {after: 10s, for: 5s}}]");
        let made: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let node = r#"{"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}"#;
        let node: Node = serde_json::from_str(node).unwrap();
        let after = |seconds| made + Duration::from_secs(seconds);
        for (now, availability) in [
            (9, Availability::Up(Some(after(10)))),
            (10, Availability::Down(Some(after(15)))),
            (15, Availability::Up(None)),
        ] {
            assert_eq!(fleet.availability(0, &node, after(now)), availability);
        }
    }
}
