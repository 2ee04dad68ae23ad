//! What has to be done for a daemon set: where pods are missing, which are too many, which are replaced, and what to say of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;

use super::{making::Mark, placement::Fit};
use crate::{
    news::News,
    objects::{DaemonSet, DaemonStatus, Pod, PodPhase, Replacing},
};

/// What is known of a set, nodes and pods.
pub(super) struct Seen<'a> {
    pub(super) set: &'a DaemonSet,
    pub(super) mark: &'a Mark,
    /// The nodes that there are, by name.
    pub(super) nodes: BTreeMap<Box<str>, Fit>,
    /// The pods by the node that they are on or for, also where that node is gone. None of those that have ended and go.
    pub(super) pods: BTreeMap<Box<str>, Vec<Arc<Pod>>>,
    pub(super) now: Timestamp,
}

/// What has to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The nodes that get a pod.
    pub(super) make: Vec<Box<str>>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Where a pod is deleted because it has failed.
    pub(super) failed: Vec<Box<str>>,
    pub(super) news: Vec<News>,
    /// When to look again, if nothing happens.
    pub(super) again: Option<Duration>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub(super) fn is_nothing(&self) -> bool {
        self.make.is_empty() && self.delete.is_empty()
    }
}

impl<'a> Seen<'a> {
    /// Groups pods by their nodes.
    pub(super) fn new(
        set: &'a DaemonSet,
        mark: &'a Mark,
        nodes: BTreeMap<Box<str>, Fit>,
        pods: &[Arc<Pod>],
        now: Timestamp,
    ) -> Self {
        let mut by_node = BTreeMap::<Box<str>, Vec<_>>::new();
        let counted = pods
            .iter()
            .filter(|pod| !(pod.has_ended() && pod.metadata.is_going()));
        for pod in counted.filter(|pod| !pod.target().is_empty()) {
            by_node
                .entry(pod.target().into())
                .or_default()
                .push(Arc::clone(pod));
        }
        for pods in by_node.values_mut() {
            pods.sort_by(|one, other| age(one).cmp(&age(other)));
        }
        Seen {
            set,
            mark,
            nodes,
            pods: by_node,
            now,
        }
    }

    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    /// How many nodes should have a pod.
    pub(super) fn desired(&self) -> usize {
        self.nodes.values().filter(|fit| **fit == Fit::Runs).count()
    }

    /// How many pods may be there beyond one of each node, of so many nodes.
    pub(super) fn most_surge(&self, nodes: usize) -> usize {
        self.bound(nodes, |bounds, total| bounds.max_surge.of(total, true))
    }

    /// On how many nodes there may be no pod that is available, of so many nodes.
    pub(super) fn most_unavailable(&self, nodes: usize) -> usize {
        self.bound(nodes, |bounds, total| bounds.max_unavailable.of(total, true))
    }

    fn bound(&self, nodes: usize, bound: impl Fn(&crate::objects::RollingUpdate, i32) -> i32) -> usize {
        let strategy = &self.set.spec.update_strategy;
        let bounds = strategy
            .rolling_update
            .as_ref()
            .filter(|_| strategy.kind == Replacing::RollingUpdate);
        let total = i32::try_from(nodes).unwrap_or(i32::MAX);
        bounds.map_or(0, |bounds| usize::try_from(bound(bounds, total)).unwrap_or(0))
    }

    // --- one pod on each node ---

    /// Sees to it that there is a pod where one should be, and none elsewhere. `left` says how long a failed pod is left alone
    /// on a node.
    pub(super) fn manage(&self, left: impl Fn(&str) -> Option<Duration>) -> Plan {
        let mut plan = Plan::default();
        for (node, fit) in &self.nodes {
            match (fit, self.pods.get(node)) {
                (Fit::Runs, None) => plan.make.push(node.clone()),
                (Fit::Runs | Fit::Stays, pods) => {
                    let pods = pods.map_or(&[][..], |pods| pods);
                    self.manage_node(node, *fit, pods, &left, &mut plan);
                }
                (Fit::No, pods) => {
                    let there = pods.into_iter().flatten().filter(|pod| !pod.metadata.is_going());
                    plan.delete.extend(there.cloned());
                }
            }
        }
        // Nobody else deletes pods that wait for a node that is gone.
        let lost = self
            .pods
            .iter()
            .filter(|(node, _)| !self.nodes.contains_key(*node));
        let lost = lost.flat_map(|(_, pods)| pods);
        plan.delete
            .extend(lost.filter(|pod| pod.spec.node_name.is_empty()).cloned());
        plan
    }

    fn manage_node(
        &self,
        node: &str,
        fit: Fit,
        pods: &[Arc<Pod>],
        left: impl Fn(&str) -> Option<Duration>,
        plan: &mut Plan,
    ) {
        let mut running = Vec::new();
        let mut has_failed = false;
        for pod in pods.iter().filter(|pod| !pod.metadata.is_going()) {
            let meta = &pod.metadata;
            let place = format!("{}/{} on node {node}", meta.namespace, meta.name);
            match pod.status.phase {
                PodPhase::Failed => {
                    // The pause begins with the first one.
                    if has_failed {
                        continue;
                    }
                    if let Some(left) = left(node) {
                        plan.again = plan.again.into_iter().chain([left]).min();
                        continue;
                    }
                    has_failed = true;
                    let message = format_args!("Found failed daemon pod {place}, will try to kill it");
                    plan.news.push(News::warning("FailedDaemonPod", message));
                    plan.delete.push(Arc::clone(pod));
                }
                PodPhase::Succeeded => {
                    let message = format_args!("Found succeeded daemon pod {place}, will try to delete it");
                    plan.news.push(News::normal("SucceededDaemonPod", message));
                    plan.delete.push(Arc::clone(pod));
                }
                _ => running.push(pod),
            }
        }
        if has_failed {
            plan.failed.push(node.into());
        }
        if self.most_surge(1) == 0 {
            // The oldest stays.
            plan.delete.extend(running.into_iter().skip(1).cloned());
        } else if running.is_empty() && fit == Fit::Runs {
            plan.make.push(node.into());
        } else {
            self.manage_surge(&running, plan);
        }
    }

    /// Two pods stay only while the old one works and the new one does not yet.
    fn manage_surge(&self, running: &[&Arc<Pod>], plan: &mut Plan) {
        if running.len() <= 1 {
            return;
        }
        let pods = running.iter().map(|pod| Arc::clone(pod));
        let (new, old): (Vec<_>, Vec<_>) = pods.partition(|pod| self.mark.has_hash(pod));
        plan.delete
            .extend(new.iter().skip(1).chain(old.iter().skip(1)).cloned());
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.is_ready() || self.is_available(new))
        {
            plan.delete.push(Arc::clone(old));
        }
    }

    // --- telling ---

    /// What is to be said. The generation is said to be observed only if the plan for it was followed.
    pub(super) fn status(&self, is_followed: bool, collisions: Option<i32>) -> DaemonStatus {
        let before = &self.set.status;
        let mut status = DaemonStatus {
            observed_generation: before.observed_generation,
            collision_count: collisions,
            ..DaemonStatus::default()
        };
        if is_followed {
            status.observed_generation = self.set.metadata.generation;
        }
        for (node, fit) in &self.nodes {
            let oldest = self.pods.get(node).and_then(|pods| pods.first());
            if *fit != Fit::Runs {
                status.number_misscheduled += i32::from(oldest.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(pod) = oldest else { continue };
            status.current_number_scheduled += 1;
            status.number_ready += i32::from(pod.is_ready());
            status.number_available += i32::from(self.is_available(pod));
            status.updated_number_scheduled += i32::from(self.mark.is_on(pod));
        }
        status.number_unavailable = status.desired_number_scheduled - status.number_available;
        status
    }

    /// When the next pod will be available.
    pub(super) fn next_look(&self, status: &DaemonStatus) -> Option<Duration> {
        let seconds = self.set.spec.min_ready_seconds;
        if seconds <= 0 || status.number_ready == status.number_available {
            return None;
        }
        let pods = self.pods.values().flatten();
        let next = pods.filter_map(|pod| pod.available_in(seconds, self.now)).min();
        next.or_else(|| Some(Duration::from_secs(seconds.unsigned_abs().into())))
    }
}

/// Pods that have their node come first, then the older ones.
fn age(pod: &Pod) -> impl Ord + '_ {
    let meta = &pod.metadata;
    (
        pod.spec.node_name.is_empty(),
        meta.creation_timestamp,
        &*meta.name,
    )
}
