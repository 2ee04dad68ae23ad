//! POST: creates objects.

use std::{collections::HashSet, fmt::Write as _};

use k3_api::{
    decode, encode,
    kinds::KindRef,
    name,
    status::Status,
    strategy::{self, Tree, TreeMut, User},
};
use k3_storage::Key;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;

use super::{
    Registry, RequestContext, Resource,
    admission::AdmissionWait,
    admission_metrics::{ADMIT_NEW, VALIDATE_NEW},
    body::{self, ExpectedKind},
    commit::{ReadyObject, WriteError, time_to_live},
    conversion::stored,
    managed_fields::{self, custom_conversion},
    outcome::Outcome,
    pending_write::PendingWrite,
    request_context::Warnings,
    response,
    size::{self, ManagedFields},
    storage_version,
};
use crate::{
    admission::Operation,
    http::HttpResponse,
    request::{CommitMode, FieldValidation, WriteOptions, WriteVerb},
};

/// Whether managedFields of a new object are still to be updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldTracking {
    /// It is.
    Needed,
    /// An apply has done so.
    Done,
}

/// How many owners that are named twice are listed.
const MAX_REPEATED: usize = 100;
/// How often a made-up name is made up again when it is taken.
const NAME_TRIES: usize = 8;

// --- Registry ---

impl Registry {
    /// POST: creates the object in the body.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go createHandler
    pub(crate) async fn create(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let options = WriteOptions::read(&ctx.query, WriteVerb::Create, &ctx.agent)?;
        let kind = &ctx.target.kind;
        let resource = Resource::of(kind.clone(), &self.caches);
        let mut write = PendingWrite::new(ctx, &resource, &options);
        let mut object = body::read(ctx, ExpectedKind::of(kind), &options, &mut write.warnings)?;
        match_namespace(&mut object, &resource, &ctx.target.namespace)?;
        if object.at("metadata").has("resourceVersion")
            && !object.at("metadata").text("resourceVersion").is_empty()
        {
            return Err(Status::unknown(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        size::check_before_defaults(&object, ctx, &resource)?;
        dedup_owners(&mut object, &mut write.warnings);
        ctx.check_cancelled()?;
        resource.strategy().set_defaults(&mut object);
        size::check(&object, None, ManagedFields::Pending, ctx, &resource)?;
        ctx.check_cancelled()?;
        let created = self.store_new(&mut write, object, FieldTracking::Needed).await?;
        response::outcome(201, created, &write)
    }

    /// Creates an object of the server's own making.
    pub(crate) async fn create_own(
        &self,
        kind: KindRef,
        mut object: Value,
        user: User,
        manager: &str,
    ) -> Result<(), Status> {
        let resource = Resource::of(kind.clone(), &self.caches);
        let namespace = object.at("metadata").text("namespace").to_owned();
        let ctx = RequestContext::own(kind.clone(), &namespace, user, self.now());
        let options = WriteOptions {
            mode: CommitMode::Commit,
            manager: manager.to_owned(),
            validation: FieldValidation::Ignore,
            force: false,
        };
        object = response::normal(&object, &kind.ty);
        resource.strategy().set_defaults(&mut object);
        let mut write = PendingWrite::new(&ctx, &resource, &options);
        self.store_new(&mut write, object, FieldTracking::Needed).await?;
        Ok(())
    }

    /// Takes a defaulted object through admission and rules, and stores it. A made-up name that is taken is made up again.
    // upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go BeforeCreate
    // upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go Create, createWithGenerateNameRetry; KEP-4420
    pub(super) async fn store_new(
        &self,
        write: &mut PendingWrite<'_>,
        object: Value,
        recording: FieldTracking,
    ) -> Result<Outcome, Status> {
        let is_generated = object.at("metadata").text("name").is_empty()
            && !object.at("metadata").text("generateName").is_empty();
        if !is_generated {
            return self.try_store_new(write, object, recording).await;
        }
        // Each attempt starts from the submitted object, because admission changes it. A second one is rare: the text costs less than
        // a second tree.
        let submitted = encode::encode(&object);
        let mut taken = String::new();
        let mut attempt = Some(object);
        for _ in 0..NAME_TRIES {
            let object = match attempt.take() {
                Some(object) => object,
                None => decode::tree_of(&submitted).map_err(Status::internal_error)?,
            };
            match self.try_store_new(write, object, recording).await {
                Err(status) if status.code == 409 => {
                    taken = status.details.map(|details| details.name).unwrap_or_default();
                }
                other => return other,
            }
        }
        Err(Status::generate_name_conflict(
            write.resource.grouped(),
            &taken,
            1,
        ))
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go create
    async fn try_store_new(
        &self,
        write: &mut PendingWrite<'_>,
        mut object: Value,
        recording: FieldTracking,
    ) -> Result<Outcome, Status> {
        let ctx = write.ctx;
        let resource = write.resource;
        let kind = &resource.kind;
        let metadata = object.ensure_object("metadata");
        for system in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            metadata.remove(system);
        }
        if resource.custom.as_ref().is_some_and(|served| served.terminating) {
            let name = object.at("metadata").text("name");
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(resource.grouped(), name, why));
        }
        // Fields of non-apply writes are tracked before admission: defaults set by admission belong to no manager.
        if recording == FieldTracking::Needed {
            let custom = custom_conversion(resource, &self.converter);
            managed_fields::with_subject(kind, resource.strategy(), ctx.target.part(), custom, |subject| {
                subject.track(None, &mut object, &write.options.manager, ctx.now);
            });
            size::check(&object, None, ManagedFields::Recorded, ctx, resource)?;
            ctx.check_cancelled()?;
        }
        let wait = AdmissionWait::of_request(ctx);
        let mut attributes = write.attributes(Operation::Create, &mut object, None);
        self.admission
            .step(ADMIT_NEW, self.admission.admit_new(&mut attributes, wait))
            .await?;
        self.admission.check_grant(&attributes)?;
        ctx.check_cancelled()?;
        // Admission sees generateName without a name, as upstream: the name is generated after it.
        let metadata = object.ensure_object("metadata");
        if metadata.text("name").is_empty() && !metadata.text("generateName").is_empty() {
            let name = name::generate(metadata.text("generateName"), random_number);
            metadata.set("name", name);
        }
        metadata.set("uid", random_uid());
        metadata.set("creationTimestamp", ctx.now.truncated().to_string());
        let mut object = storage_version::convert(object, kind, write.validation_kind());
        let reservation = self
            .allocation
            .reserve(&mut object, None, resource, ctx.now, write.mode())
            .await?;
        let ready = match self.validate_new(write, object).await {
            Ok(ready) => ready,
            Err(status) => {
                reservation.give_back().await;
                return Err(status);
            }
        };
        let key = ready.key.clone();
        if write.is_dry_run() {
            return match resource.cache.get(&key) {
                Some(_) => Err(already_exists(resource, &key)),
                None => Ok(Outcome::DryRun(ready.object)),
            };
        }
        match self.store_object(ready, resource, reservation).await {
            Err(WriteError::Conflict(_)) => Err(already_exists(resource, &key)),
            Err(WriteError::Failed(status)) => Err(status),
            Ok(created) => Ok(created),
        }
    }

    /// Takes a new object through its rules and the plugins that refuse, and encodes it.
    // upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go BeforeCreate
    async fn validate_new(
        &self,
        write: &mut PendingWrite<'_>,
        mut object: Value,
    ) -> Result<ReadyObject, Status> {
        let ctx = write.ctx;
        let validation_kind = write.validation_kind();
        let warnings = strategy::create(&mut object, &write.strategy_context())?;
        write.warnings.0.extend(warnings);
        ctx.check_cancelled()?;
        if write.needs_create_permission {
            self.admission.authorize_create(ctx, write.resource)?;
        }
        let mut attributes = write.attributes(Operation::Create, &mut object, None);
        let validated = self.admission.validate(&mut attributes);
        self.admission.step(VALIDATE_NEW, validated).await?;
        // What an object leaves out is filled in whenever it is read; and some of it follows from what was just set.
        strategy::for_kind(validation_kind).set_defaults(&mut object);
        validation_kind.ty.forget_empty(&mut object);
        ctx.check_cancelled()?;
        let name = object.at("metadata").text("name");
        let key = write.resource.key(&ctx.target.namespace, name)?;
        let bytes = stored(&self.converter, &object, validation_kind, write.resource).await?;
        Ok(ReadyObject {
            key,
            replaces: None,
            bytes,
            time_to_live: time_to_live(&write.resource.kind, &object, ctx.now),
            object,
        })
    }
}

// upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go NewAlreadyExists
fn already_exists(resource: &Resource, key: &Key) -> Status {
    let name = key.rsplit('/').next().unwrap_or_default();
    let mut status = Status::already_exists(resource.grouped(), name);
    let there = resource.cache.get(key);
    if there.is_some_and(|object| object.tree().at("metadata").has("deletionTimestamp")) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Sets the namespace of the request in the object, and rejects a different one.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/meta.go EnsureObjectNamespaceMatchesRequestNamespace
pub(super) fn match_namespace(
    object: &mut Value,
    resource: &Resource,
    namespace: &str,
) -> Result<(), Status> {
    let metadata = object.ensure_object("metadata");
    if !resource.kind.is_namespaced() {
        return Ok(());
    }
    match metadata.text("namespace") {
        "" => {
            metadata.set("namespace", namespace);
            Ok(())
        }
        object_namespace if object_namespace == namespace => Ok(()),
        _ => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// Removes duplicate owner references, with a warning.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go dedupOwnerReferencesAndAddWarning, dedupOwnerReferences
pub(super) fn dedup_owners(object: &mut Value, warnings: &mut Warnings) {
    let owners = object.at("metadata").items("ownerReferences");
    if owners.len() < 2 {
        return;
    }
    // By their texts: there may be very many.
    let mut seen = HashSet::with_capacity(owners.len());
    let mut repeated: Vec<&str> = Vec::new();
    let mut kept: Vec<Value> = Vec::new();
    for owner in owners {
        if seen.insert(encode::encode(owner)) {
            kept.push(owner.clone());
        } else {
            repeated.push(owner.text("uid"));
        }
    }
    if repeated.is_empty() {
        return;
    }
    let mut listed = HashSet::new();
    repeated.retain(|uid| listed.insert(*uid));
    let left_out = repeated.len().saturating_sub(MAX_REPEATED);
    repeated.truncate(MAX_REPEATED);
    let mut repeated = repeated.join(", ");
    if left_out > 0 {
        let _ = write!(repeated, " and {left_out} more");
    }
    object.ensure_object("metadata").set("ownerReferences", kept);
    warnings.0.push(format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such \
         requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {repeated}"
    ));
}

/// Cryptographically random bytes.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the machine has random numbers");
    bytes
}

/// A random number.
pub(crate) fn random_number() -> u32 {
    u32::from_ne_bytes(random_bytes())
}

/// A random UUID, version 4.
pub(crate) fn random_uid() -> String {
    let mut bytes: [u8; 16] = random_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut uid = String::with_capacity(36);
    for (at, byte) in bytes.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            uid.push('-');
        }
        write!(uid, "{byte:02x}").expect("text can be written to memory");
    }
    uid
}
