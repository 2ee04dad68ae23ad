//! The DaemonSet controller: one pod on each eligible node.
//!
//! ```text
//! placement       which nodes are eligible
//! pod_template    the pods and their revision labels
//! manage          missing and surplus pods
//! rolling_update  replacement of pods of earlier templates
//! controller      the reconciler
//! ```

mod controller;
mod manage;
mod placement;
mod pod_template;
mod rolling_update;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k3_workloads::Node;
use kubecontroller::{
    Key, KeyedBackoff, controller::Predicate, expectations::ControllerExpectations, informer::Delta,
    object::Object, store::Store,
};
use parking_lot::Mutex;

use self::{
    controller::{DaemonSetController, FAILED_PODS_BACKOFF},
    placement::{NodeConstraints, NodeEligibility},
};

use crate::{
    context::{ControllerContext, Task},
    controller_ref_manager::OwnerIndex,
    history::{self, RevisionStore},
    objects::DaemonSet,
    pods::event_handler::{self, PodEventHandler},
    resource::{DAEMON_SETS, NODES},
    status_throttle::StatusThrottle,
};

const WORKERS: usize = 4;

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let sets = context.informer::<DaemonSet>(&DAEMON_SETS);
    let pods = context.pods();
    let nodes = context.informer::<Node>(&NODES);
    let expectations = Arc::new(ControllerExpectations::default());
    let forget = Arc::clone(&expectations);
    let event_handler = PodEventHandler::new(
        &DAEMON_SETS,
        sets.store(),
        |set: &DaemonSet| &set.spec.selector,
        event_handler::matters,
        Arc::clone(&expectations),
    );
    let revision_store = RevisionStore::new(context, &DAEMON_SETS);
    let revisions = revision_store.revisions.clone();
    let concerned = sets.store().clone();
    let reconciler = DaemonSetController {
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        pods_by_owner: OwnerIndex::new(pods.store()),
        sets: sets.clone(),
        pods: pods.clone(),
        nodes: nodes.store().clone(),
        revision_store,
        expectations,
        backoff: Mutex::new(KeyedBackoff::new(FAILED_PODS_BACKOFF)),
        status_throttle: StatusThrottle::default(),
    };
    let controller = context
        .controller("daemonset-controller")
        .for_(&sets)
        .watches(&sets, move |delta| {
            event_handler::forget_replaced_set(delta, &forget)
        })
        .watches(&pods, move |delta| event_handler.keys(delta))
        .watches_where(&nodes, node_eligibility_may_change(), move |delta| {
            affected_daemon_sets(&concerned, delta)
        })
        .watches(&revisions, |delta| history::sets_to_sync(&DAEMON_SETS, delta))
        .workers(WORKERS);
    vec![Box::new(controller.reconciler(reconciler))]
}

/// Whether a node change can change which DaemonSets it is eligible for. Nodes of the initial list are skipped: all
/// DaemonSets are synced at start anyway.
// upstream: pkg/controller/daemon/daemon_controller.go shouldIgnoreNodeUpdate
fn node_eligibility_may_change() -> Predicate<Node> {
    Predicate::new(|delta: &Delta<Node>| match delta {
        Delta::Added { initial, .. } => !initial,
        Delta::Updated { old, new } | Delta::Replaced { old, new } => {
            old.metadata.labels != new.metadata.labels
                || old.spec.taints != new.spec.taints
                || old.metadata.uid != new.metadata.uid
        }
        Delta::Deleted { .. } => true,
        Delta::Sync { .. } => false,
    })
}

/// The DaemonSets for which a node's eligibility changed.
fn affected_daemon_sets(sets: &Store<DaemonSet>, delta: &Delta<Node>) -> Vec<Key> {
    let sets = sets.all().into_iter().filter(|set| {
        let placement = NodeConstraints::from_template(&set.spec.template);
        let fit = |node: Option<&Arc<Node>>| {
            node.map_or(NodeEligibility::Neither, |node| {
                placement.node_should_run_daemon_pod(node)
            })
        };
        fit(delta.old()) != fit(delta.new())
    });
    sets.map(|set| set.key()).collect()
}
