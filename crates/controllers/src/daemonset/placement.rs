//! Which nodes should run a pod of a DaemonSet.

use k3_workloads::{Node, Taint, Toleration};
use kubecontroller::selector::NodeSelector;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{LabelEqualitySelector, Template};

/// Tolerations of every daemon pod: node agents are needed most on nodes with problems.
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Additional toleration of pods with hostNetwork.
const HOST_NETWORK_TOLERATION: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The node constraints of a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeConstraints {
    node_name: Box<str>,
    node_selector: LabelEqualitySelector,
    affinity: TemplateAffinity,
    /// The tolerations of the template, and those that every daemon pod gets.
    tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TemplateAffinity {
    node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

/// Whether a node should run a daemon pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NodeEligibility {
    /// A pod should run on the node.
    ShouldRun,
    /// An existing pod may continue to run; no new one is created.
    ShouldContinueRunning,
    /// No pod should run on the node.
    #[default]
    Neither,
}

// --- NodeConstraints ---

impl NodeConstraints {
    /// The constraints of a template. An unreadable template matches no node.
    pub(super) fn from_template(template: &Template) -> Self {
        let spec = template.tree().map(|mut tree| tree["spec"].take());
        let read = spec.and_then(|mut spec| {
            add_tolerations(&mut spec);
            serde_json::from_value(spec)
        });
        read.unwrap_or_else(|_| NodeConstraints {
            node_name: "/".into(),
            ..NodeConstraints::default()
        })
    }

    /// Whether a node should run a pod.
    // upstream: pkg/controller/daemon/daemon_controller.go nodeShouldRunDaemonPod, predicates
    pub(super) fn node_should_run_daemon_pod(&self, node: &Node) -> NodeEligibility {
        if !self.node_name.is_empty() && self.node_name != node.metadata.name {
            return NodeEligibility::Neither;
        }
        let labels = &node.metadata.labels;
        let required = self.affinity.node_affinity.required.as_ref();
        let matches = self.node_selector.as_ref().matches(labels)
            && required.is_none_or(|required| required.matches(Some(&node.metadata.name), labels));
        if !matches {
            return NodeEligibility::Neither;
        }
        let tolerates = |taint: &Taint| {
            self.tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint))
        };
        let mut untolerated = node.spec.taints.iter().filter(|taint| !tolerates(taint));
        // `NoExecute` excludes the node, whatever the other taints are; `NoSchedule` still tolerates a running pod.
        let eligibility =
            untolerated.try_fold(NodeEligibility::ShouldRun, |eligibility, taint| {
                match &*taint.effect {
                    "NoExecute" => None,
                    "NoSchedule" => Some(NodeEligibility::ShouldContinueRunning),
                    _ => Some(eligibility),
                }
            });
        eligibility.unwrap_or(NodeEligibility::Neither)
    }
}

/// Adds the tolerations of daemon pods to a pod spec. An existing one with tolerationSeconds becomes unlimited.
// upstream: pkg/controller/daemon/util/daemonset_util.go AddOrUpdateDaemonPodTolerations
pub(super) fn add_tolerations(spec: &mut Value) {
    let in_host_network = spec["hostNetwork"] == true;
    let mut tolerations = spec["tolerations"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    let added = DAEMON_TOLERATIONS
        .iter()
        .chain(in_host_network.then_some(&HOST_NETWORK_TOLERATION));
    for (key, effect) in added {
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |existing: &Value| {
            let fields = ["key", "operator", "effect", "value"];
            let text = |tree: &Value, field: &str| tree[field].as_str().unwrap_or_default().to_owned();
            fields
                .iter()
                .all(|field| text(existing, field) == text(&added, field))
        };
        let mut is_present = false;
        for existing in tolerations.iter_mut().filter(|existing| is_same(existing)) {
            *existing = added.clone();
            is_present = true;
        }
        if !is_present {
            tolerations.push(added);
        }
    }
    spec["tolerations"] = tolerations.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(spec: &Value) -> NodeConstraints {
        NodeConstraints::from_template(&Template::new(&json!({"spec": spec})).unwrap())
    }

    fn node(taints: Taints<'_>) -> Node {
        let taints: Vec<_> = taints
            .iter()
            .map(|(key, effect)| json!({"key": key, "effect": effect}))
            .collect();
        let node = json!({"metadata": {"name": "n1", "labels": {"disk": "ssd"}}, "spec": {"taints": taints}});
        serde_json::from_value(node).unwrap()
    }

    type Taints<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn untolerated_taints_exclude_nodes() {
        let cases: [(Taints<'_>, Value, NodeEligibility); 10] = [
            (&[], json!({}), NodeEligibility::ShouldRun),
            (
                &[("a", "NoSchedule")],
                json!({}),
                NodeEligibility::ShouldContinueRunning,
            ),
            (&[("a", "NoExecute")], json!({}), NodeEligibility::Neither),
            (
                &[("a", "NoSchedule"), ("b", "NoExecute")],
                json!({}),
                NodeEligibility::Neither,
            ),
            (
                &[("a", "PreferNoSchedule")],
                json!({}),
                NodeEligibility::ShouldRun,
            ),
            (
                &[("a", "NoSchedule")],
                json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
                NodeEligibility::ShouldRun,
            ),
            (
                &[("node.kubernetes.io/unschedulable", "NoSchedule")],
                json!({}),
                NodeEligibility::ShouldRun,
            ),
            (
                &[("node.kubernetes.io/not-ready", "NoExecute")],
                json!({}),
                NodeEligibility::ShouldRun,
            ),
            (
                &[("node.kubernetes.io/network-unavailable", "NoSchedule")],
                json!({}),
                NodeEligibility::ShouldContinueRunning,
            ),
            (
                &[("node.kubernetes.io/network-unavailable", "NoSchedule")],
                json!({"hostNetwork": true}),
                NodeEligibility::ShouldRun,
            ),
        ];
        for (taints, spec, expected) in cases {
            assert_eq!(
                placement(&spec).node_should_run_daemon_pod(&node(taints)),
                expected,
                "{taints:?} {spec}"
            );
        }
    }

    #[test]
    fn respects_node_constraints_of_the_template() {
        let affinity = |disk: &str| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}]}}}})
        };
        let cases = [
            (json!({"nodeName": "n1"}), NodeEligibility::ShouldRun),
            (json!({"nodeName": "n2"}), NodeEligibility::Neither),
            (
                json!({"nodeSelector": {"disk": "ssd"}}),
                NodeEligibility::ShouldRun,
            ),
            (json!({"nodeSelector": {"disk": "hdd"}}), NodeEligibility::Neither),
            (affinity("ssd"), NodeEligibility::ShouldRun),
            (affinity("hdd"), NodeEligibility::Neither),
        ];
        for (spec, expected) in cases {
            assert_eq!(
                placement(&spec).node_should_run_daemon_pod(&node(&[])),
                expected,
                "{spec}"
            );
        }
    }

    #[test]
    fn adds_daemon_tolerations_once() {
        let for_a_while = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9});
        let mut spec = json!({"tolerations": [{"key": "a"}, for_a_while]});
        add_tolerations(&mut spec);
        let once = spec.clone();
        add_tolerations(&mut spec);
        assert_eq!(spec, once);
        let tolerations = spec["tolerations"].as_array().unwrap();
        assert_eq!(tolerations.len(), 7);
        assert_eq!(
            tolerations[..2],
            [
                json!({"key": "a"}),
                json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}),
            ]
        );
    }
}
