//! PUT and PATCH: updates objects, with optimistic locking.

use std::sync::Arc;

use k3_api::{
    apply::managed,
    decode, encode,
    field::{Error, Path},
    go,
    kinds::Kind,
    status::{GroupResource, Status},
    strategy::{self, Tree, TreeMut, WrittenPart},
};
use k3_storage::{Entry, Key, ReadError, Revision};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    Registry, RequestContext, Resource,
    admission_metrics::{ADMIT_CHANGE, VALIDATE_CHANGE},
    body::{self, ExpectedKind},
    commit::{ReadyObject, WriteError, time_to_live, unavailable},
    conversion::{stored, tree_to_change},
    create::{FieldTracking, dedup_owners, match_namespace},
    decryption::readable,
    freshness::read_index,
    managed_fields::{self, custom_conversion},
    outcome::Outcome,
    patch::Patch,
    pending_write::PendingWrite,
    response,
    size::{self, ManagedFields},
    storage_version,
    subresource::NewScale,
};
use crate::{
    admission::Operation,
    allocation::Reservation,
    cache::CachedObject,
    http::HttpResponse,
    request::{WriteOptions, WriteVerb},
};

/// How often a conflicting update is retried.
const TRIES: usize = 10;

/// The object was modified concurrently.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Where the new state of an object comes from.
pub(super) enum UpdateSource {
    /// A PUT: the object in the body.
    Put(SubmittedObject),
    /// A PATCH: computed from the current object.
    Patch(Patch),
    /// A write to the scale subresource.
    Scale(NewScale),
}

/// The object of a PUT. The first attempt changes the tree; its text is kept for a second one, which is rare.
pub(super) struct SubmittedObject {
    text: Vec<u8>,
    tree: Mutex<Option<Value>>,
}

/// What a PUT, a patch or an apply did.
pub(super) enum ChangedObject {
    Created(Outcome),
    Updated(Outcome),
}

// --- Registry ---

impl Registry {
    /// PUT: replaces an object by the one in the body.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go UpdateResource
    pub(crate) async fn update(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let options = WriteOptions::read(&ctx.query, WriteVerb::Update, &ctx.agent)?;
        let kind = &ctx.target.kind;
        let resource = Resource::of(kind.clone(), &self.caches);
        let mut write = PendingWrite::new(ctx, &resource, &options);
        let mut object = body::read(ctx, ExpectedKind::of(kind), &options, &mut write.warnings)?;
        match_name(&object, write.name())?;
        match_namespace(&mut object, &resource, &ctx.target.namespace)?;
        size::check_before_defaults(&object, ctx, &resource)?;
        ctx.check_cancelled()?;
        resource.strategy().set_defaults(&mut object);
        size::check(&object, None, ManagedFields::Pending, ctx, &resource)?;
        let source = UpdateSource::Put(SubmittedObject::new(object));
        self.answer_change(write, source).await
    }

    /// PATCH: applies the patch in the body.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go PatchResource
    pub(crate) async fn patch(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let writing = Patch::writing(ctx)?;
        let options = WriteOptions::read(&ctx.query, writing, &ctx.agent)?;
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let mut write = PendingWrite::new(ctx, &resource, &options);
        let patch = Patch::read(ctx, &options, &mut write.warnings)?;
        self.answer_change(write, UpdateSource::Patch(patch)).await
    }

    async fn answer_change(
        &self,
        mut write: PendingWrite<'_>,
        source: UpdateSource,
    ) -> Result<HttpResponse, Status> {
        match self.change(&mut write, &source).await? {
            ChangedObject::Updated(outcome) => response::outcome(200, outcome, &write),
            ChangedObject::Created(outcome) => response::outcome(201, outcome, &write),
        }
    }

    /// Updates an object, or creates it if the source allows.
    pub(super) async fn change(
        &self,
        write: &mut PendingWrite<'_>,
        source: &UpdateSource,
    ) -> Result<ChangedObject, Status> {
        read_index(&self.caches).await?;
        let resource = write.resource;
        let key = resource.key(&write.ctx.target.namespace, write.name())?;
        let mut current = resource.cache.get(&key);
        let warning_count = write.warnings.0.len();
        for _ in 0..TRIES {
            write.warnings.0.truncate(warning_count);
            write.ctx.check_cancelled()?;
            let Some(object) = &current else {
                let created = self.create_by_change(write, source).await?;
                return Ok(ChangedObject::Created(created));
            };
            match self.try_change(write, &key, object, source).await {
                Ok(updated) => return Ok(ChangedObject::Updated(updated)),
                Err(WriteError::Failed(status)) => return Err(status),
                Err(WriteError::Conflict(entry)) => current = entry.map(read_entry),
            }
        }
        Err(Status::conflict(resource.grouped(), write.name(), MODIFIED))
    }

    async fn create_by_change(
        &self,
        write: &mut PendingWrite<'_>,
        source: &UpdateSource,
    ) -> Result<Outcome, Status> {
        let ctx = write.ctx;
        let resource = write.resource;
        let is_whole = ctx.target.part().is_empty();
        let mut object = match source {
            UpdateSource::Put(object) if is_whole && resource.strategy().allow_create_on_update() => {
                let object = object.take()?;
                let uid = object.at("metadata").text("uid");
                if !uid.is_empty() {
                    return Err(uid_conflict(resource, ctx, uid, ""));
                }
                object
            }
            UpdateSource::Patch(patch) if is_whole && patch.creates() => {
                let object = patch.make(None, write, custom_conversion(resource, &self.converter))?;
                // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go applyPatch
                let uid = object.at("metadata").text("uid");
                if !uid.is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(Status::conflict(resource.grouped(), write.name(), &why));
                }
                object
            }
            _ => return Err(resource.not_found(write.name())),
        };
        write.needs_create_permission = true;
        let metadata = object.ensure_object("metadata");
        metadata.set("name", write.name());
        metadata.remove("resourceVersion");
        match_namespace(&mut object, resource, &ctx.target.namespace)?;
        resource.strategy().set_defaults(&mut object);
        let recording = if source.is_recorded() {
            FieldTracking::Done
        } else {
            FieldTracking::Needed
        };
        self.store_new(write, object, recording).await
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go Update
    async fn try_change(
        &self,
        write: &mut PendingWrite<'_>,
        key: &Key,
        current: &Arc<CachedObject>,
        source: &UpdateSource,
    ) -> Result<Outcome, WriteError> {
        let ctx = write.ctx;
        let resource = write.resource;
        let current = &readable(&self.caches, resource, Arc::clone(current)).await?;
        let old = tree_to_change(&self.caches, &self.converter, current, resource).await?;
        let mut new = match source {
            UpdateSource::Put(object) => object.take()?,
            UpdateSource::Patch(patch) => {
                patch.make(Some(&old), write, custom_conversion(resource, &self.converter))?
            }
            UpdateSource::Scale(scale) => scale.make(&old, write)?,
        };
        if let UpdateSource::Put(_) = source {
            let uid = new.at("metadata").text("uid");
            let current_uid = old.at("metadata").text("uid");
            if !uid.is_empty() && uid != current_uid {
                return Err(uid_conflict(resource, ctx, uid, current_uid).into());
            }
        }
        if let UpdateSource::Patch(_) = source {
            match_name(&new, write.name())?;
            match_namespace(&mut new, resource, &ctx.target.namespace)?;
        }
        dedup_owners(&mut new, &mut write.warnings);
        ctx.check_cancelled()?;
        check_version(&mut new, current.revision, resource, write.name())?;
        if !source.is_recorded() {
            let custom = custom_conversion(resource, &self.converter);
            managed_fields::with_subject(
                &resource.kind,
                resource.strategy(),
                ctx.target.part(),
                custom,
                |subject| {
                    subject.track(Some(&old), &mut new, &write.options.manager, ctx.now);
                },
            );
        }
        size::check(&new, Some(&old), ManagedFields::Recorded, ctx, resource)?;
        let validation_kind = write.validation_kind();
        let mut new = storage_version::convert(new, &resource.kind, validation_kind);
        let old = if storage_version::is_same(&resource.kind, validation_kind) {
            old
        } else {
            let old = Arc::unwrap_or_clone(old);
            Arc::new(storage_version::convert(old, &resource.kind, validation_kind))
        };
        // Taken before admission: the strategy resets the status of a PUT to the stored one.
        let status = self.status_of_unrestricted_put(ctx, source, &new);
        ctx.check_cancelled()?;
        let reservation = self.admit_and_validate_change(write, &mut new, &old).await?;
        if let Some(status) = status {
            set_status(write, &mut new, status)?;
        }
        // A write that changes nothing is not committed: the resource version stays, no watcher is notified, and a client that
        // writes the same object periodically costs no history in the store.
        let is_unchanged = resource.serves_as_stored(current) && new == *old;
        if is_unchanged && !self.is_encrypted_with_old_key(key, write).await? {
            return Ok(Outcome::Unchanged {
                current: Arc::clone(current),
                served: None,
            });
        }
        let bytes = stored(&self.converter, &new, validation_kind, resource).await?;
        if !is_unchanged && current.stored() == &bytes && !self.is_encrypted_with_old_key(key, write).await? {
            return Ok(Outcome::Unchanged {
                current: Arc::clone(current),
                // A custom object is returned as its current definition converts and defaults it.
                served: resource.custom.is_some().then_some(new),
            });
        }
        if write.is_dry_run() {
            return Ok(Outcome::DryRun(new));
        }
        // The write succeeds only at this revision: if another one was committed since, the caller repeats the attempt with the
        // newer object, and admission and validation run again.
        if is_finalized(&new, &old, &resource.kind) {
            self.remove_object(key.clone(), current.revision, &old, resource, reservation)
                .await?;
            return Ok(Outcome::Deleted(new));
        }
        let ready = ReadyObject {
            key: key.clone(),
            replaces: Some(current.revision),
            bytes,
            time_to_live: time_to_live(&resource.kind, &new, ctx.now),
            object: new,
        };
        self.store_object(ready, resource, reservation).await
    }

    /// Whether the stored object is encrypted with an old key. Then a write that changes nothing is committed too: rewriting all
    /// objects is how a key is rotated.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go GuaranteedUpdate
    async fn is_encrypted_with_old_key(&self, key: &Key, write: &PendingWrite<'_>) -> Result<bool, Status> {
        if write.is_dry_run() {
            return Ok(false);
        }
        let is_stale = self.caches.store().is_stale(key).await;
        is_stale.map_err(|error| match error {
            ReadError::Store(error) => unavailable(&error),
            error => Status::internal_error(error),
        })
    }

    /// The status in the body of a PUT, if the server is configured to let a PUT change the status.
    fn status_of_unrestricted_put(
        &self,
        ctx: &RequestContext,
        source: &UpdateSource,
        new: &Value,
    ) -> Option<Value> {
        let may_change_status = self.unrestricted_update
            && matches!(source, UpdateSource::Put(_))
            && ctx.target.part().is_empty()
            && ctx.target.kind.subresource("status").is_some();
        (may_change_status && new.has("status")).then(|| new.at("status").clone())
    }

    /// Runs admission and validation for a changed object.
    async fn admit_and_validate_change<'r>(
        &'r self,
        write: &mut PendingWrite<'_>,
        new: &mut Value,
        old: &Value,
    ) -> Result<Reservation<'r>, Status> {
        let mut attributes = write.attributes(Operation::Update, new, Some(old));
        let admitted = self.admission.admit(&mut attributes);
        self.admission.step(ADMIT_CHANGE, admitted).await?;
        self.admission.check_grant(&attributes)?;
        let part = match write.ctx.target.part() {
            "" | "scale" => WrittenPart::Object,
            "status" => WrittenPart::Status,
            other => WrittenPart::Other(other),
        };
        let reservation = if part == WrittenPart::Object {
            self.allocation
                .reserve(new, Some(old), write.resource, write.ctx.now, write.mode())
                .await?
        } else {
            Reservation::default()
        };
        match self.validate_change(write, new, old, part).await {
            Ok(()) => Ok(reservation),
            Err(status) => {
                reservation.give_back().await;
                Err(status)
            }
        }
    }

    /// Runs the strategy of the kind and the validating admission plugins for a changed object.
    // upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/update.go BeforeUpdate
    async fn validate_change(
        &self,
        write: &mut PendingWrite<'_>,
        new: &mut Value,
        old: &Value,
        part: WrittenPart<'_>,
    ) -> Result<(), Status> {
        let validation_kind = write.validation_kind();
        let warnings = strategy::update(new, old, part, &write.strategy_context())?;
        write.warnings.0.extend(warnings);
        write.ctx.check_cancelled()?;
        let mut attributes = write.attributes(Operation::Update, new, Some(old));
        let validated = self.admission.validate(&mut attributes);
        self.admission.step(VALIDATE_CHANGE, validated).await?;
        strategy::for_kind(validation_kind).set_defaults(new);
        validation_kind.ty.forget_empty(new);
        managed::ignore_managed_fields_timestamps(old, new);
        write.ctx.check_cancelled()
    }
}

/// Sets the status as a later write to the status subresource would.
fn set_status(write: &PendingWrite<'_>, new: &mut Value, status: Value) -> Result<(), Status> {
    let settled = new.clone();
    new.set("status", status);
    strategy::update(new, &settled, WrittenPart::Status, &write.strategy_context())?;
    write.validation_kind().ty.forget_empty(new);
    Ok(())
}

// --- SubmittedObject ---

impl SubmittedObject {
    pub(super) fn new(object: Value) -> Self {
        SubmittedObject {
            text: encode::encode(&object),
            tree: Mutex::new(Some(object)),
        }
    }

    /// The tree, for one attempt.
    fn take(&self) -> Result<Value, Status> {
        let tree = self.tree.lock().take();
        match tree {
            Some(tree) => Ok(tree),
            None => decode::tree_of(&self.text).map_err(Status::internal_error),
        }
    }
}

// --- ChangedObject ---

impl ChangedObject {
    pub(super) fn into_outcome(self) -> Outcome {
        match self {
            ChangedObject::Created(outcome) | ChangedObject::Updated(outcome) => outcome,
        }
    }
}

// --- UpdateSource ---

impl UpdateSource {
    /// Whether managed fields are already updated, as by an apply.
    fn is_recorded(&self) -> bool {
        match self {
            UpdateSource::Put(_) => false,
            UpdateSource::Patch(patch) => patch.is_apply(),
            UpdateSource::Scale(_) => true,
        }
    }
}

pub(super) fn read_entry(entry: Entry) -> Arc<CachedObject> {
    Arc::new(CachedObject::new(entry.key, entry.value, entry.revision))
}

/// Whether an update removed the last finalizer of a terminating object: then the object is deleted.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go ShouldDeleteDuringUpdate
fn is_finalized(new: &Value, old: &Value, kind: &Kind) -> bool {
    let before = old.at("metadata");
    new.at("metadata").items("finalizers").is_empty()
        && before.has("deletionTimestamp")
        && before.int("deletionGracePeriodSeconds").unwrap_or_default() == 0
        // A namespace also has finalizers in its spec.
        && (kind.strategy.is_some() || new.at_path("spec.finalizers").as_array().is_none_or(Vec::is_empty))
}

/// Rejects an object whose name differs from the URL.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go checkName
pub(super) fn match_name(object: &Value, name: &str) -> Result<(), Status> {
    match object.at("metadata").text("name") {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        object_name if object_name == name => Ok(()),
        object_name => Err(Status::bad_request(format!(
            "the name of the object ({object_name}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Rejects an update based on another resourceVersion than the stored one (409 Conflict).
// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go Update; OptimisticLockErrorMsg
pub(super) fn check_version(
    new: &mut Value,
    current: Revision,
    resource: &Resource,
    name: &str,
) -> Result<(), Status> {
    let metadata = new.ensure_object("metadata");
    let resource_version = metadata.text("resourceVersion");
    let revision = if resource_version.is_empty() {
        Revision::ZERO
    } else {
        resource_version.parse().map(Revision::new).map_err(|_| {
            Status::unknown(format!(
                "strconv.ParseUint: parsing {}: invalid syntax",
                go::quote(resource_version)
            ))
        })?
    };
    if revision == Revision::ZERO {
        if !resource.strategy().allow_unconditional_update() {
            let metadata = Path::new("metadata");
            let error = Error::invalid(
                &metadata.child("resourceVersion"),
                0i64,
                "must be specified for an update",
            );
            return Err(Status::invalid(
                GroupResource::new(&resource.kind.group, &resource.kind.plural),
                name,
                &[error],
            ));
        }
        metadata.set("resourceVersion", current.to_string());
    } else if revision != current {
        return Err(Status::conflict(resource.grouped(), name, MODIFIED));
    }
    Ok(())
}

/// The response to a failed precondition on the uid or resource version: `what` names it.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/interfaces.go Check
pub(super) fn precondition_failed(
    resource: &Resource,
    (namespace, name): (&str, &str),
    what: &str,
    wanted: &str,
    found: &str,
) -> Status {
    let mut key = format!("/registry/{}/", resource.kind.plural);
    if !namespace.is_empty() {
        key.push_str(namespace);
        key.push('/');
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         {what} in precondition: {wanted}, {what} in object meta: {found}"
    );
    Status::conflict(resource.grouped(), name, why)
}

fn uid_conflict(resource: &Resource, ctx: &RequestContext, wanted: &str, found: &str) -> Status {
    let object = (ctx.target.namespace.as_str(), ctx.target.name.as_str());
    precondition_failed(resource, object, "UID", wanted, found)
}
