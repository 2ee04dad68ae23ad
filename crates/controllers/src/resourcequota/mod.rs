//! Counts what is used of quotas.
//!
//! The server charges what is made; this gives back what goes or shrinks, and finds out at first what there is. It counts all
//! of a namespace anew each time, so that nothing can add up to an error.
//!
//! ```text
//! counter    what is used, by lists of the objects of a namespace
//! status     what a quota says then
//! wake       which quotas a change concerns
//! kinds      the kinds that can be counted, as they come and go
//! ```

mod counter;
mod kinds;
mod status;
#[cfg(test)]
mod tests;
mod wake;

use std::{collections::BTreeMap, time::Duration};

use kubecontroller::{
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::{Delta, Informer},
    store::Store,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

use self::{
    counter::Counter,
    kinds::{Countable, Follower},
    status::Counted,
};
use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::{CUSTOM_RESOURCE_DEFINITIONS, RESOURCE_QUOTAS},
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

/// Objects go in crowds, and a crowd is counted once.
const QUIET: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(500);
/// What was charged and is not made after all is noticed by then.
const RESYNC: Duration = Duration::from_mins(5);
/// An object that was charged before a count and stored after it is not in the count: so long after a change it is counted
/// again.
const AGAIN: Duration = Duration::from_secs(10);

/// A quota.
type Quota = Projection<QuotaSpec>;

/// What may be used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct QuotaSpec {
    /// How much, by name.
    hard: BTreeMap<Box<str>, Value>,
}

/// Keeps the status of quotas.
struct Keeper {
    writer: ApiWriter,
    quotas: Informer<Quota>,
    counter: Counter,
    kinds: watch::Receiver<Option<Countable>>,
}

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let quotas = context.informer::<Quota>(&RESOURCE_QUOTAS);
    let kinds = watch::Sender::new(None);
    let keeper = Keeper {
        writer: context.writer.clone(),
        quotas: quotas.clone(),
        counter: Counter::new(context),
        kinds: kinds.subscribe(),
    };
    // What is used is written by the server with each object, and is no reason to count.
    let is_other = |delta: &Delta<Quota>| match (delta.old(), delta.new()) {
        (_, None) => false,
        (Some(old), Some(new)) => old.spec != new.spec || old.metadata.uid != new.metadata.uid,
        (None, Some(_)) => true,
    };
    let runner = context
        .controller("resourcequota-controller")
        .for_where(&quotas, Predicate::new(is_other))
        .debounce(QUIET, LONGEST)
        .reconciler(keeper);
    let follower = Follower {
        context: context.clone(),
        quotas: quotas.store().clone(),
        definitions: context.informer(&CUSTOM_RESOURCE_DEFINITIONS),
        controller: runner.handle(),
        kinds,
    };
    vec![Box::new(runner), Box::new(follower)]
}

// --- Keeper ---

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        if self.store().get(key).is_none() {
            return Ok(Outcome::Done);
        }
        let mut kinds = self.kinds.clone();
        let kinds = match kinds.wait_for(Option::is_some).await {
            Ok(kinds) => kinds.clone().unwrap_or_default(),
            // Nobody will tell any more: all of this stops.
            Err(_) => return Ok(Outcome::Done),
        };
        // Read before the objects are: whatever is charged meanwhile makes the write fail.
        let object_ref = ObjectRef::new(&RESOURCE_QUOTAS, key.namespace(), key.name());
        let Some(quota) = self.writer.find_by_name(object_ref).await? else {
            return Ok(Outcome::Done);
        };
        let Counted { used, trouble } = self.counter.count(key.namespace(), &quota, &kinds).await;
        let changed = status::changed(&quota, &used);
        let is_changed = changed.is_some();
        if let Some(changed) = changed {
            match self
                .writer
                .update::<WrittenObject>(object_ref.subresource("status"), &changed)
                .await
            {
                Ok(made) => request.wrote_at(&self.quotas, &made.metadata.resource_version),
                Err(error) if has_status_code(&error, 404) => return Ok(Outcome::Done),
                Err(error) => return Err(error.into()),
            }
        }
        match trouble {
            Some(trouble) => Err(trouble.into()),
            None => Ok(Outcome::After(if is_changed { AGAIN } else { RESYNC })),
        }
    }
}

impl Keeper {
    fn store(&self) -> &Store<Quota> {
        self.quotas.store()
    }
}
