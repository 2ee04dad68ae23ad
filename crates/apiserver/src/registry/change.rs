//! An object that is changed: by a PUT, a patch, an apply.

use std::sync::Arc;

use k3_api::{
    apply::managed,
    field::{Error, Path},
    go,
    kinds::Kind,
    status::{GroupResource, Status},
    strategy::{self, Part, StrategyContext, Tree, TreeMut},
};
use k3_storage::{Entry, Key, ReadError, Write};
use serde_json::Value;

use super::{
    Ask, Registry, Resource,
    answer::{self, Made},
    ask::Warnings,
    body::{self, Expected},
    commit::{NotCommitted, time_to_live, unavailable},
    create::{Recording, dedup_owners, match_namespace},
    manage,
    patch::Patch,
    step::{ADMIT_CHANGE, VALIDATE_CHANGE},
    subresource::NewScale,
    version,
};
use crate::{
    admission::{Attributes, Operation},
    allocation::Reservation,
    cache::Object,
    http::Answer,
    request::{WriteOptions, Writing},
};

/// How often a change that met another one is made anew.
const TRIES: usize = 10;

/// Another write came first: the object is wanted by whoever wants it unchanged.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Where the new state of an object comes from.
pub(super) enum Source {
    /// The client sent it.
    Put(Value),
    /// It is made from the old one.
    Patch(Patch),
    /// It gets another scale.
    Scale(NewScale),
}

/// Why one attempt did not succeed.
enum Attempt {
    /// Somebody else was faster; this is what is there now.
    Again(Option<Entry>),
    /// It cannot be done.
    Failed(Status),
}

// --- Registry ---

impl Registry {
    /// Replaces an object by the one in the body.
    pub(crate) async fn update(&self, ask: &Ask) -> Result<Answer, Status> {
        let options = WriteOptions::read(&ask.query, Writing::Update, &ask.agent)?;
        let mut warnings = Warnings::default();
        let kind = &ask.target.kind;
        let mut object = body::read(ask, Expected::of(kind), &options, &mut warnings)?;
        let resource = Resource::of(kind.clone(), &self.caches);
        match_name(&object, &ask.target.name)?;
        match_namespace(&mut object, &resource, &ask.target.namespace)?;
        ask.check_wanted()?;
        resource.strategy().set_defaults(&mut object);
        self.answer_change(ask, &resource, &Source::Put(object), &options, warnings)
            .await
    }

    /// Changes an object as the patch in the body says.
    pub(crate) async fn patch(&self, ask: &Ask) -> Result<Answer, Status> {
        let writing = Patch::writing(ask)?;
        let options = WriteOptions::read(&ask.query, writing, &ask.agent)?;
        let mut warnings = Warnings::default();
        let resource = Resource::of(ask.target.kind.clone(), &self.caches);
        let patch = Patch::read(ask, &options, &mut warnings)?;
        self.answer_change(ask, &resource, &Source::Patch(patch), &options, warnings)
            .await
    }

    async fn answer_change(
        &self,
        ask: &Ask,
        resource: &Resource,
        source: &Source,
        options: &WriteOptions,
        mut warnings: Warnings,
    ) -> Result<Answer, Status> {
        let (made, created) = self.change(ask, resource, source, options, &mut warnings).await?;
        answer::object(if created { 201 } else { 200 }, &made, ask, resource, &warnings)
    }

    /// Changes an object, or creates it where the source may do so. Tells whether it was created.
    pub(super) async fn change(
        &self,
        ask: &Ask,
        resource: &Resource,
        source: &Source,
        options: &WriteOptions,
        warnings: &mut Warnings,
    ) -> Result<(Made, bool), Status> {
        self.fresh().await?;
        let name = &ask.target.name;
        let key = resource.key(&ask.target.namespace, name)?;
        let mut current = resource.cache.get(&key);
        let told = warnings.0.len();
        for _ in 0..TRIES {
            warnings.0.truncate(told);
            ask.check_wanted()?;
            let Some(object) = &current else {
                return self
                    .create_by_change(ask, resource, source, options, warnings)
                    .await;
            };
            match self
                .try_change(ask, resource, &key, object, source, options, warnings)
                .await
            {
                Ok(made) => return Ok((made, false)),
                Err(Attempt::Failed(status)) => return Err(status),
                Err(Attempt::Again(entry)) => current = entry.map(read_entry),
            }
        }
        Err(Status::conflict(resource.grouped(), name, MODIFIED))
    }

    async fn create_by_change(
        &self,
        ask: &Ask,
        resource: &Resource,
        source: &Source,
        options: &WriteOptions,
        warnings: &mut Warnings,
    ) -> Result<(Made, bool), Status> {
        let name = &ask.target.name;
        let is_whole = ask.target.part().is_empty();
        let mut object = match source {
            Source::Put(object) if is_whole && resource.strategy().allow_create_on_update() => {
                let uid = object.at("metadata").text("uid");
                if !uid.is_empty() {
                    return Err(uid_conflict(resource, ask, uid, ""));
                }
                object.clone()
            }
            Source::Patch(patch) if is_whole && patch.creates() => {
                patch.make(None, resource, ask, options, warnings, self)?
            }
            _ => return Err(resource.not_found(name)),
        };
        let metadata = object.ensure_object("metadata");
        metadata.set("name", name.as_str());
        metadata.remove("resourceVersion");
        match_namespace(&mut object, resource, &ask.target.namespace)?;
        resource.strategy().set_defaults(&mut object);
        let recording = if source.is_recorded() {
            Recording::Done
        } else {
            Recording::Needed
        };
        let made = self
            .store_new(ask, resource, object, recording, options, warnings)
            .await?;
        Ok((made, true))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one attempt needs all that the change is about"
    )]
    async fn try_change(
        &self,
        ask: &Ask,
        resource: &Resource,
        key: &Key,
        current: &Arc<Object>,
        source: &Source,
        options: &WriteOptions,
        warnings: &mut Warnings,
    ) -> Result<Made, Attempt> {
        let current = &self.readable(resource, Arc::clone(current)).await?;
        let old = self.shown(current.tree(), resource).await?;
        let mut new = match source {
            Source::Put(object) => object.clone(),
            Source::Patch(patch) => patch.make(Some(&old), resource, ask, options, warnings, self)?,
            Source::Scale(scale) => scale.make(&old, resource, ask, options, warnings)?,
        };
        if let Source::Put(object) = source {
            let uid = object.at("metadata").text("uid");
            let there = old.at("metadata").text("uid");
            if !uid.is_empty() && uid != there {
                return Err(uid_conflict(resource, ask, uid, there).into());
            }
        }
        if let Source::Patch(_) = source {
            match_name(&new, &ask.target.name)?;
            match_namespace(&mut new, resource, &ask.target.namespace)?;
        }
        dedup_owners(&mut new, warnings);
        ask.check_wanted()?;
        check_version(&mut new, current.revision, resource, &ask.target.name)?;
        if !source.is_recorded() {
            let custom = self.custom(resource);
            manage::with_subject(
                &resource.kind,
                resource.strategy(),
                ask.target.part(),
                custom,
                |subject| {
                    subject.track(Some(&old), &mut new, &options.manager, ask.now);
                },
            );
        }
        let judged = version::judged(&resource.kind);
        let mut new = version::convert(new, &resource.kind, judged);
        let old = version::convert(old, &resource.kind, judged);
        let status = self.free_status(ask, source, &new);
        ask.check_wanted()?;
        let reservation = self
            .settle_change(ask, resource, &mut new, &old, options, warnings)
            .await?;
        if let Some(status) = status {
            set_status(ask, resource, &mut new, status)?;
        }
        let is_unchanged = resource.shows(current) && new == old;
        if is_unchanged && !self.is_rewritten(key, options).await? {
            return Ok(Made::Kept(Arc::clone(current)));
        }
        let bytes = self.stored(&new, judged, resource).await?;
        if !is_unchanged && current.stored() == &bytes && !self.is_rewritten(key, options).await? {
            // A custom object is shown as its definition says now.
            return Ok(match resource.custom {
                Some(_) => Made::Dry(new),
                None => Made::Kept(Arc::clone(current)),
            });
        }
        if options.dry_run {
            return Ok(Made::Dry(new));
        }
        let revision = k3_storage::Revision::new(current.revision);
        if is_gone(&new, &old, &resource.kind) {
            return match self.commit(Write::delete(key.clone(), revision)).await {
                Ok(_) => {
                    reservation.give_back().await;
                    self.allocation.release(&old, resource).await;
                    Ok(Made::Dry(new))
                }
                Err(error) => Err(not_stored(error, reservation).await),
            };
        }
        let mut write = Write::update(key.clone(), revision, bytes.clone());
        if let Some(time) = time_to_live(&resource.kind, &new, ask.now) {
            write = write.expiring(time);
        }
        let revision = match self.commit(write).await {
            Ok(revision) => revision,
            Err(error) => return Err(not_stored(error, reservation).await),
        };
        reservation.keep().await;
        Ok(Made::Stored {
            bytes,
            revision,
            object: new,
        })
    }

    /// Whether a write that changes nothing is to happen all the same: what is stored is encrypted with an older key.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go GuaranteedUpdate
    async fn is_rewritten(&self, key: &Key, options: &WriteOptions) -> Result<bool, Status> {
        if options.dry_run {
            return Ok(false);
        }
        let is_stale = self.caches.store().is_stale(key).await;
        is_stale.map_err(|error| match error {
            ReadError::Store(error) => unavailable(&error),
            error => Status::internal_error(error),
        })
    }

    /// The status that a PUT brings, if it may change it.
    fn free_status(&self, ask: &Ask, source: &Source, new: &Value) -> Option<Value> {
        let is_free = self.unrestricted_update
            && matches!(source, Source::Put(_))
            && ask.target.part().is_empty()
            && ask.target.kind.subresource("status").is_some();
        (is_free && new.has("status")).then(|| new.at("status").clone())
    }

    /// Takes a changed object through admission and rules.
    async fn settle_change<'r>(
        &'r self,
        ask: &Ask,
        resource: &Resource,
        new: &mut Value,
        old: &Value,
        options: &WriteOptions,
        warnings: &mut Warnings,
    ) -> Result<Reservation<'r>, Status> {
        let subresource = ask.target.part();
        let mut attributes = Attributes {
            operation: Operation::Update,
            resource,
            subresource,
            namespace: &ask.target.namespace,
            object: new,
            old: Some(old),
            ask,
            dry_run: options.dry_run,
            warnings: &mut warnings.0,
        };
        let admitted = self.admission.admit(&mut attributes, &self.caches);
        self.step(ADMIT_CHANGE, admitted).await?;
        self.check_grant(&attributes)?;
        let part = match subresource {
            "" | "scale" => Part::Object,
            "status" => Part::Status,
            other => Part::Other(other),
        };
        let reservation = if part == Part::Object {
            self.allocation
                .reserve(new, Some(old), resource, ask.now, options.dry_run)
                .await?
        } else {
            Reservation::default()
        };
        let judged = self.judge_change(ask, resource, new, old, part, options, warnings);
        match judged.await {
            Ok(()) => Ok(reservation),
            Err(status) => {
                reservation.give_back().await;
                Err(status)
            }
        }
    }

    /// Takes a changed object through its rules and the plugins that refuse.
    #[expect(
        clippy::too_many_arguments,
        reason = "a change is judged by all that it is about"
    )]
    async fn judge_change(
        &self,
        ask: &Ask,
        resource: &Resource,
        new: &mut Value,
        old: &Value,
        part: Part<'_>,
        options: &WriteOptions,
        warnings: &mut Warnings,
    ) -> Result<(), Status> {
        let judged = version::judged(&resource.kind);
        let at = StrategyContext {
            kind: judged,
            now: ask.now,
            user: &ask.user,
        };
        let told = strategy::update(new, old, part, &at)?;
        warnings.0.extend(told);
        ask.check_wanted()?;
        let mut attributes = Attributes {
            operation: Operation::Update,
            resource,
            subresource: ask.target.part(),
            namespace: &ask.target.namespace,
            object: new,
            old: Some(old),
            ask,
            dry_run: options.dry_run,
            warnings: &mut warnings.0,
        };
        let validated = self.admission.validate(&mut attributes, &self.caches);
        self.step(VALIDATE_CHANGE, validated).await?;
        strategy::for_kind(judged).set_defaults(new);
        judged.ty.forget_empty(new);
        managed::settle(old, new);
        ask.check_wanted()
    }
}

/// Sets the status as if it had come through its own path a moment later.
fn set_status(ask: &Ask, resource: &Resource, new: &mut Value, status: Value) -> Result<(), Status> {
    let judged = version::judged(&resource.kind);
    let at = StrategyContext {
        kind: judged,
        now: ask.now,
        user: &ask.user,
    };
    let settled = new.clone();
    new.set("status", status);
    strategy::update(new, &settled, Part::Status, &at)?;
    judged.ty.forget_empty(new);
    Ok(())
}

// --- Source ---

impl Source {
    /// Whether it says itself who set what.
    fn is_recorded(&self) -> bool {
        match self {
            Source::Put(_) => false,
            Source::Patch(patch) => patch.is_apply(),
            Source::Scale(_) => true,
        }
    }
}

/// Nothing was stored: what was set aside is given back, unless nobody knows for sure.
async fn not_stored(error: NotCommitted, reservation: Reservation<'_>) -> Attempt {
    if matches!(error, NotCommitted::Conflict(_)) {
        reservation.give_back().await;
    }
    error.into()
}

fn read_entry(entry: Entry) -> Arc<Object> {
    Arc::new(Object::new(entry.key, entry.value, entry.revision.get()))
}

/// Whether an object that is being deleted has nothing left to wait for.
fn is_gone(new: &Value, old: &Value, kind: &Kind) -> bool {
    let before = old.at("metadata");
    new.at("metadata").items("finalizers").is_empty()
        && before.has("deletionTimestamp")
        && before.int("deletionGracePeriodSeconds").unwrap_or_default() == 0
        // Only a namespace is held by what its spec says.
        && (kind.strategy.is_some() || new.at_path("spec.finalizers").as_array().is_none_or(Vec::is_empty))
}

/// Refuses an object with another name than the URL says.
pub(super) fn match_name(object: &Value, name: &str) -> Result<(), Status> {
    match object.at("metadata").text("name") {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        said if said == name => Ok(()),
        said => Err(Status::bad_request(format!(
            "the name of the object ({said}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Compares the version a client has seen with the one there is.
pub(super) fn check_version(
    new: &mut Value,
    current: u64,
    resource: &Resource,
    name: &str,
) -> Result<(), Status> {
    let metadata = new.ensure_object("metadata");
    let said = metadata.text("resourceVersion");
    let number: u64 = if said.is_empty() {
        0
    } else {
        said.parse().map_err(|_| {
            Status::unknown(format!(
                "strconv.ParseUint: parsing {}: invalid syntax",
                go::quote(said)
            ))
        })?
    };
    if number == 0 {
        if !resource.strategy().allow_unconditional_update() {
            let place = Path::new("metadata");
            let error = Error::invalid(
                &place.child("resourceVersion"),
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
    } else if number != current {
        return Err(Status::conflict(resource.grouped(), name, MODIFIED));
    }
    Ok(())
}

/// The answer to who means an object of another uid, or another state of it, than there is: `what` says which.
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

fn uid_conflict(resource: &Resource, ask: &Ask, wanted: &str, found: &str) -> Status {
    let object = (ask.target.namespace.as_str(), ask.target.name.as_str());
    precondition_failed(resource, object, "UID", wanted, found)
}

// --- Attempt ---

impl From<Status> for Attempt {
    fn from(status: Status) -> Self {
        Attempt::Failed(status)
    }
}

impl From<NotCommitted> for Attempt {
    fn from(error: NotCommitted) -> Self {
        match error {
            NotCommitted::Conflict(entry) => Attempt::Again(entry),
            NotCommitted::Failed(status) => Attempt::Failed(status),
        }
    }
}
