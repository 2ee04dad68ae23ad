//! Matching pods per constraint and topology domain.

use std::sync::Arc;

use hashbrown::HashMap;
use k3_workloads::{SharedList, Toleration};
use kubecontroller::selector::{NodeSelector, Selector};

use crate::{
    cache::{NodeInfo, SchedulerCache},
    incremental::IncrementalState,
    interner::Text,
    number::count,
    object::{Node, Pod, Policy},
};

/// A rule of spreading for a certain pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
// upstream: pkg/scheduler/framework/plugins/podtopologyspread/common.go topologySpreadConstraint
pub(crate) struct SpreadConstraint {
    /// The label of nodes that makes places.
    pub topology: Text,
    /// Which pods count.
    pub selector: Arc<Selector>,
    /// Which nodes count.
    pub policy: Policy,
    /// How uneven it may be.
    pub max_skew: i64,
    /// How many places there must be.
    pub min_domains: i64,
}

/// What is counted: everything that decides it, and nothing else, so that pods of one template share it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpreadKey {
    namespace: Text,
    /// The rules.
    pub rules: Vec<SpreadConstraint>,
    scope: SpreadScope,
    nodes: Option<(Selector, Option<NodeSelector>)>,
    tolerations: Option<SharedList<Toleration>>,
}

/// Which nodes count for the rules of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SpreadScope {
    /// Those that have the labels of all rules.
    NodesWithAllLabels,
    /// All.
    AllNodes,
}

/// The counts.
#[derive(Debug)]
pub(crate) struct SpreadCounts {
    key: SpreadKey,
    /// Per rule.
    domains: Vec<Domains>,
    /// Per place of a node and rule.
    cells: Vec<Cell>,
}

#[derive(Debug, Default)]
struct Domains {
    known: HashMap<Text, usize>,
    counts: Vec<Domain>,
}

/// A place: nodes whose label has one value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Domain {
    /// How many nodes of it count.
    pub nodes: i64,
    /// How many pods on them.
    pub pods: i64,
}

/// A node, as a rule sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    /// Its place, if it has the label.
    pub domain: Option<usize>,
    /// Whether the label itself is there.
    pub labelled: bool,
    /// Whether it counts.
    pub counts: bool,
    /// How many of its pods the rule is about.
    pub pods: i64,
}

impl SpreadKey {
    /// What rules of a pod count.
    pub(crate) fn new(pod: &Pod, rules: Vec<SpreadConstraint>, scope: SpreadScope) -> Self {
        let spec = &pod.spec;
        let affinity = rules.iter().any(|rule| rule.policy.affinity);
        let taints = rules.iter().any(|rule| rule.policy.taints);
        SpreadKey {
            namespace: pod.namespace.clone(),
            rules,
            scope,
            nodes: affinity.then(|| (spec.node_selector.clone(), spec.nodes.clone())),
            tolerations: taints.then(|| spec.tolerations.clone()),
        }
    }

    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/common.go matchNodeInclusionPolicies
    fn allows(&self, policy: Policy, node: &Node) -> bool {
        let fits = || {
            self.nodes.as_ref().is_none_or(|(selector, required)| {
                let required = required.as_ref();
                selector.matches(&node.labels)
                    && required.is_none_or(|required| required.matches(Some(&node.name), &node.labels))
            })
        };
        let tolerates = || {
            self.tolerations
                .as_ref()
                .is_none_or(|tolerations| !node.has_untolerated_taint(tolerations))
        };
        (!policy.affinity || fits()) && (!policy.taints || tolerates())
    }
}

impl IncrementalState for SpreadCounts {
    type Key = SpreadKey;

    fn empty(key: SpreadKey) -> Self {
        SpreadCounts {
            domains: key.rules.iter().map(|_| Domains::default()).collect(),
            cells: Vec::new(),
            key,
        }
    }

    fn key(&self) -> &SpreadKey {
        &self.key
    }

    fn is_stale(&self, _: &SchedulerCache) -> bool {
        false
    }

    fn refresh(&mut self, slot: usize, cluster: &SchedulerCache) {
        let rules = self.key.rules.len();
        if self.cells.len() < (slot + 1) * rules {
            self.cells.resize((slot + 1) * rules, Cell::default());
        }
        let info = cluster.info(slot);
        for at in 0..rules {
            let new = self.look(at, info);
            let cell = &mut self.cells[slot * rules + at];
            let old = std::mem::replace(cell, new);
            let counts = &mut self.domains[at].counts;
            for (cell, sign) in [(old, -1), (new, 1)] {
                if let (true, Some(domain)) = (cell.counts, cell.domain) {
                    counts[domain].nodes += sign;
                    counts[domain].pods += sign * cell.pods;
                }
            }
        }
    }
}

impl SpreadCounts {
    /// The rules.
    pub(crate) fn rules(&self) -> &[SpreadConstraint] {
        &self.key.rules
    }

    /// Whether only nodes count that have the labels of all rules.
    pub(crate) fn needs_all(&self) -> bool {
        self.key.scope == SpreadScope::NodesWithAllLabels
    }

    /// A node as a rule sees it.
    pub(crate) fn cell(&self, slot: usize, rule: usize) -> Cell {
        self.cells
            .get(slot * self.key.rules.len() + rule)
            .copied()
            .unwrap_or_default()
    }

    /// The places of a rule.
    pub(crate) fn domains(&self, rule: usize) -> &[Domain] {
        &self.domains[rule].counts
    }

    fn look(&mut self, at: usize, info: &NodeInfo) -> Cell {
        let Some(node) = info.node.as_deref() else {
            return Cell::default();
        };
        let rule = &self.key.rules[at];
        let value = node.labels.get(&rule.topology);
        let complete = || {
            self.key
                .rules
                .iter()
                .all(|rule| node.labels.get(&rule.topology).is_some())
        };
        let counts = (!self.needs_all() || complete()) && self.key.allows(rule.policy, node);
        let pods = if rule.selector.is_empty() {
            0
        } else {
            let meant = |pod: &&Arc<Pod>| {
                !pod.terminating && pod.namespace == self.key.namespace && rule.selector.matches(&pod.labels)
            };
            count(info.pods.iter().filter(meant).count())
        };
        // Without the label a node is in a place of its own kind, unless it has to have all labels.
        let named = value.cloned().or_else(|| (!self.needs_all()).then(|| "".into()));
        Cell {
            domain: named.map(|value| self.domains[at].of(value)),
            labelled: value.is_some(),
            counts,
            pods,
        }
    }
}

impl Domains {
    fn of(&mut self, value: Text) -> usize {
        *self.known.entry(value).or_insert_with(|| {
            self.counts.push(Domain::default());
            self.counts.len() - 1
        })
    }
}
