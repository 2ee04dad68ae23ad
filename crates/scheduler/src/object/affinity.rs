//! Which nodes, and which other pods, a pod wants to be near.

use k3_workloads::PodAffinityTerm;

use super::Node;
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
    selector::Selector,
};

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
    pub fn read(raw: &k3_workloads::NodeSelector, interner: &mut StringInterner) -> Self {
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
    pub fn read(raw: &k3_workloads::NodeSelectorTerm, interner: &mut StringInterner) -> Option<Self> {
        if raw.match_expressions.is_empty() && raw.match_fields.is_empty() {
            return None;
        }
        let labels = Selector::of_requirements(&raw.match_expressions, interner);
        let names = raw.match_fields.iter().map(|rule| {
            let [name] = &*rule.values else { return None };
            let equal = match &*rule.operator {
                "In" => true,
                "NotIn" => false,
                _ => return None,
            };
            let known = &*rule.key == "metadata.name";
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
    pub fn read(raw: &PodAffinityTerm, namespace: &Text, interner: &mut StringInterner) -> Self {
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
