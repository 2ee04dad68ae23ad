//! The ResourceQuota controller: keeps status.used.
//!
//! Admission charges created objects; this controller releases what is deleted or shrinks, and computes the initial usage. It
//! recounts a whole namespace each time, so that errors do not accumulate.
//!
//! ```text
//! counter        usage from lists of the objects of a namespace
//! status         the new status
//! event_handler  which quotas an event affects
//! kinds          countable resources
//! ```

mod counter;
mod event_handler;
mod kinds;
mod status;
#[cfg(test)]
mod tests;

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
    counter::UsageCounter,
    kinds::{CountableResources, QuotaMonitor},
    status::CountResult,
};

use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::{CUSTOM_RESOURCE_DEFINITIONS, RESOURCE_QUOTAS},
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

/// Events are batched: a burst of deletions is counted once.
const BATCH_DELAY: Duration = Duration::from_millis(50);
const MAX_BATCH_DELAY: Duration = Duration::from_millis(500);
/// Full resync: corrects charges for objects that were not created after all.
const RESYNC: Duration = Duration::from_mins(5);
/// An object charged before a count and stored after it is missing in the count: the namespace is recounted after this time.
const RECOUNT_DELAY: Duration = Duration::from_secs(10);

type Quota = Projection<QuotaSpec>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct QuotaSpec {
    hard: BTreeMap<Box<str>, Value>,
}

// upstream: pkg/controller/resourcequota/resource_quota_controller.go Controller, syncResourceQuotaFromKey
struct ResourceQuotaController {
    writer: ApiWriter,
    quotas: Informer<Quota>,
    counter: UsageCounter,
    kinds: watch::Receiver<Option<CountableResources>>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let quotas = context.informer::<Quota>(&RESOURCE_QUOTAS);
    let kinds = watch::Sender::new(None);
    let reconciler = ResourceQuotaController {
        writer: context.writer.clone(),
        quotas: quotas.clone(),
        counter: UsageCounter::new(context),
        kinds: kinds.subscribe(),
    };
    // Admission updates status.used with each object: no reason to count.
    let is_other = |delta: &Delta<Quota>| match (delta.old(), delta.new()) {
        (_, None) => false,
        (Some(old), Some(new)) => old.spec != new.spec || old.metadata.uid != new.metadata.uid,
        (None, Some(_)) => true,
    };
    let runner = context
        .controller("resourcequota-controller")
        .for_where(&quotas, Predicate::new(is_other))
        .debounce(BATCH_DELAY, MAX_BATCH_DELAY)
        .reconciler(reconciler);
    let monitor = QuotaMonitor {
        context: context.clone(),
        quotas: quotas.store().clone(),
        definitions: context.informer(&CUSTOM_RESOURCE_DEFINITIONS),
        controller: runner.handle(),
        kinds,
    };
    vec![Box::new(runner), Box::new(monitor)]
}

// --- ResourceQuotaController ---

impl Reconciler for ResourceQuotaController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        if self.store().get(key).is_none() {
            return Ok(Outcome::Done);
        }
        let mut kinds = self.kinds.clone();
        let kinds = match kinds.wait_for(Option::is_some).await {
            Ok(kinds) => kinds.clone().unwrap_or_default(),
            // Discovery has stopped: the process is shutting down.
            Err(_) => return Ok(Outcome::Done),
        };
        // Read before the objects: anything charged meanwhile makes the write conflict.
        let object_ref = ObjectRef::new(&RESOURCE_QUOTAS, key.namespace(), key.name());
        let Some(quota) = self.writer.find_by_name(object_ref).await? else {
            return Ok(Outcome::Done);
        };
        let CountResult { used, error } = self.counter.count(key.namespace(), &quota, &kinds).await;
        let changed = status::with_new_status(&quota, &used);
        let is_changed = changed.is_some();
        if let Some(changed) = changed {
            match self
                .writer
                .update::<WrittenObject>(object_ref.subresource("status"), &changed)
                .await
            {
                Ok(written) => request.record_write(&self.quotas, &written.metadata.resource_version),
                Err(error) if has_status_code(&error, 404) => return Ok(Outcome::Done),
                Err(error) => return Err(error.into()),
            }
        }
        match error {
            Some(error) => Err(error.into()),
            None => Ok(Outcome::RequeueAfter(if is_changed {
                RECOUNT_DELAY
            } else {
                RESYNC
            })),
        }
    }
}

impl ResourceQuotaController {
    fn store(&self) -> &Store<Quota> {
        self.quotas.store()
    }
}
