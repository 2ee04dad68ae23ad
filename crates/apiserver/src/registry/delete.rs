//! DELETE: one object or a collection, with grace period, finalizers and propagation policy.

use std::sync::Arc;

use futures_util::future::join_all;
use k3_api::{
    decode,
    kinds::Kind,
    status::{GroupResource, Status, StatusDetails},
    strategy::{GarbageCollectionPolicy, GracefulDeletion, Tree, TreeMut},
    time::Time,
};
use k3_duration::Duration;
use serde_json::{Value, json};

use super::{
    Registry, RequestContext, Resource,
    commit::{ReadyObject, WriteError},
    conversion::{shown, shown_all, stored, tree_to_change},
    decryption::{readable, readable_snapshot},
    freshness::read_index,
    list::SelectionPredicate,
    outcome::Outcome,
    pending_write::PendingWrite,
    request_context::Warnings,
    response,
    server_objects::own_user,
    storage_version,
    update::read_entry,
};
use crate::{
    admission::Operation,
    allocation::Reservation,
    cache::CachedObject,
    custom,
    http::{Format, HttpResponse},
    request::{DeleteOptions, DeletionPropagation, ListOptions, ListVerb, Query},
};

const TRIES: usize = 10;
/// How many of a collection are deleted at once: a store makes the writes of many durable in the time of one.
pub(super) const AT_ONCE: usize = 32;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What follows the mark of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterMark {
    /// Its finalizers, or the one who is to stop it, remove the object.
    Wait,
    /// It is removed at once, for it was given no time.
    Remove,
}

/// The next step of a deletion.
enum DeletionPlan {
    /// Nothing: it is already terminating.
    Leave,
    /// Remove it.
    Remove,
    /// Mark it.
    Mark { object: Value, next: AfterMark },
}

// --- Registry ---

impl Registry {
    /// DELETE: deletes one object.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go DeleteResource
    pub(crate) async fn delete(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let body = options_body(ctx)?;
        let options = DeleteOptions::read(&ctx.query, body.as_ref())?;
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        read_index(&self.caches).await?;
        let key = resource.key(&ctx.target.namespace, &ctx.target.name)?;
        let Some(current) = resource.cache.get(&key) else {
            return Err(resource.not_found(&ctx.target.name));
        };
        let current = readable(&self.caches, &resource, current).await?;
        let mut write = PendingWrite::new(ctx, &resource, &options);
        write.warnings = propagation_warnings(&resource, &options);
        match self.delete_object(&mut write, current).await? {
            outcome @ (Outcome::Deleted(_) | Outcome::DryRun(_)) => {
                let object = outcome.into_tree(&resource);
                let mut answer = if is_shown(&resource.kind) {
                    response::tree(200, object, ctx, &resource)?
                } else {
                    let status = Status::success(StatusDetails {
                        name: ctx.target.name.clone(),
                        group: resource.kind.group.to_string(),
                        kind: resource.kind.plural.to_string(),
                        uid: object.at("metadata").text("uid").to_owned(),
                        ..StatusDetails::default()
                    });
                    crate::http::status(&status, ctx.accepted.format, ctx.accepted.layout)
                };
                response::warn(&mut answer, &write.warnings.0);
                Ok(answer)
            }
            terminating @ (Outcome::Stored { .. } | Outcome::Unchanged { .. }) => {
                let waits = body.is_some_and(|body| body.at("orphanDependents") == &Value::Bool(false))
                    || ctx.query.flag("orphanDependents") == Some(false);
                let code = if waits { 202 } else { 200 };
                response::outcome(code, terminating, &write)
            }
        }
    }

    /// DELETE on a collection: deletes all selected objects, and returns the list of them.
    // upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go DeleteCollection
    pub(crate) async fn delete_collection(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let body = options_body(ctx)?;
        let options = DeleteOptions::read(&ctx.query, body.as_ref())?;
        let listing = ListOptions::read(&ctx.query, ListVerb::List)?;
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let selection = SelectionPredicate::new(&listing, &resource)?;
        let revision = read_index(&self.caches).await?;
        let prefix = resource.under(&ctx.target.namespace);
        let snapshot = resource.cache.snapshot(revision);
        let snapshot = readable_snapshot(&self.caches, &resource, snapshot, &prefix).await?;
        let mut items = Vec::new();
        let mut warnings = propagation_warnings(&resource, &options);
        let objects: Vec<_> = snapshot
            .under(&prefix, None)
            .filter(|object| selection.matches(object, &resource))
            .collect();
        for some in objects.chunks(AT_ONCE) {
            ctx.check_cancelled()?;
            let deletions = some.iter().map(|object| async {
                let mut write = PendingWrite::new(ctx, &resource, &options);
                let deleted = self.delete_object(&mut write, Arc::clone(object)).await;
                (deleted, write.warnings)
            });
            for (object, (deleted, warned)) in some.iter().zip(join_all(deletions).await) {
                warnings.0.extend(warned.0);
                match deleted {
                    // What they were, not what has become of them.
                    Ok(_) => items.push(object.tree()),
                    // Deleted concurrently, which is what was requested.
                    Err(status) if status.code == 404 => {}
                    Err(status) => return Err(status),
                }
            }
        }
        let items = shown_all(&self.converter, items, &resource).await?;
        let metadata = json!({"resourceVersion": snapshot.revision.to_string()});
        let mut answer = super::list::answer_trees(items, &metadata, ctx, &resource)?;
        response::warn(&mut answer, &warnings.0);
        Ok(answer)
    }

    /// Deletes all objects of a resource on behalf of the server. Returns how many are left, held by their finalizers.
    ///
    /// `is_due` is checked once the objects are known: a server that lagged may have decided on outdated state.
    pub(crate) async fn delete_own(
        &self,
        resource: &Resource,
        is_due: impl Fn() -> bool,
    ) -> Result<usize, Status> {
        let revision = read_index(&self.caches).await?;
        let options = DeleteOptions::read(&Query::default(), None)?;
        let mut left = 0;
        let snapshot = resource.cache.snapshot(revision);
        if !is_due() {
            let why = "the reason to delete all objects no longer holds";
            return Err(Status::conflict(resource.grouped(), "", why));
        }
        let objects: Vec<_> = snapshot.objects.values().collect();
        for some in objects.chunks(AT_ONCE) {
            let deletions = some.iter().map(|object| async {
                let mut ctx =
                    RequestContext::own(resource.kind.clone(), object.namespace(), own_user(), self.now());
                object.name().clone_into(&mut ctx.target.name);
                let mut write = PendingWrite::new(&ctx, resource, &options);
                self.delete_object(&mut write, Arc::clone(object)).await
            });
            for deleted in join_all(deletions).await {
                match deleted {
                    Ok(Outcome::Stored { .. } | Outcome::Unchanged { .. }) => left += 1,
                    Ok(Outcome::Deleted(_) | Outcome::DryRun(_)) => {}
                    Err(status) if status.code == 404 => {}
                    Err(status) => return Err(status),
                }
            }
        }
        Ok(left)
    }

    /// Deletes an object, or marks it as terminating if it has finalizers or a grace period: then the outcome is `Stored`, or
    /// `Unchanged` if it was marked already.
    // upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go Delete, updateForGracefulDeletionAndFinalizers
    pub(super) async fn delete_object(
        &self,
        write: &mut PendingWrite<'_, DeleteOptions>,
        mut current: Arc<CachedObject>,
    ) -> Result<Outcome, Status> {
        let ctx = write.ctx;
        let resource = write.resource;
        let warning_count = write.warnings.0.len();
        for _ in 0..TRIES {
            write.warnings.0.truncate(warning_count);
            let object = tree_to_change(&self.caches, &self.converter, &current, resource).await?;
            let mut object = Arc::unwrap_or_clone(object);
            check_preconditions(&object, write.options, resource)?;
            // A delete by a subresource (eviction) has been admitted already, as the create of that subresource.
            if ctx.target.part().is_empty() {
                let mut attributes = write.attributes(Operation::Delete, &mut object, None);
                self.admission.admit(&mut attributes).await?;
                self.admission.validate(&mut attributes).await?;
            }
            let attempt = match plan(&object, resource, write.options, ctx.now) {
                DeletionPlan::Leave => {
                    let served = (!resource.serves_as_stored(&current)).then_some(object);
                    return Ok(Outcome::Unchanged { current, served });
                }
                _ if write.is_dry_run() => {
                    return Ok(Outcome::DryRun(validated(object, resource)));
                }
                DeletionPlan::Remove => self.remove(&current, object, resource).await,
                DeletionPlan::Mark { object, next } => self.mark(&current, object, next, resource).await,
            };
            match attempt {
                Ok(deleted) => return Ok(deleted),
                Err(WriteError::Failed(status)) => return Err(status),
                Err(WriteError::Conflict(None)) => return Err(resource.not_found(current.name())),
                Err(WriteError::Conflict(Some(entry))) => current = read_entry(entry),
            }
        }
        let why = "the object has been modified concurrently too often; please try again";
        Err(Status::conflict(resource.grouped(), current.name(), why))
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go deleteWithoutFinalizers
    async fn remove(
        &self,
        current: &CachedObject,
        mut object: Value,
        resource: &Resource,
    ) -> Result<Outcome, WriteError> {
        let key = current.key.clone();
        let reservation = Reservation::default();
        let revision = self
            .remove_object(key, current.revision, &object, resource, reservation)
            .await?;
        object
            .ensure_object("metadata")
            .set("resourceVersion", revision.to_string());
        Ok(Outcome::Deleted(validated(object, resource)))
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go markAsDeleting
    async fn mark(
        &self,
        current: &CachedObject,
        object: Value,
        next: AfterMark,
        resource: &Resource,
    ) -> Result<Outcome, WriteError> {
        let object = validated(object, resource);
        let validation_kind = storage_version::validation_kind(&resource.kind);
        let bytes = stored(&self.converter, &object, validation_kind, resource).await?;
        let ready = ReadyObject {
            key: current.key.clone(),
            replaces: Some(current.revision),
            bytes,
            object,
            time_to_live: None,
        };
        let reservation = Reservation::default();
        if next == AfterMark::Wait {
            return self.store_object(ready, resource, reservation).await;
        }
        // Two commits instead of one delete: watchers see the deletion timestamp before the DELETED event, as upstream.
        let revision = self.commit_object(&ready, resource, reservation).await?;
        let marked = CachedObject::new(ready.key, ready.bytes, revision);
        let tree = if resource.custom.is_none() && !resource.converts() {
            ready.object
        } else {
            shown(&self.converter, marked.tree(), resource).await?
        };
        self.remove(&marked, tree, resource).await
    }
}

/// An object of the version of the request, in the version that it is validated in.
fn validated(object: Value, resource: &Resource) -> Value {
    let validation_kind = storage_version::validation_kind(&resource.kind);
    storage_version::convert(object, &resource.kind, validation_kind)
}

/// The warnings about what a request leaves open.
fn propagation_warnings(resource: &Resource, options: &DeleteOptions) -> Warnings {
    let warning = resource.strategy().unspecified_propagation_warning();
    let warning = warning.filter(|_| options.propagation.is_none());
    Warnings(warning.map(str::to_owned).into_iter().collect())
}

/// Whether the response is the object instead of a Status. For namespaces it is, although the OpenAPI document specifies a Status.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go DeleteReturnsDeletedObject
fn is_shown(kind: &Kind) -> bool {
    kind.strategy.is_none() && kind.returns_deleted_object()
        || (kind.group.is_empty() && kind.kind == "Namespace")
}

/// The options in the body of a delete, if it has one.
pub(crate) fn options_body(ctx: &RequestContext) -> Result<Option<Value>, Status> {
    if ctx.body.is_empty() {
        return Ok(None);
    }
    let ty = k3_api::schema::schema()
        .get("meta", "v1", "DeleteOptions")
        .expect("the table has the type");
    let bad = |text: String| Status::bad_request(text);
    let text = match ctx.format() {
        Some(Format::Protobuf) => {
            let value = k3_api::protobuf::decode(&ctx.body, ty).map_err(|error| bad(error.to_string()))?;
            return Ok(Some(value));
        }
        Some(Format::Yaml) => {
            let decoded = decode::yaml_to_json(&ctx.body).map_err(|error| bad(error.to_string()))?;
            serde_json::to_vec(&decoded.value).expect("a tree can be written")
        }
        Some(Format::Json) => ctx.body.to_vec(),
        None => {
            return Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    let type_meta = decode::type_of(&text)
        .map_err(|error| bad(format!("couldn't get version/kind; json parse error: {error}")))?;
    if !type_meta.kind.is_empty() && type_meta.kind != "DeleteOptions" {
        return Err(bad(format!(
            "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            k3_api::go::quote(&type_meta.kind),
            k3_api::go::quote(&type_meta.api_version)
        )));
    }
    let decoded = decode::json(&text, ty).map_err(|error| bad(error.to_string()))?;
    Ok(Some(decoded.value))
}

/// Checks the preconditions (uid and resourceVersion) of a delete.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/interfaces.go Check
pub(super) fn check_preconditions(
    object: &Value,
    options: &DeleteOptions,
    resource: &Resource,
) -> Result<(), Status> {
    let metadata = object.at("metadata");
    for (what, field, wanted, happened) in [
        ("UID", "uid", &options.uid, "deleted and then recreated"),
        (
            "ResourceVersion",
            "resourceVersion",
            &options.resource_version,
            "modified",
        ),
    ] {
        let there = metadata.text(field);
        let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != there) else {
            continue;
        };
        let name = metadata.text("name");
        // What goes by steps of its own has words of its own.
        if let Some(failed) = precondition_failure(&resource.kind) {
            let why = format!("{failed}: {what} in precondition: {wanted}, {what} in object meta: {there}");
            return Err(Status::conflict(resource.grouped(), name, why));
        }
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({there}). The object might have \
             been {happened}"
        );
        let kind = GroupResource::new(&resource.kind.group, &resource.kind.kind);
        return Err(Status::conflict(kind, name, why));
    }
    Ok(())
}

/// The precondition message of kinds with two-phase deletion.
fn precondition_failure(kind: &Kind) -> Option<&'static str> {
    match (&*kind.group, &*kind.kind) {
        ("", "Namespace") => Some("Precondition failed"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Some("precondition failed"),
        _ => None,
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go BeforeDelete
fn plan(object: &Value, resource: &Resource, options: &DeleteOptions, now: Time) -> DeletionPlan {
    let metadata = object.at("metadata");
    let finalizers = finalizers(object, resource, options);
    let has_finalizers = !finalizers.is_empty();
    let asked = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    // Most objects: nothing of them is changed, and so nothing copied.
    if !has_finalizers
        && !metadata.has("deletionTimestamp")
        && precondition_failure(&resource.kind).is_none()
        && resource.strategy().check_graceful_delete(object, asked) == GracefulDeletion::None
    {
        return DeletionPlan::Remove;
    }
    let mut marked = object.clone();
    set_finalizers(&mut marked, &finalizers);
    if let Some(own) = two_phase_plan(object, &marked, &resource.kind, now) {
        return own;
    }
    let graceful = if metadata.has("deletionTimestamp") {
        match metadata.int("deletionGracePeriodSeconds") {
            None | Some(0) => false,
            Some(given) => match asked {
                Some(seconds) if seconds < given => {
                    shorten(&mut marked, given, seconds, now);
                    true
                }
                _ => return DeletionPlan::Leave,
            },
        }
    } else {
        match resource.strategy().check_graceful_delete(object, asked) {
            GracefulDeletion::None => false,
            GracefulDeletion::Seconds(seconds) => {
                let end = now.plus(Duration::from_seconds(seconds)).truncated();
                let metadata = marked.ensure_object("metadata");
                metadata.set("deletionTimestamp", end.to_string());
                metadata.set("deletionGracePeriodSeconds", seconds);
                raise_generation(metadata);
                true
            }
        }
    };
    if graceful {
        let seconds = marked
            .at("metadata")
            .int("deletionGracePeriodSeconds")
            .unwrap_or_default();
        let next = if seconds == 0 && !has_finalizers {
            AfterMark::Remove
        } else {
            AfterMark::Wait
        };
        return DeletionPlan::Mark { object: marked, next };
    }
    if !has_finalizers {
        return DeletionPlan::Remove;
    }
    let is_new = !metadata.has("deletionTimestamp");
    let marked_metadata = marked.ensure_object("metadata");
    if is_new {
        raise_generation(marked_metadata);
        marked_metadata.set("deletionTimestamp", now.truncated().to_string());
    }
    marked_metadata.set("deletionGracePeriodSeconds", 0);
    if marked == *object {
        return DeletionPlan::Leave;
    }
    DeletionPlan::Mark {
        object: marked,
        next: AfterMark::Wait,
    }
}

/// The plan of two-phase deletion: a definition is deleted after its objects, a namespace after its content. `marked` has the
/// finalizers requested by the client.
// upstream: pkg/registry/core/namespace/storage/storage.go Delete; CustomResourceDefinitions have the same in apiextensions-apiserver
fn two_phase_plan(object: &Value, marked: &Value, kind: &Kind, now: Time) -> Option<DeletionPlan> {
    let is_new = !object.at("metadata").has("deletionTimestamp");
    let marked = match (&*kind.group, &*kind.kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") if is_new => {
            let mut marked = object.clone();
            custom::mark_deleted(&mut marked, now);
            marked
        }
        ("", "Namespace") if is_new => {
            let mut marked = marked.clone();
            let end = now.truncated().to_string();
            marked.ensure_object("metadata").set("deletionTimestamp", end);
            marked.ensure_object("status").set("phase", "Terminating");
            marked
        }
        ("", "Namespace") if !object.at("spec").items("finalizers").is_empty() => {
            return Some(DeletionPlan::Leave);
        }
        _ => return None,
    };
    Some(DeletionPlan::Mark {
        object: marked,
        next: AfterMark::Wait,
    })
}

fn raise_generation(metadata: &mut Value) {
    if let Some(generation) = metadata.int("generation").filter(|generation| *generation > 0) {
        metadata.set("generation", generation + 1);
    }
}

/// Shortens the grace period of a terminating object, counted from its deletion timestamp.
fn shorten(object: &mut Value, given: i64, seconds: i64, now: Time) {
    let metadata = object.ensure_object("metadata");
    let end = Time::parse(metadata.text("deletionTimestamp")).unwrap_or(now);
    let mut new_end = end.plus(Duration::from_seconds(seconds - given));
    let mut period = seconds;
    if new_end < now {
        new_end = now;
        // Whoever asked for some time gets the least there is; another one removes the object.
        if period != 0 {
            period = 1;
        }
    }
    metadata.set("deletionTimestamp", new_end.truncated().to_string());
    metadata.set("deletionGracePeriodSeconds", period);
}

/// The finalizers after a deletion was requested: `orphan` and `foregroundDeletion` are added or removed according to the
/// propagation policy.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go deletionFinalizersForGarbageCollection, shouldOrphanDependents, shouldDeleteDependentsInForeground
fn finalizers(object: &Value, resource: &Resource, options: &DeleteOptions) -> Vec<String> {
    let has = |name: &str| {
        object
            .at("metadata")
            .texts("finalizers")
            .any(|finalizer| finalizer == name)
    };
    let (orphan, foreground) = match options.propagation {
        Some(DeletionPropagation::Orphan) => (true, false),
        Some(DeletionPropagation::Foreground) => (false, true),
        Some(DeletionPropagation::Background) => (false, false),
        None if has(ORPHAN) => (true, false),
        None if has(FOREGROUND) => (false, true),
        None => (
            resource.strategy().default_garbage_collection_policy()
                == GarbageCollectionPolicy::OrphanDependents,
            false,
        ),
    };
    let kept = object.at("metadata").texts("finalizers");
    let mut finalizers: Vec<String> = kept
        .filter(|name| *name != ORPHAN && *name != FOREGROUND)
        .map(str::to_owned)
        .collect();
    if orphan {
        finalizers.push(ORPHAN.to_owned());
    }
    if foreground {
        finalizers.push(FOREGROUND.to_owned());
    }
    finalizers
}

fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let metadata = object.ensure_object("metadata");
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.set("finalizers", finalizers.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use k3_api::kinds::builtin;
    use k3_storage::memory::MemoryStore;
    use serde_json::json;

    use super::*;
    use crate::registry::testing::TestRegistry;

    #[tokio::test]
    async fn deleted_autoscaler_is_answered_in_the_version_of_the_request() {
        let server = TestRegistry::start(MemoryStore::new(), "10.0.0.0/24").await;
        let resource = server.resource("autoscaling", "v1", "HorizontalPodAutoscaler");
        let autoscaler = json!({
            "metadata": {"name": "a", "namespace": "n", "finalizers": ["example.com/wait"]},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                "maxReplicas": 3,
                "targetCPUUtilizationPercentage": 7,
            },
        });
        server.put(&resource, &autoscaler).await;
        let mut ctx = RequestContext::own(resource.kind.clone(), "n", own_user(), Time::from_unix(0, 0));
        "a".clone_into(&mut ctx.target.name);
        // It is marked, and then found marked.
        for _ in 0..2 {
            let answer = server.registry.delete(&ctx).await.unwrap();
            let text = crate::http::body_text(answer, 10_000).await;
            let object: Value = serde_json::from_str(&text).unwrap();
            assert!(object.at("metadata").has("deletionTimestamp"), "{text}");
            assert_eq!(object.text("apiVersion"), "autoscaling/v1");
            assert_eq!(object.at("spec").int("targetCPUUtilizationPercentage"), Some(7));
        }
    }

    #[test]
    fn namespace_deletion_is_two_phase() {
        let kind = builtin()
            .kind("", "v1", "Namespace")
            .expect("the kind is built in");
        let plan = |object: &Value| two_phase_plan(object, object, kind, Time::from_unix(0, 0));
        let Some(DeletionPlan::Mark {
            object: marked,
            next: AfterMark::Wait,
        }) = plan(&json!({"metadata": {"name": "a"}}))
        else {
            panic!("even one that nothing holds is marked at first");
        };
        let metadata = json!({"name": "a", "deletionTimestamp": "1970-01-01T00:00:00Z"});
        assert_eq!(
            marked,
            json!({"metadata": metadata, "status": {"phase": "Terminating"}})
        );
        assert!(plan(&marked).is_none());
        let held = json!({"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}});
        assert!(matches!(plan(&held), Some(DeletionPlan::Leave)));
    }
}
