//! The Namespace controller: deletes the contents of terminating namespaces.

mod conditions;
mod deleter;

use std::{sync::Arc, time::Duration};

use kubecontroller::{
    controller::{Error, Outcome, Predicate, reconcile_fn},
    informer::Delta,
};
use serde::de::IgnoredAny;

use self::deleter::{DeletionProgress, NamespacedResourcesDeleter};
use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::NAMESPACES,
};

type Namespace = Projection<IgnoredAny>;

const WORKERS: usize = 10;

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let namespaces = context.informer::<Namespace>(&NAMESPACES);
    let deleter = Arc::new(NamespacedResourcesDeleter {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
    });
    let is_going = |delta: &Delta<Namespace>| delta.new().is_some_and(|new| new.metadata.is_going());
    let (store, clock) = (namespaces.store().clone(), context.clock.clone());
    let runner = context
        .controller("namespace-controller")
        .for_where(&namespaces, Predicate::new(is_going))
        .workers(WORKERS)
        .reconciler(reconcile_fn(move |request| {
            let (deleter, store, clock) = (Arc::clone(&deleter), store.clone(), clock.clone());
            async move {
                let Some(since) = store
                    .get(&request.key)
                    .and_then(|namespace| namespace.metadata.deletion_timestamp)
                else {
                    return Ok(Outcome::Done);
                };
                match deleter.delete(request.key.name()).await {
                    Ok(DeletionProgress::Done) => Ok(Outcome::Done),
                    Ok(DeletionProgress::RemainingObjects(estimate)) => {
                        let age = clock.now().duration_since(since).unsigned_abs();
                        Ok(Outcome::After(requeue_delay(age, estimate)))
                    }
                    Err(problem) => Err(Error::transient(problem)),
                }
            }
        }));
    vec![Box::new(runner)]
}

/// Requeue delay: short at first, since most objects terminate faster than the estimate; later half of the estimate.
// upstream: pkg/controller/namespace/namespace_controller.go syncNamespaceFromKey, worker
fn requeue_delay(age: Duration, estimate: u64) -> Duration {
    let longest = Duration::from_secs(estimate / 2 + 1);
    (age / 4).clamp(Duration::from_secs(1), longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_looked_at_less_often_the_longer_it_takes() {
        let seconds = |age, estimate| requeue_delay(Duration::from_secs(age), estimate).as_secs();
        assert_eq!(seconds(0, 15), 1);
        assert_eq!(seconds(12, 15), 3);
        assert_eq!(seconds(1000, 15), 8);
        assert_eq!(seconds(0, 0), 1);
    }
}
