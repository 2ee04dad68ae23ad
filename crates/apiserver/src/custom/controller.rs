//! The CustomResourceDefinition controller: names, `Established`, and finalization of deleted definitions.

use std::{
    collections::{BTreeSet, HashMap},
    future::poll_fn,
    sync::Arc,
    time::Duration,
};

use k3_api::{
    kinds::{builtin, get_api_approval_state},
    status::Status,
    strategy::{Tree, TreeMut},
    time::Time,
};
use k3_task::Backoff;
use serde_json::Value;
use tokio::{task::JoinHandle, time::Instant};

use super::{
    api_services,
    conditions::{self, DefinitionCondition},
    definitions::overlaps,
    names::{self, TakenNames},
};
use crate::registry::{Registry, Resource};

/// The finalizer that keeps a definition until its objects are deleted.
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The first and the longest pause between checks whether the objects of a definition are deleted.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(5));
/// After this time the status reports that objects remain.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long the objects of a deleted definition have been waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeletionWait {
    Patient,
    /// Longer than [`PATIENCE`].
    Overdue,
}

/// How long to wait before a watch is restarted or a failed write retried.
const RETRY: Duration = Duration::from_millis(200);

/// The task that keeps definitions. Ends with this handle.
pub(crate) struct CustomResourceDefinitionController(JoinHandle<()>);

/// What is known of the names of a definition, so that not all definitions are read for the names of one.
struct NameRecord {
    group: String,
    /// The names it was given.
    accepted: Value,
    /// Whether those are all that it wants.
    content: bool,
}

/// What is known of all definitions, by name.
type DefinitionNameRecords = HashMap<String, NameRecord>;

/// What is kept of a definition that cannot be dealt with at once.
struct RetryEntry {
    due: Instant,
    since: Instant,
    failures: u32,
}

// --- NameRecord ---

impl NameRecord {
    fn of(crd: &Value) -> Self {
        NameRecord {
            group: crd.at("spec").text("group").to_owned(),
            accepted: crd.at("status").at("acceptedNames").clone(),
            content: has_its_names(crd),
        }
    }
}

// --- CustomResourceDefinitionController ---

impl CustomResourceDefinitionController {
    /// Begins.
    pub(crate) fn start(registry: Arc<Registry>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let task = tokio::spawn(async move {
            loop {
                run(&registry).await;
                tokio::time::sleep(RETRY).await;
            }
        });
        CustomResourceDefinitionController(task)
    }
}

impl Drop for CustomResourceDefinitionController {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Marks a definition that is to be deleted: its objects go first.
pub(crate) fn mark_deleted(crd: &mut Value, now: Time) {
    let metadata = crd.ensure_object("metadata");
    metadata.set("deletionTimestamp", now.truncated().to_string());
    let mut finalizers = metadata.items("finalizers").to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
        metadata.set("finalizers", finalizers);
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    DefinitionCondition::met("Terminating", "InstanceDeletionPending", message).set(crd, now);
}

fn definitions(registry: &Registry) -> Resource {
    let kind = builtin().kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    registry.resource(kind.expect("the kind is built in"))
}

/// Deals with every definition, and again with each that changes, until the watch ends.
async fn run(registry: &Registry) {
    let resource = definitions(registry);
    let Ok((mut watcher, snapshot)) = registry.watch_all(&resource) else {
        return;
    };
    let mut pending: BTreeSet<String> = snapshot
        .objects
        .values()
        .map(|object| object.name().to_owned())
        .collect();
    let mut names = DefinitionNameRecords::new();
    for object in snapshot.objects.values() {
        names.insert(object.name().to_owned(), NameRecord::of(&object.tree()));
    }
    let mut later: HashMap<String, RetryEntry> = HashMap::new();
    let mut groups: BTreeSet<String> = pending
        .iter()
        .filter_map(|name| Some(name.split_once('.')?.1.to_owned()))
        .chain(api_services::groups(registry))
        .collect();
    loop {
        while let Some(name) = pending.pop_first() {
            let waited = later.remove(&name);
            let since = waited.as_ref().map_or_else(Instant::now, |waited| waited.since);
            let deletion_wait = if since.elapsed() >= PATIENCE {
                DeletionWait::Overdue
            } else {
                DeletionWait::Patient
            };
            match sync(registry, &resource, &name, deletion_wait, &mut names).await {
                Ok(true) => {}
                // It is not done, or went wrong: then it is tried again.
                done => {
                    if let Err(status) = done
                        && status.code != 409
                    {
                        tracing::warn!(
                            name,
                            why = status.message,
                            "failed to reconcile CustomResourceDefinition; retrying"
                        );
                    }
                    let failures = waited.map_or(1, |waited| waited.failures.saturating_add(1));
                    later.insert(
                        name,
                        RetryEntry {
                            due: Instant::now() + BACKOFF.after(failures),
                            since,
                            failures,
                        },
                    );
                }
            }
        }
        for group in std::mem::take(&mut groups) {
            if let Err(status) = api_services::keep(registry, &group).await {
                tracing::warn!(
                    group,
                    why = status.message,
                    "failed to reconcile APIServices of a group"
                );
            }
        }
        let due = later.values().map(|later| later.due).min();
        let due = due.unwrap_or_else(|| Instant::now() + BACKOFF.max);
        tokio::select! {
            event = poll_fn(|context| watcher.poll(context)) => {
                let Some(delivery) = event else { return };
                let object = delivery.event.object();
                pending.insert(object.name().to_owned());
                groups.extend(object.name().split_once('.').map(|(_, group)| group.to_owned()));
                let after = delivery.event.after.as_ref().map(|object| NameRecord::of(&object.tree()));
                // A name may have become free.
                pending.extend(update_names(&mut names, object.name(), after));
            }
            () = tokio::time::sleep_until(due) => {
                let now = Instant::now();
                pending.extend(later.iter().filter(|(_, later)| later.due <= now).map(|(name, _)| name.clone()));
            }
        }
    }
}

/// Updates the names of a definition. Returns other definitions that may get a released name.
fn update_names(names: &mut DefinitionNameRecords, name: &str, after: Option<NameRecord>) -> Vec<String> {
    let accepted = after.as_ref().map(|after| after.accepted.clone());
    let before = match after {
        Some(after) => names.insert(name.to_owned(), after),
        None => names.remove(name),
    };
    let Some(before) = before.filter(|before| Some(&before.accepted) != accepted.as_ref()) else {
        return Vec::new();
    };
    let others = names.iter();
    others
        .filter(|(_, other)| other.group == before.group && !other.content)
        .map(|(name, _)| name.clone())
        .collect()
}

/// Reconciles one definition. Returns whether it is done.
async fn sync(
    registry: &Registry,
    resource: &Resource,
    name: &str,
    deletion_wait: DeletionWait,
    names: &mut DefinitionNameRecords,
) -> Result<bool, Status> {
    let key = resource.key("", name)?;
    let Some(object) = resource.cache.get(&key) else {
        return Ok(true);
    };
    // Nothing is made of what it does not say.
    if object.undecrypted().is_some() {
        return Ok(false);
    }
    let crd = object.tree();
    let metadata = crd.at("metadata");
    if metadata.has("deletionTimestamp") {
        if metadata
            .texts("finalizers")
            .any(|finalizer| finalizer == FINALIZER)
        {
            return end(registry, resource, crd, deletion_wait).await;
        }
        return Ok(true);
    }
    let mut taken = TakenNames::default();
    if !has_its_names(&crd) {
        let group = crd.at("spec").text("group");
        let others = names.values().filter(|other| other.group == group);
        others.for_each(|other| taken.add(&other.accepted));
    }
    let kept = with_status(&crd, &taken, registry.now());
    if kept == crd {
        return Ok(true);
    }
    let known = NameRecord::of(&kept);
    write(registry, resource, kept).await?;
    // The next definition may be looked at before the event of this write. What was not written the event corrects.
    names.insert(name.to_owned(), known);
    Ok(true)
}

async fn write(registry: &Registry, resource: &Resource, crd: Value) -> Result<(), Status> {
    match registry.update_own_status(resource, crd, "kube-apiserver").await {
        // It is gone, or another server wrote: the next event tells more.
        Err(status) if status.code == 404 || status.code == 409 => Ok(()),
        other => other,
    }
}

fn has_its_names(crd: &Value) -> bool {
    let wanted = crd.at("spec").at("names");
    let given = crd.at("status").at("acceptedNames");
    ["plural", "singular", "kind", "listKind"]
        .iter()
        .all(|field| wanted.text(field) == given.text(field))
        && ["shortNames", "categories"]
            .iter()
            .all(|field| wanted.items(field) == given.items(field))
}

/// A definition with the status it should have.
fn with_status(crd: &Value, taken: &TakenNames, now: Time) -> Value {
    let mut kept = crd.clone();
    if !has_its_names(crd) {
        let (accepted, condition) = names::accept(crd, taken);
        kept.ensure_object("status").set("acceptedNames", accepted);
        condition.set(&mut kept, now);
        if conditions::find(&kept, "Established").is_none() {
            let not_accepted =
                DefinitionCondition::unmet("Established", "NotAccepted", "not all names are accepted");
            not_accepted.set(&mut kept, now);
        }
    }
    if conditions::is_true(&kept, "NamesAccepted") && !conditions::is_true(&kept, "Established") {
        established(crd).set(&mut kept, now);
    }
    if let Some((approved, reason, message)) = get_api_approval_state(crd) {
        let kind = "KubernetesAPIApprovalPolicyConformant";
        let condition = if approved {
            DefinitionCondition::met(kind, reason, message)
        } else {
            DefinitionCondition::unmet(kind, reason, message)
        };
        condition.set(&mut kept, now);
    }
    kept
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/establish/establishing_controller.go sync
fn established(crd: &Value) -> DefinitionCondition {
    let config = crd.at("spec").at("conversion").at_path("webhook.clientConfig");
    if k3_api::kinds::is_invalid_ca_bundle(config.at("caBundle")) {
        let message = "The conversion webhook CABundle is invalid";
        return DefinitionCondition::unmet("Established", "InvalidCABundle", message);
    }
    let message = "the initial names have been accepted";
    DefinitionCondition::met("Established", "InitialNamesAccepted", message)
}

/// Finalizes a deleted definition: first its objects, then itself. Returns whether it is done.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go CRDFinalizer
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go sync, deleteInstances
async fn end(
    registry: &Registry,
    resource: &Resource,
    mut crd: Value,
    deletion_wait: DeletionWait,
) -> Result<bool, Status> {
    let now = registry.now();
    let terminating =
        |reason: &str, message: String| DefinitionCondition::met("Terminating", reason, message);
    let terminated =
        |reason: &str, message: String| DefinitionCondition::unmet("Terminating", reason, message);
    let begun = matches!(
        conditions::find(&crd, "Terminating").map(|condition| condition.text("reason").to_owned()),
        Some(reason) if reason.starts_with("InstanceDeletion") && reason != "InstanceDeletionPending"
    );
    if !begun {
        let message = "CustomResource deletion is in progress".to_owned();
        terminating("InstanceDeletionInProgress", message).set(&mut crd, now);
        write(registry, resource, crd).await?;
        // The event of this write brings us back.
        return Ok(true);
    }
    let condition = if overlaps(&crd) {
        let message = "instances overlap with built-in resources in storage".to_owned();
        terminated("OverlappingBuiltInResource", message)
    } else if conditions::is_true(&crd, "Established") {
        match delete_objects(registry, resource, &crd).await {
            Ok(0) => terminated("InstanceDeletionCompleted", "removed all instances".to_owned()),
            Ok(_) if deletion_wait == DeletionWait::Patient => return Ok(false),
            Ok(_) => {
                let message =
                    "could not confirm zero CustomResources remaining: timed out waiting for the condition";
                return update_terminating_condition(
                    registry,
                    resource,
                    crd,
                    &terminating("InstanceDeletionCheck", message.to_owned()),
                )
                .await;
            }
            // The definition is another one by now.
            Err(status) if status.code == 409 => return Err(status),
            Err(status) => {
                let message = format!("could not issue all deletes: {}", status.message);
                return update_terminating_condition(
                    registry,
                    resource,
                    crd,
                    &terminating("InstanceDeletionFailed", message),
                )
                .await;
            }
        }
    } else {
        terminated("NeverEstablished", "resource was never established".to_owned())
    };
    condition.set(&mut crd, now);
    let metadata = crd.ensure_object("metadata");
    let finalizers: Vec<Value> = metadata
        .texts("finalizers")
        .filter(|finalizer| *finalizer != FINALIZER)
        .map(Value::from)
        .collect();
    metadata.set("finalizers", finalizers);
    write(registry, resource, crd).await?;
    Ok(true)
}

/// Sets the `Terminating` condition with a reason, once.
async fn update_terminating_condition(
    registry: &Registry,
    resource: &Resource,
    mut crd: Value,
    why: &DefinitionCondition,
) -> Result<bool, Status> {
    let before = crd.clone();
    why.set(&mut crd, registry.now());
    if crd != before {
        write(registry, resource, crd).await?;
    }
    Ok(false)
}

/// Deletes the objects of a definition. Returns how many are left, held by their finalizers.
async fn delete_objects(registry: &Registry, definitions: &Resource, crd: &Value) -> Result<usize, Status> {
    let spec = crd.at("spec");
    let metadata = crd.at("metadata");
    let key = definitions.key("", metadata.text("name"))?;
    // Another server may have ended it, and objects of a new definition of the same name are not to be deleted.
    let is_ending = || {
        definitions.cache.get(&key).is_some_and(|stored| {
            let stored = stored.tree();
            let stored = stored.at("metadata");
            stored.text("uid") == metadata.text("uid") && stored.has("deletionTimestamp")
        })
    };
    let served = registry
        .definitions()
        .find(spec.text("group"), spec.at("names").text("plural"));
    match served {
        Some(served) => {
            let resource = registry.resource(served.stored());
            registry.delete_own(&resource, is_ending).await
        }
        None => Ok(0),
    }
}
