//! Deletes pods from nodes whose taints they do not bear, or do not bear for longer.

mod evictor;
mod plan;
#[cfg(test)]
mod tests;

use kubecontroller::{controller::Predicate, informer::Delta};

use self::{evictor::Evictor, plan::driving};
use crate::{
    context::{ControllerContext, Task},
    objects::{Node, Pod},
    resource::NODES,
};

/// How many pods are seen to at once.
const WORKERS: usize = 8;

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let (nodes, pods) = (context.informer::<Node>(&NODES), context.pods());
    let by_node = context.pods_by_node();
    let evictor = Evictor::new(context, nodes.store().clone(), pods.store().clone());
    let runner = context
        .controller("taint_eviction_controller")
        .for_where(&pods, matters())
        .watches_where(&nodes, drives_others(), move |delta| {
            by_node.keys(&delta.object().metadata.name)
        })
        .workers(WORKERS)
        .reconciler(evictor);
    vec![Box::new(runner)]
}

/// Whether a pod is new to a node, gone from it, or bears other taints.
fn matters() -> Predicate<Pod> {
    Predicate::new(|delta: &Delta<Pod>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => {
            old.spec.tolerations != new.spec.tolerations
                || old.spec.node_name != new.spec.node_name
                || old.metadata.uid != new.metadata.uid
        }
        (None, Some(new)) => !new.spec.node_name.is_empty(),
        _ => true,
    })
}

/// Whether a node has other taints that drive pods away. What is planned for the pods of a node stays if the node goes.
fn drives_others() -> Predicate<Node> {
    Predicate::new(|delta: &Delta<Node>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => !driving(old).eq(driving(new)),
        (None, Some(new)) => driving(new).next().is_some(),
        _ => false,
    })
}
