//! Keeps a pod of each daemon set on each node that it is for.
//!
//! ```text
//! placement  which nodes that is
//! making     what the pods are made of, and by what those of the template of now are known
//! plan       where pods are missing, and which are too many
//! rolling    which pods of earlier templates are replaced
//! backoff    how often a pod that fails is replaced
//! keeper     does it
//! ```

mod backoff;
mod keeper;
mod making;
mod placement;
mod plan;
mod rolling;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kubecontroller::{
    Key, controller::Predicate, expectations::ControllerExpectations, informer::Delta, object::Object,
    store::Store,
};

use self::{
    keeper::Keeper,
    placement::{Fit, Placement},
};
use crate::{
    calm::Calm,
    context::{Context, Task},
    family::Family,
    history::{self, Archive},
    objects::{DaemonSet, Node},
    pods::wake::{self, Wake},
    resource::{DAEMON_SETS, NODES},
};

const WORKERS: usize = 4;

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let (sets, pods) = (context.informer::<DaemonSet>(&DAEMON_SETS), context.pods());
    let nodes = context.informer::<Node>(&NODES);
    let expected = Arc::new(ControllerExpectations::default());
    let forget = Arc::clone(&expected);
    let wake = Wake::new(
        &DAEMON_SETS,
        sets.store(),
        |set: &DaemonSet| &set.spec.selector,
        wake::matters,
        Arc::clone(&expected),
    );
    let archive = Archive::new(context, &DAEMON_SETS);
    let revisions = archive.revisions.clone();
    let concerned = sets.store().clone();
    let keeper = Keeper {
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        family: Family::new(pods.store()),
        sets: sets.clone(),
        pods: pods.clone(),
        nodes: nodes.store().clone(),
        archive,
        expected,
        backoff: backoff::Backoff::default(),
        calm: Calm::default(),
    };
    let controller = context
        .controller("daemonset")
        .for_(&sets)
        .watches(&sets, move |delta| wake::forget_replaced(delta, &forget))
        .watches(&pods, move |delta| wake.keys(delta))
        .watches_where(&nodes, may_fit_others(), move |delta| fitting(&concerned, delta))
        .watches(&revisions, |delta| history::keys(&DAEMON_SETS, delta))
        .workers(WORKERS);
    vec![Box::new(controller.reconciler(keeper))]
}

/// Whether a node may be for other sets than before. Those that were there before all sets are looked at are not news.
fn may_fit_others() -> Predicate<Node> {
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

/// The sets for which a node is something else than before.
fn fitting(sets: &Store<DaemonSet>, delta: &Delta<Node>) -> Vec<Key> {
    let sets = sets.all().into_iter().filter(|set| {
        let placement = Placement::of(&set.spec.template);
        let fit = |node: Option<&Arc<Node>>| node.map_or(Fit::No, |node| placement.fit(node));
        fit(delta.old()) != fit(delta.new())
    });
    sets.map(|set| set.key()).collect()
}
