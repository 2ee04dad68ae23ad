//! The taint eviction controller: deletes pods that do not tolerate the NoExecute taints of their node.

mod controller;
#[cfg(test)]
mod tests;
mod toleration_time;

use k3_workloads::{Node, Pod};
use kubecontroller::{controller::Predicate, informer::Delta};

use self::{controller::TaintEvictionController, toleration_time::no_execute_taints};

use crate::{
    context::{ControllerContext, Task},
    resource::NODES,
};

/// Pods processed concurrently.
const WORKERS: usize = 8;

// upstream: pkg/controller/tainteviction/taint_eviction.go New
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let nodes = context.informer::<Node>(&NODES);
    let pods = context.pods();
    let by_node = context.pods_by_node();
    let reconciler = TaintEvictionController::new(context, nodes.store().clone(), pods.store().clone());
    let runner = context
        .controller("taint-eviction-controller")
        .for_where(&pods, pod_predicate())
        .watches_where(&nodes, node_predicate(), move |delta| {
            by_node.keys(&delta.object().metadata.name)
        })
        .workers(WORKERS)
        .reconciler(reconciler);
    vec![Box::new(runner)]
}

/// Whether a pod is new on a node, deleted, or has other tolerations.
fn pod_predicate() -> Predicate<Pod> {
    Predicate::new(|delta: &Delta<Pod>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => {
            old.spec.template.tolerations != new.spec.template.tolerations
                || old.spec.node_name != new.spec.node_name
                || old.metadata.uid != new.metadata.uid
        }
        (None, Some(new)) => !new.spec.node_name.is_empty(),
        _ => true,
    })
}

/// Whether the NoExecute taints of a node changed. Scheduled deletions are kept if the node is deleted.
fn node_predicate() -> Predicate<Node> {
    Predicate::new(|delta: &Delta<Node>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => !no_execute_taints(old).eq(no_execute_taints(new)),
        (None, Some(new)) => no_execute_taints(new).next().is_some(),
        _ => false,
    })
}
