//! Decides where pods are missing, which are surplus, and computes the status.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k3_workloads::{Pod, PodPhase, Rounding};
use k8s_openapi::jiff::Timestamp;

use super::{placement::NodeEligibility, pod_template::TemplateRevision};
use crate::{
    event_message::EventMessage,
    objects::{DaemonSet, DaemonStatus, UpdateStrategyKind},
};

/// A DaemonSet with nodes and pods at one point in time.
pub(super) struct ObservedDaemonSet<'a> {
    pub(super) set: &'a DaemonSet,
    pub(super) revision: &'a TemplateRevision,
    /// Existing nodes by name.
    pub(super) nodes: BTreeMap<Box<str>, NodeEligibility>,
    /// Pods by assigned or targeted node, including nodes that no longer exist. Without terminated pods that are being deleted.
    pub(super) pods: BTreeMap<Box<str>, Vec<Arc<Pod>>>,
    pub(super) now: Timestamp,
}

/// What to do.
#[derive(Debug, Default)]
pub(super) struct DaemonSetPlan {
    /// Nodes that get a pod.
    pub(super) make: Vec<Box<str>>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Nodes where a pod is deleted because it failed.
    pub(super) failed: Vec<Box<str>>,
    pub(super) events: Vec<EventMessage>,
    /// When to sync again if no event arrives.
    pub(super) requeue_after: Option<Duration>,
}

/// Whether the plan for a DaemonSet was carried out in this sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanProgress {
    CarriedOut,
    /// Pods of an earlier plan are not in the informer's cache yet.
    Waiting,
}

impl DaemonSetPlan {
    pub(super) fn is_empty(&self) -> bool {
        self.make.is_empty() && self.delete.is_empty()
    }
}

impl<'a> ObservedDaemonSet<'a> {
    /// Groups pods by their nodes.
    pub(super) fn new(
        set: &'a DaemonSet,
        revision: &'a TemplateRevision,
        nodes: BTreeMap<Box<str>, NodeEligibility>,
        pods: &[Arc<Pod>],
        now: Timestamp,
    ) -> Self {
        let mut by_node = BTreeMap::<Box<str>, Vec<_>>::new();
        let counted = pods
            .iter()
            .filter(|pod| !(pod.has_ended() && pod.metadata.is_terminating()));
        for pod in counted.filter(|pod| !pod.target().is_empty()) {
            by_node
                .entry(pod.target().into())
                .or_default()
                .push(Arc::clone(pod));
        }
        for pods in by_node.values_mut() {
            pods.sort_by(|one, other| creation_order(one).cmp(&creation_order(other)));
        }
        ObservedDaemonSet {
            set,
            revision,
            nodes,
            pods: by_node,
            now,
        }
    }

    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    /// Number of nodes that should run a pod.
    pub(super) fn desired(&self) -> usize {
        self.nodes
            .values()
            .filter(|fit| **fit == NodeEligibility::ShouldRun)
            .count()
    }

    /// maxSurge as a number of pods.
    // upstream: pkg/controller/daemon/util/daemonset_util.go SurgeCount
    pub(super) fn max_surge(&self, nodes: usize) -> usize {
        self.bound(nodes, |bounds, total| {
            bounds.max_surge.scaled_value(total, Rounding::Up)
        })
    }

    /// maxUnavailable as a number of nodes.
    // upstream: pkg/controller/daemon/util/daemonset_util.go UnavailableCount
    pub(super) fn max_unavailable(&self, nodes: usize) -> usize {
        self.bound(nodes, |bounds, total| {
            bounds.max_unavailable.scaled_value(total, Rounding::Up)
        })
    }

    fn bound(&self, nodes: usize, bound: impl Fn(&crate::objects::RollingUpdate, i32) -> i32) -> usize {
        let strategy = &self.set.spec.update_strategy;
        let bounds = strategy
            .rolling_update
            .as_ref()
            .filter(|_| strategy.kind == UpdateStrategyKind::RollingUpdate);
        let total = i32::try_from(nodes).unwrap_or(i32::MAX);
        bounds.map_or(0, |bounds| usize::try_from(bound(bounds, total)).unwrap_or(0))
    }

    // --- one pod on each node ---

    /// One pod on each eligible node, none elsewhere. `backoff_remaining` returns how long a failed pod on a node is kept (backoff).
    // upstream: pkg/controller/daemon/daemon_controller.go manage, getUnscheduledPodsWithoutNode
    pub(super) fn manage(&self, backoff_remaining: impl Fn(&str) -> Option<Duration>) -> DaemonSetPlan {
        let mut plan = DaemonSetPlan::default();
        for (node, fit) in &self.nodes {
            match (fit, self.pods.get(node)) {
                (NodeEligibility::ShouldRun, None) => plan.make.push(node.clone()),
                (NodeEligibility::ShouldRun | NodeEligibility::ShouldContinueRunning, pods) => {
                    let pods = pods.map_or(&[][..], |pods| pods);
                    self.manage_node(node, *fit, pods, &backoff_remaining, &mut plan);
                }
                (NodeEligibility::Neither, pods) => {
                    let there = pods
                        .into_iter()
                        .flatten()
                        .filter(|pod| !pod.metadata.is_terminating());
                    plan.delete.extend(there.cloned());
                }
            }
        }
        // No other controller deletes pods that wait for a deleted node.
        let lost = self
            .pods
            .iter()
            .filter(|(node, _)| !self.nodes.contains_key(*node));
        let lost = lost.flat_map(|(_, pods)| pods);
        plan.delete
            .extend(lost.filter(|pod| pod.spec.node_name.is_empty()).cloned());
        plan
    }

    // upstream: pkg/controller/daemon/daemon_controller.go podsShouldBeOnNode
    fn manage_node(
        &self,
        node: &str,
        fit: NodeEligibility,
        pods: &[Arc<Pod>],
        backoff_remaining: impl Fn(&str) -> Option<Duration>,
        plan: &mut DaemonSetPlan,
    ) {
        let mut running = Vec::new();
        let mut has_failed = false;
        for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating()) {
            let meta = &pod.metadata;
            let pod_on_node = format!("{}/{} on node {node}", meta.namespace, meta.name);
            match pod.status.phase {
                PodPhase::Failed => {
                    // The backoff starts with the first failure.
                    if has_failed {
                        continue;
                    }
                    if let Some(backoff_remaining) = backoff_remaining(node) {
                        plan.requeue_after = plan.requeue_after.into_iter().chain([backoff_remaining]).min();
                        continue;
                    }
                    has_failed = true;
                    let message = format_args!("Found failed daemon pod {pod_on_node}, will try to kill it");
                    plan.events
                        .push(EventMessage::warning("FailedDaemonPod", message));
                    plan.delete.push(Arc::clone(pod));
                }
                PodPhase::Succeeded => {
                    let message =
                        format_args!("Found succeeded daemon pod {pod_on_node}, will try to delete it");
                    plan.events
                        .push(EventMessage::normal("SucceededDaemonPod", message));
                    plan.delete.push(Arc::clone(pod));
                }
                _ => running.push(pod),
            }
        }
        if has_failed {
            plan.failed.push(node.into());
        }
        if self.max_surge(1) == 0 {
            // The oldest pod is kept.
            plan.delete.extend(running.into_iter().skip(1).cloned());
        } else if running.is_empty() && fit == NodeEligibility::ShouldRun {
            plan.make.push(node.into());
        } else {
            self.manage_surge(&running, plan);
        }
    }

    /// Two pods are kept only while the old one is available and the new one is not yet.
    // upstream: pkg/controller/daemon/daemon_controller.go podsShouldBeOnNode
    fn manage_surge(&self, running: &[&Arc<Pod>], plan: &mut DaemonSetPlan) {
        if running.len() <= 1 {
            return;
        }
        let pods = running.iter().map(|pod| Arc::clone(pod));
        let (new, old): (Vec<_>, Vec<_>) = pods.partition(|pod| self.revision.has_hash(pod));
        plan.delete
            .extend(new.iter().skip(1).chain(old.iter().skip(1)).cloned());
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.is_ready() || self.is_available(new))
        {
            plan.delete.push(Arc::clone(old));
        }
    }

    // --- status ---

    /// The new status. observedGeneration is updated only if the plan was carried out.
    // upstream: pkg/controller/daemon/daemon_controller.go updateDaemonSetStatus
    pub(super) fn status(&self, progress: PlanProgress, collisions: Option<i32>) -> DaemonStatus {
        let observed_generation = match progress {
            PlanProgress::CarriedOut => self.set.metadata.generation,
            PlanProgress::Waiting => self.set.status.observed_generation,
        };
        let mut status = DaemonStatus {
            observed_generation,
            collision_count: collisions,
            ..DaemonStatus::default()
        };
        for (node, fit) in &self.nodes {
            let oldest = self.pods.get(node).and_then(|pods| pods.first());
            if *fit != NodeEligibility::ShouldRun {
                status.number_misscheduled += i32::from(oldest.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(pod) = oldest else { continue };
            status.current_number_scheduled += 1;
            status.number_ready += i32::from(pod.is_ready());
            status.number_available += i32::from(self.is_available(pod));
            status.updated_number_scheduled += i32::from(self.revision.is_pod_updated(pod));
        }
        status.number_unavailable = status.desired_number_scheduled - status.number_available;
        status
    }

    /// Time until the next pod becomes available.
    pub(super) fn next_available_in(&self, status: &DaemonStatus) -> Option<Duration> {
        let seconds = self.set.spec.min_ready_seconds;
        if seconds <= 0 || status.number_ready == status.number_available {
            return None;
        }
        let pods = self.pods.values().flatten();
        let next = pods.filter_map(|pod| pod.available_in(seconds, self.now)).min();
        next.or_else(|| Some(Duration::from_secs(seconds.unsigned_abs().into())))
    }
}

/// Scheduled pods first, then older ones.
fn creation_order(pod: &Pod) -> impl Ord + '_ {
    let meta = &pod.metadata;
    (
        pod.spec.node_name.is_empty(),
        meta.creation_timestamp,
        &*meta.name,
    )
}
