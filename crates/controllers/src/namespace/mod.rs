//! The Namespace controller: deletes the contents of terminating namespaces.

mod conditions;
mod deleter;

use std::time::Duration;

use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::Delta,
    store::Store,
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

// upstream: pkg/controller/namespace/namespace_controller.go NamespaceController, syncNamespaceFromKey
struct NamespaceController {
    deleter: NamespacedResourcesDeleter,
    store: Store<Namespace>,
    clock: Clock,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let namespaces = context.informer::<Namespace>(&NAMESPACES);
    let deleter = NamespacedResourcesDeleter {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
    };
    let is_terminating =
        |delta: &Delta<Namespace>| delta.new().is_some_and(|new| new.metadata.is_terminating());
    let store = namespaces.store().clone();
    let clock = context.clock.clone();
    let runner = context
        .controller("namespace-controller")
        .for_where(&namespaces, Predicate::new(is_terminating))
        .workers(WORKERS)
        .reconciler(NamespaceController {
            deleter,
            store,
            clock,
        });
    vec![Box::new(runner)]
}

impl Reconciler for NamespaceController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let NamespaceController {
            deleter,
            store,
            clock,
        } = self;
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
                Ok(Outcome::RequeueAfter(requeue_delay(age, estimate)))
            }
            Err(problem) => Err(Error::transient(problem)),
        }
    }
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
    fn requeue_delay_grows_with_age() {
        let seconds = |age, estimate| requeue_delay(Duration::from_secs(age), estimate).as_secs();
        assert_eq!(seconds(0, 15), 1);
        assert_eq!(seconds(12, 15), 3);
        assert_eq!(seconds(1000, 15), 8);
        assert_eq!(seconds(0, 0), 1);
    }
}
