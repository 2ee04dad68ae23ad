//! Rolling update of a DaemonSet within maxUnavailable or maxSurge.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k3_workloads::Pod;

use super::{
    manage::{DaemonSetPlan, ObservedDaemonSet},
    placement::NodeEligibility,
};

/// The pods of a node that are kept, at most one of each revision.
#[derive(Clone, Copy, Default)]
struct NodePods<'a> {
    /// Of the current template.
    new: Option<&'a Arc<Pod>>,
    /// Of an earlier template.
    old: Option<&'a Arc<Pod>>,
}

impl ObservedDaemonSet<'_> {
    /// Pods to replace now. Surplus pods are handled by `manage`.
    // upstream: pkg/controller/daemon/update.go rollingUpdate, updatedDesiredNodeCounts
    pub(super) fn rolling_update(&self) -> DaemonSetPlan {
        let desired = self.desired();
        let surge = self.max_surge(desired);
        let unavailable = self.max_unavailable(desired);
        if surge == 0 {
            // Both zero would block the update; upstream's validation excludes it.
            self.update_with_max_unavailable(unavailable.max(usize::from(desired > 0)))
        } else {
            self.update_with_max_surge(surge, desired)
        }
    }

    /// Nodes with a pod or that should run one. `None` for nodes with surplus pods.
    // upstream: pkg/controller/daemon/update.go findUpdatedPodsOnNode
    fn pods_by_node(&self) -> BTreeMap<&str, Option<NodePods<'_>>> {
        let runs = self
            .nodes
            .iter()
            .filter(|(_, fit)| **fit == NodeEligibility::ShouldRun);
        let names: BTreeSet<&str> = runs
            .map(|(node, _)| &**node)
            .chain(self.pods.keys().map(|node| &**node))
            .collect();
        let pair = |node: &str| {
            let mut pair = NodePods::default();
            let pods = self.pods.get(node).into_iter().flatten();
            for pod in pods.filter(|pod| !pod.metadata.is_terminating()) {
                let sort = if self.revision.is_pod_updated(pod) {
                    &mut pair.new
                } else {
                    &mut pair.old
                };
                if sort.replace(pod).is_some() {
                    return None;
                }
            }
            Some(pair)
        };
        names.into_iter().map(|node| (node, pair(node))).collect()
    }

    /// Deletes old pods within maxUnavailable; `manage` creates new ones in their place.
    // upstream: pkg/controller/daemon/update.go rollingUpdate
    fn update_with_max_unavailable(&self, max: usize) -> DaemonSetPlan {
        let mut unavailable_old = Vec::new();
        let mut candidates = Vec::new();
        let mut unavailable = 0;
        for pair in self.pods_by_node().into_values() {
            match pair {
                Some(NodePods {
                    new: None,
                    old: Some(old),
                }) if self.is_available(old) => candidates.push(Arc::clone(old)),
                Some(NodePods {
                    new: None,
                    old: Some(old),
                }) => {
                    // An unavailable pod can be replaced without reducing availability.
                    unavailable_old.push(Arc::clone(old));
                    unavailable += 1;
                }
                Some(NodePods {
                    new: Some(new),
                    old: None,
                }) => unavailable += usize::from(!self.is_available(new)),
                // `manage` will create or delete a pod here.
                _ => unavailable += 1,
            }
        }
        let more = candidates.into_iter().take(max.saturating_sub(unavailable));
        unavailable_old.extend(more);
        DaemonSetPlan {
            delete: unavailable_old,
            ..DaemonSetPlan::default()
        }
    }

    /// Creates new pods beside old ones within maxSurge; old ones are deleted when the new ones are available.
    // upstream: pkg/controller/daemon/update.go rollingUpdate
    fn update_with_max_surge(&self, max: usize, desired: usize) -> DaemonSetPlan {
        let mut plan = DaemonSetPlan::default();
        let mut candidates = Vec::new();
        let mut on_ineligible_nodes = Vec::new();
        let mut surge = 0;
        let mut available = 0;
        for (node, pair) in self.pods_by_node() {
            let Some(NodePods { new, old }) = pair else {
                surge += 1;
                continue;
            };
            let first = old.or(new);
            available += usize::from(first.is_some_and(|pod| self.is_available(pod)));
            let Some(old) = old else { continue };
            let works = self.is_available(old);
            let runs = self.nodes.get(node) == Some(&NodeEligibility::ShouldRun);
            match new {
                Some(new) if self.is_available(new) => plan.delete.push(Arc::clone(old)),
                Some(_) => surge += 1,
                None if !works && !runs => plan.delete.push(Arc::clone(old)),
                None if !works => plan.make.push(node.into()),
                None if !runs => on_ineligible_nodes.push(Arc::clone(old)),
                None => candidates.push(Box::<str>::from(node)),
            }
        }
        // Pods on nodes that should no longer run one are deleted when enough others are available.
        let spare = available.saturating_sub(desired);
        plan.delete.extend(on_ineligible_nodes.into_iter().take(spare));
        let more = candidates.into_iter().take(max.saturating_sub(surge));
        plan.make.extend(more);
        plan
    }
}
