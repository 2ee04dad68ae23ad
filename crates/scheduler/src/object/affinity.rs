//! Which nodes, and which other pods, a pod wants to be near.

use k3_workloads::PodAffinityTerm;
use kubecontroller::selector::Selector;

use super::Node;
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
};

/// Which pods, and how near.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// The label of nodes that must be equal.
    pub topology: Text,
    selector: Selector,
    namespaces: Box<[Text]>,
    by_label: Selector,
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
            selector: raw.label_selector.clone().unwrap_or(Selector::NOTHING),
            namespaces,
            by_label: raw.namespace_selector.clone().unwrap_or(Selector::NOTHING),
        }
    }

    /// Whether a pod is meant: its labels, its namespace, and the labels of that.
    // upstream: staging/src/k8s.io/kube-scheduler/framework/types.go Matches
    pub fn matches(&self, labels: &Labels, namespace: &Text, namespace_labels: Option<&Labels>) -> bool {
        let there = self.namespaces.contains(namespace)
            || namespace_labels.map_or(self.by_label.is_empty(), |labels| self.by_label.matches(labels));
        there && self.selector.matches(labels)
    }

    /// Whether the labels of namespaces decide.
    pub fn has_namespace_selector(&self) -> bool {
        !self.by_label.is_nothing()
    }

    /// The value of its label on a node.
    pub fn topology_value<'n>(&self, node: &'n Node) -> Option<&'n Text> {
        node.labels.get(&self.topology)
    }
}
