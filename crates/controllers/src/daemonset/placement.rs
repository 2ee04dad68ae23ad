//! On which nodes the pods of a daemon set are to run.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{Node, NodeSelector, Taint, Template, Toleration};

/// What the pods of every daemon set bear: whatever is wrong with a node, what looks after it is needed there.
const BORNE: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// What those bear that are in the network of their node.
const NO_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Which nodes a template asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Placement {
    node_name: Box<str>,
    node_selector: BTreeMap<Box<str>, Box<str>>,
    affinity: Affinity,
    /// Those that are added among them.
    tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

/// What a node is to a daemon set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fit {
    /// A pod is to be there.
    Runs,
    /// A pod that is there may stay; none is sent there.
    Stays,
    /// No pod is to be there.
    #[default]
    No,
}

// --- Placement ---

impl Placement {
    /// What a template asks for. One that cannot be read asks for a node that there is not.
    pub(super) fn of(template: &Template) -> Self {
        let spec = template.tree().map(|mut tree| tree["spec"].take());
        let read = spec.and_then(|mut spec| {
            add_tolerations(&mut spec);
            serde_json::from_value(spec)
        });
        read.unwrap_or_else(|_| Placement {
            node_name: "/".into(),
            ..Placement::default()
        })
    }

    /// What a node is to the set.
    pub(super) fn fit(&self, node: &Node) -> Fit {
        if !self.node_name.is_empty() && self.node_name != node.metadata.name {
            return Fit::No;
        }
        let selects = self
            .node_selector
            .iter()
            .all(|(label, value)| node.metadata.labels.get(label) == Some(value));
        let required = self.affinity.node_affinity.required.as_ref();
        let matches = selects && required.is_none_or(|required| required.matches(node));
        if !matches {
            return Fit::No;
        }
        let bears = |taint: &Taint| self.tolerations.iter().any(|toleration| toleration.bears(taint));
        let mut unborne = node.spec.taints.iter().filter(|taint| !bears(taint));
        let worst = unborne.try_fold(Fit::Runs, |fit, taint| match &*taint.effect {
            "NoExecute" => None,
            "NoSchedule" => Some(Fit::Stays),
            _ => Some(fit),
        });
        worst.unwrap_or(Fit::No)
    }
}

/// Adds what the pods of every daemon set bear to the spec of a pod. One that is there for a while only is there for ever then.
pub(super) fn add_tolerations(spec: &mut Value) {
    let in_host_network = spec["hostNetwork"] == true;
    let mut tolerations = spec["tolerations"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    let added = BORNE.iter().chain(in_host_network.then_some(&NO_NETWORK));
    for (key, effect) in added {
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |there: &Value| {
            let fields = ["key", "operator", "effect", "value"];
            let text = |tree: &Value, field: &str| tree[field].as_str().unwrap_or_default().to_owned();
            fields
                .iter()
                .all(|field| text(there, field) == text(&added, field))
        };
        let mut is_there = false;
        for there in tolerations.iter_mut().filter(|there| is_same(there)) {
            *there = added.clone();
            is_there = true;
        }
        if !is_there {
            tolerations.push(added);
        }
    }
    spec["tolerations"] = tolerations.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(spec: &Value) -> Placement {
        Placement::of(&Template::new(&json!({"spec": spec})).unwrap())
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
    fn taints_that_are_not_borne_keep_pods_away() {
        let cases: [(Taints<'_>, Value, Fit); 10] = [
            (&[], json!({}), Fit::Runs),
            (&[("a", "NoSchedule")], json!({}), Fit::Stays),
            (&[("a", "NoExecute")], json!({}), Fit::No),
            (&[("a", "NoSchedule"), ("b", "NoExecute")], json!({}), Fit::No),
            (&[("a", "PreferNoSchedule")], json!({}), Fit::Runs),
            (
                &[("a", "NoSchedule")],
                json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
                Fit::Runs,
            ),
            (
                &[("node.kubernetes.io/unschedulable", "NoSchedule")],
                json!({}),
                Fit::Runs,
            ),
            (
                &[("node.kubernetes.io/not-ready", "NoExecute")],
                json!({}),
                Fit::Runs,
            ),
            (
                &[("node.kubernetes.io/network-unavailable", "NoSchedule")],
                json!({}),
                Fit::Stays,
            ),
            (
                &[("node.kubernetes.io/network-unavailable", "NoSchedule")],
                json!({"hostNetwork": true}),
                Fit::Runs,
            ),
        ];
        for (taints, spec, expected) in cases {
            assert_eq!(placement(&spec).fit(&node(taints)), expected, "{taints:?} {spec}");
        }
    }

    #[test]
    fn a_template_may_ask_for_nodes() {
        let affinity = |disk: &str| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}]}}}})
        };
        let cases = [
            (json!({"nodeName": "n1"}), Fit::Runs),
            (json!({"nodeName": "n2"}), Fit::No),
            (json!({"nodeSelector": {"disk": "ssd"}}), Fit::Runs),
            (json!({"nodeSelector": {"disk": "hdd"}}), Fit::No),
            (affinity("ssd"), Fit::Runs),
            (affinity("hdd"), Fit::No),
        ];
        for (spec, expected) in cases {
            assert_eq!(placement(&spec).fit(&node(&[])), expected, "{spec}");
        }
    }

    #[test]
    fn tolerations_are_added_once() {
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
