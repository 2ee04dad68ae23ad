//! Keeps as many pods as a replica set asks for.

mod keeper;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kubecontroller::expectations::ControllerExpectations;
use serde::de::DeserializeOwned;

pub(crate) use self::keeper::SetKind;
use self::keeper::{Keeper, Set};
use crate::{
    calm::Calm,
    context::{Context, Task},
    family::Family,
    objects::Selector,
    pods::wake::{self, Wake},
    resource::REPLICA_SETS,
};

const WORKERS: usize = 8;

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let kind = SetKind {
        resource: &REPLICA_SETS,
        tells_going: true,
    };
    vec![keep::<Selector>(context, "replicaset", kind)]
}

/// Keeps the sets of a kind.
pub(crate) fn keep<S>(context: &Context, name: &str, kind: SetKind) -> Task
where
    S: AsRef<Selector> + DeserializeOwned + Default + Send + Sync + 'static,
{
    let (sets, pods) = (context.informer::<Set<S>>(kind.resource), context.pods());
    let expected = Arc::new(ControllerExpectations::default());
    let wake = Wake::new(
        kind.resource,
        sets.store(),
        |set: &Set<S>| set.spec.selector.as_ref(),
        wake::matters,
        Arc::clone(&expected),
    );
    let forget = Arc::clone(&expected);
    let keeper = Keeper {
        kind,
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        siblings: Family::new(sets.store()),
        pods: Family::new(pods.store()),
        sets: sets.clone(),
        expected,
        calm: Calm::default(),
    };
    let controller = context
        .controller(name)
        .for_(&sets)
        .watches(&sets, move |delta| wake::forget_replaced(delta, &forget))
        .watches(&pods, move |delta| wake.keys(delta))
        .workers(WORKERS);
    Box::new(controller.reconciler(keeper))
}
