//! Which nodes, and which other pods, a pod wants to be near.

use kubecontroller::selector::{LabelSelector, LabelSelectorRequirement};
use serde::Deserialize;

use super::Node;
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
    selector::Selector,
};

/// Affinity as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawAffinity {
    /// To nodes.
    pub node_affinity: Option<RawNodeAffinity>,
    /// To pods.
    pub pod_affinity: Option<RawPodAffinity>,
    /// Away from pods.
    pub pod_anti_affinity: Option<RawPodAffinity>,
}

/// Affinity to nodes as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawNodeAffinity {
    /// What must be.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<RawNodeSelector>,
    /// What would be good.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<RawPreferredNodes>,
}

/// A choice of nodes as it stands in an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawNodeSelector {
    /// One of these must hold.
    pub node_selector_terms: Vec<RawNodeTerm>,
}

/// A rule for nodes as it stands in an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawNodeTerm {
    /// Of labels.
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Of fields.
    pub match_fields: Vec<LabelSelectorRequirement>,
}

/// A wish for nodes as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawPreferredNodes {
    /// How strong it is.
    pub weight: i64,
    /// The nodes.
    pub preference: RawNodeTerm,
}

/// Affinity to pods as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawPodAffinity {
    /// What must be.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Vec<RawTerm>,
    /// What would be good.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<RawPreferredPods>,
}

/// A wish for other pods as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawPreferredPods {
    /// How strong it is.
    pub weight: i64,
    /// The pods.
    pub pod_affinity_term: RawTerm,
}

/// Which pods, and how near, as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawTerm {
    /// Their labels.
    pub label_selector: Option<LabelSelector>,
    /// Their namespaces by name.
    pub namespaces: Vec<String>,
    /// Their namespaces by label.
    pub namespace_selector: Option<LabelSelector>,
    /// The label of nodes that must be equal.
    pub topology_key: String,
}

/// A choice of nodes: one of the rules must hold, and without any rule no node does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelector(pub Box<[NodeSelectorTerm]>);

/// A rule for nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    labels: Selector,
    names: Box<[NodeNameRequirement]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NodeNameRequirement {
    known: bool,
    equal: bool,
    name: Text,
}

/// Which pods, and how near.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// The label of nodes that must be equal.
    pub topology: Text,
    selector: Selector,
    namespaces: Box<[Text]>,
    by_label: Selector,
}

impl NodeSelector {
    /// Takes a choice of nodes as it was read.
    pub fn read(raw: &RawNodeSelector, interner: &mut StringInterner) -> Self {
        NodeSelector(
            raw.node_selector_terms
                .iter()
                .filter_map(|term| NodeSelectorTerm::read(term, interner))
                .collect(),
        )
    }

    /// Whether one of the node selector terms matches a node.
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go Match; also searched as MatchNodeSelectorTerms
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.0.iter().any(|rule| rule.matches(name, labels))
    }

    /// The names of the only nodes that can be chosen, when every rule names some.
    pub fn names(&self) -> Option<Vec<Text>> {
        let mut names = Vec::new();
        for rule in &self.0 {
            let mut asked = rule
                .names
                .iter()
                .filter(|rule| rule.known && rule.equal)
                .map(|rule| &rule.name);
            let first = asked.next()?;
            if asked.all(|name| name == first) && !names.contains(first) {
                names.push(first.clone());
            }
        }
        (!self.0.is_empty()).then_some(names)
    }
}

impl NodeSelectorTerm {
    /// Takes a rule as it was read. An empty one is none; one that cannot be understood never holds.
    pub fn read(raw: &RawNodeTerm, interner: &mut StringInterner) -> Option<Self> {
        if raw.match_expressions.is_empty() && raw.match_fields.is_empty() {
            return None;
        }
        let labels = Selector::of_requirements(&raw.match_expressions, interner);
        let names = raw.match_fields.iter().map(|rule| {
            let [name] = &*rule.values else { return None };
            let equal = match rule.operator.as_str() {
                "In" => true,
                "NotIn" => false,
                _ => return None,
            };
            let known = rule.key == "metadata.name";
            let name = interner.text(name);
            Some(NodeNameRequirement { known, equal, name })
        });
        let rule = names
            .collect::<Option<_>>()
            .zip(labels)
            .map(|(names, labels)| NodeSelectorTerm { labels, names });
        Some(rule.unwrap_or(NodeSelectorTerm {
            labels: Selector::Nothing,
            names: Box::new([]),
        }))
    }

    /// Whether a node is chosen.
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go match
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        // A field that nodes do not have is empty.
        let holds =
            |rule: &NodeNameRequirement| (*rule.name == *if rule.known { name } else { "" }) == rule.equal;
        self.labels.matches(labels) && self.names.iter().all(holds)
    }
}

impl AffinityTerm {
    /// Takes a term of a pod in a namespace as it was read.
    pub fn read(raw: &RawTerm, namespace: &Text, interner: &mut StringInterner) -> Self {
        let own = raw.namespaces.is_empty() && raw.namespace_selector.is_none();
        let namespaces: Box<[Text]> = if own {
            Box::new([namespace.clone()])
        } else {
            raw.namespaces.iter().map(|name| interner.text(name)).collect()
        };
        AffinityTerm {
            topology: interner.text(&raw.topology_key),
            selector: Selector::read(raw.label_selector.as_ref(), interner),
            namespaces,
            by_label: Selector::read(raw.namespace_selector.as_ref(), interner),
        }
    }

    /// Whether a pod is meant: its labels, its namespace, and the labels of that.
    // upstream: staging/src/k8s.io/kube-scheduler/framework/types.go Matches
    pub fn matches(&self, labels: &Labels, namespace: &Text, namespace_labels: Option<&Labels>) -> bool {
        let there = self.namespaces.contains(namespace)
            || match &self.by_label {
                Selector::Nothing => false,
                by_label @ Selector::All(_) => {
                    namespace_labels.map_or(by_label.is_empty(), |labels| by_label.matches(labels))
                }
            };
        there && self.selector.matches(labels)
    }

    /// Whether the labels of namespaces decide.
    pub fn has_namespace_selector(&self) -> bool {
        self.by_label != Selector::Nothing
    }

    /// The value of its label on a node.
    pub fn topology_value<'n>(&self, node: &'n Node) -> Option<&'n Text> {
        node.labels.get(&self.topology)
    }
}
