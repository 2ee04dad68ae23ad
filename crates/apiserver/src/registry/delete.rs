//! One object, or many, with grace, finalizers and dependents.

use std::sync::Arc;

use futures_util::future::join_all;
use k3_api::{
    decode,
    kinds::Kind,
    status::{GroupResource, Status, StatusDetails},
    strategy::{GarbageCollectionPolicy, GracefulDeletion, Tree, TreeMut},
    time::{Duration, Time},
};
use k3_storage::{Revision, Write};
use serde_json::{Value, json};

use super::{
    Ask, Registry, Resource,
    answer::{self, Made},
    ask::Warnings,
    commit::NotCommitted,
    list::Selection,
    own::own_user,
};
use crate::{
    admission::{Attributes, Operation},
    cache::Object,
    custom,
    http::{Answer, Format},
    request::{DeleteOptions, ListOptions, Propagation, Query},
};

const TRIES: usize = 10;
/// How many of a collection are deleted at once: a store makes the writes of many durable in the time of one.
pub(super) const AT_ONCE: usize = 32;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What became of an object.
pub(super) enum Deleted {
    /// It is gone; this was its last state.
    Gone(Value),
    /// It is going, or it stays until its finalizers are done.
    Going(Made),
}

/// What to do with an object that is to be deleted.
enum Plan {
    /// Nothing: it is going already.
    Leave,
    /// Remove it.
    Remove,
    /// Mark it. `then_remove`: and remove it at once, for it was given no time.
    Mark { object: Value, then_remove: bool },
}

// --- Registry ---

impl Registry {
    /// Deletes one object.
    pub(crate) async fn delete(&self, ask: &Ask) -> Result<Answer, Status> {
        let body = options_body(ask)?;
        let options = DeleteOptions::read(&ask.query, body.as_ref())?;
        let resource = Resource::of(ask.target.kind.clone(), &self.caches);
        self.fresh().await?;
        let key = resource.key(&ask.target.namespace, &ask.target.name)?;
        let Some(current) = resource.cache.get(&key) else {
            return Err(resource.not_found(&ask.target.name));
        };
        let current = self.readable(&resource, current).await?;
        let mut warnings = Warnings::default();
        let deleted = self.delete_object(ask, &resource, current, &options, &mut warnings);
        let mut answer = match deleted.await? {
            Deleted::Gone(object) if is_shown(&resource.kind) => answer::tree(200, object, ask, &resource)?,
            Deleted::Gone(object) => {
                let status = Status::success(StatusDetails {
                    name: ask.target.name.clone(),
                    group: resource.kind.group.to_string(),
                    kind: resource.kind.plural.to_string(),
                    uid: object.at("metadata").text("uid").to_owned(),
                    ..StatusDetails::default()
                });
                crate::http::status(&status, ask.accepted.format, ask.accepted.pretty)
            }
            Deleted::Going(made) => {
                let waits = body.is_some_and(|body| body.at("orphanDependents") == &Value::Bool(false))
                    || ask.query.flag("orphanDependents") == Some(false);
                let code = if waits { 202 } else { 200 };
                answer::object(code, &made, ask, &resource, &Warnings::default())?
            }
        };
        answer::warn(&mut answer, &warnings.0);
        Ok(answer)
    }

    /// Deletes all objects that are selected, and answers with what they were.
    pub(crate) async fn delete_collection(&self, ask: &Ask) -> Result<Answer, Status> {
        let body = options_body(ask)?;
        let options = DeleteOptions::read(&ask.query, body.as_ref())?;
        let listing = ListOptions::read(&ask.query, false)?;
        let resource = Resource::of(ask.target.kind.clone(), &self.caches);
        let selection = Selection::new(&listing, &resource)?;
        let revision = self.fresh().await?;
        let prefix = resource.under(&ask.target.namespace);
        let snapshot = resource.cache.snapshot(revision);
        let snapshot = self.readable_snapshot(&resource, snapshot, &prefix).await?;
        let mut items = Vec::new();
        let mut warnings = Warnings::default();
        let objects: Vec<_> = snapshot
            .under(&prefix, None)
            .filter(|object| selection.matches(object, &resource))
            .collect();
        for some in objects.chunks(AT_ONCE) {
            ask.check_wanted()?;
            let deletions = some.iter().map(|object| async {
                let mut warnings = Warnings::default();
                let object = Arc::clone(object);
                let deleted = self.delete_object(ask, &resource, object, &options, &mut warnings);
                (deleted.await, warnings)
            });
            for (object, (deleted, warned)) in some.iter().zip(join_all(deletions).await) {
                warnings.0.extend(warned.0);
                match deleted {
                    // What they were, not what has become of them.
                    Ok(_) => items.push(object.tree()),
                    // Somebody else deleted it: that is what was wanted.
                    Err(status) if status.code == 404 => {}
                    Err(status) => return Err(status),
                }
            }
        }
        let items = self.shown_all(items, &resource).await?;
        let metadata = json!({"resourceVersion": snapshot.revision.to_string()});
        let mut answer = super::list::answer_trees(items, &metadata, ask, &resource)?;
        answer::warn(&mut answer, &warnings.0);
        Ok(answer)
    }

    /// Deletes all objects of a resource by the server's own doing. Tells how many are left, held by their finalizers.
    ///
    /// `is_due` is asked once the objects are known: a server that was behind may have decided by a state that is over.
    pub(crate) async fn delete_own(
        &self,
        resource: &Resource,
        is_due: impl Fn() -> bool,
    ) -> Result<usize, Status> {
        let revision = self.fresh().await?;
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
                let mut ask = Ask::own(resource.kind.clone(), object.namespace(), own_user(), self.now());
                object.name().clone_into(&mut ask.target.name);
                let object = Arc::clone(object);
                self.delete_object(&ask, resource, object, &options, &mut Warnings::default())
                    .await
            });
            for deleted in join_all(deletions).await {
                match deleted {
                    Ok(Deleted::Going(_)) => left += 1,
                    Ok(Deleted::Gone(_)) => {}
                    Err(status) if status.code == 404 => {}
                    Err(status) => return Err(status),
                }
            }
        }
        Ok(left)
    }

    /// Deletes an object, or marks it.
    pub(super) async fn delete_object(
        &self,
        ask: &Ask,
        resource: &Resource,
        mut current: Arc<Object>,
        options: &DeleteOptions,
        warnings: &mut Warnings,
    ) -> Result<Deleted, Status> {
        let told = warnings.0.len();
        for _ in 0..TRIES {
            warnings.0.truncate(told);
            let mut object = self.shown(current.tree(), resource).await?;
            check_preconditions(&object, options, resource)?;
            let mut attributes = Attributes {
                operation: Operation::Delete,
                resource,
                subresource: "",
                namespace: &ask.target.namespace,
                object: &mut object,
                old: None,
                ask,
                dry_run: options.dry_run,
                warnings: &mut warnings.0,
            };
            // What deletes an object by other means was admitted itself: an eviction.
            if ask.target.part().is_empty() {
                self.admission.admit(&mut attributes, &self.caches).await?;
                self.admission.validate(&mut attributes, &self.caches).await?;
            }
            let again = match plan(&object, resource, options, ask.now) {
                Plan::Leave if !resource.shows(&current) => return Ok(Deleted::Going(Made::Dry(object))),
                Plan::Leave => return Ok(Deleted::Going(Made::Kept(current))),
                _ if options.dry_run => return Ok(Deleted::Gone(object)),
                Plan::Remove => self.remove(&current, object, resource).await,
                Plan::Mark { object, then_remove } => {
                    self.mark(&current, object, then_remove, resource).await
                }
            };
            match again {
                Ok(deleted) => return Ok(deleted),
                Err(NotCommitted::Failed(status)) => return Err(status),
                Err(NotCommitted::Conflict(None)) => return Err(resource.not_found(current.name())),
                Err(NotCommitted::Conflict(Some(entry))) => {
                    current = Arc::new(Object::new(entry.key, entry.value, entry.revision.get()));
                }
            }
        }
        let why = "the object is being changed again and again; please try again";
        Err(Status::conflict(resource.grouped(), current.name(), why))
    }

    async fn remove(
        &self,
        current: &Object,
        mut object: Value,
        resource: &Resource,
    ) -> Result<Deleted, NotCommitted> {
        let write = Write::delete(current.key.clone(), Revision::new(current.revision));
        let revision = self.commit(write).await?;
        self.allocation.release(&object, resource).await;
        object
            .ensure_object("metadata")
            .set("resourceVersion", revision.to_string());
        Ok(Deleted::Gone(object))
    }

    async fn mark(
        &self,
        current: &Object,
        object: Value,
        then_remove: bool,
        resource: &Resource,
    ) -> Result<Deleted, NotCommitted> {
        let bytes = self
            .stored(&object, &resource.kind, resource)
            .await
            .map_err(NotCommitted::Failed)?;
        let write = Write::update(
            current.key.clone(),
            Revision::new(current.revision),
            bytes.clone(),
        );
        let revision = self.commit(write).await?;
        if !then_remove {
            return Ok(Deleted::Going(Made::Stored {
                bytes,
                revision,
                object,
            }));
        }
        let marked = Object::new(current.key.clone(), bytes, revision);
        let tree = self
            .shown(marked.tree(), resource)
            .await
            .map_err(NotCommitted::Failed)?;
        self.remove(&marked, tree, resource).await
    }
}

/// Whether the answer is the object. Of namespaces it is, though the documents say otherwise.
fn is_shown(kind: &Kind) -> bool {
    kind.strategy.is_none() && kind.returns_deleted_object()
        || (kind.group.is_empty() && kind.kind == "Namespace")
}

/// The options in the body of a delete, if it has one.
pub(crate) fn options_body(ask: &Ask) -> Result<Option<Value>, Status> {
    if ask.body.is_empty() {
        return Ok(None);
    }
    let ty = k3_api::schema::schema()
        .get("meta", "v1", "DeleteOptions")
        .expect("the table has the type");
    let bad = |text: String| Status::bad_request(text);
    let text = match ask.format() {
        Some(Format::Protobuf) => {
            let value = k3_api::protobuf::decode(&ask.body, ty).map_err(|error| bad(error.to_string()))?;
            return Ok(Some(value));
        }
        Some(Format::Yaml) => {
            let decoded = decode::yaml_to_json(&ask.body).map_err(|error| bad(error.to_string()))?;
            serde_json::to_vec(&decoded.value).unwrap_or_default()
        }
        Some(Format::Json) => ask.body.to_vec(),
        None => {
            return Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    let said = decode::type_of(&text)
        .map_err(|error| bad(format!("couldn't get version/kind; json parse error: {error}")))?;
    if !said.kind.is_empty() && said.kind != "DeleteOptions" {
        return Err(bad(format!(
            "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            k3_api::go::quote(&said.kind),
            k3_api::go::quote(&said.api_version)
        )));
    }
    let decoded = decode::json(&text, ty).map_err(|error| bad(error.to_string()))?;
    Ok(Some(decoded.value))
}

/// Refuses to delete an object of another uid, or another state of it, than is meant.
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
        if let Some(failed) = own_words(&resource.kind) {
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

/// How a kind whose objects go by steps of their own tells that others are meant.
fn own_words(kind: &Kind) -> Option<&'static str> {
    match (&*kind.group, &*kind.kind) {
        ("", "Namespace") => Some("Precondition failed"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Some("precondition failed"),
        _ => None,
    }
}

fn plan(object: &Value, resource: &Resource, options: &DeleteOptions, now: Time) -> Plan {
    let metadata = object.at("metadata");
    let mut marked = object.clone();
    let finalizers = finalizers(object, resource, options);
    let has_finalizers = !finalizers.is_empty();
    set_finalizers(&mut marked, &finalizers);
    if let Some(own) = own_plan(object, &marked, &resource.kind, now) {
        return own;
    }
    let asked = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let graceful = if metadata.has("deletionTimestamp") {
        match metadata.int("deletionGracePeriodSeconds") {
            None | Some(0) => false,
            Some(given) => match asked {
                Some(seconds) if seconds < given => {
                    shorten(&mut marked, given, seconds, now);
                    true
                }
                _ => return Plan::Leave,
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
        return Plan::Mark {
            object: marked,
            then_remove: seconds == 0 && !has_finalizers,
        };
    }
    if !has_finalizers {
        return Plan::Remove;
    }
    let is_new = !metadata.has("deletionTimestamp");
    let marked_metadata = marked.ensure_object("metadata");
    if is_new {
        raise_generation(marked_metadata);
        marked_metadata.set("deletionTimestamp", now.truncated().to_string());
    }
    marked_metadata.set("deletionGracePeriodSeconds", 0);
    if marked == *object {
        return Plan::Leave;
    }
    Plan::Mark {
        object: marked,
        then_remove: false,
    }
}

/// The plan for what goes by steps of its own: a definition when its objects are gone, a namespace when all in it is. `marked`
/// has the finalizers that the client asks for.
fn own_plan(object: &Value, marked: &Value, kind: &Kind, now: Time) -> Option<Plan> {
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
        ("", "Namespace") if !object.at("spec").items("finalizers").is_empty() => return Some(Plan::Leave),
        _ => return None,
    };
    Some(Plan::Mark {
        object: marked,
        then_remove: false,
    })
}

fn raise_generation(metadata: &mut Value) {
    if let Some(generation) = metadata.int("generation").filter(|generation| *generation > 0) {
        metadata.set("generation", generation + 1);
    }
}

/// Gives an object that is going less time, counted from when it began to go.
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

/// The finalizers an object has after its deletion was asked for: those that deal with its dependents come and go by what the
/// client says.
fn finalizers(object: &Value, resource: &Resource, options: &DeleteOptions) -> Vec<String> {
    let has = |name: &str| {
        object
            .at("metadata")
            .texts("finalizers")
            .any(|finalizer| finalizer == name)
    };
    let (orphan, foreground) = match options.propagation {
        Some(Propagation::Orphan) => (true, false),
        Some(Propagation::Foreground) => (false, true),
        Some(Propagation::Background) => (false, false),
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_namespace_goes_by_steps_of_its_own() {
        let kind = builtin()
            .kind("", "v1", "Namespace")
            .expect("the kind is built in");
        let plan = |object: &Value| own_plan(object, object, kind, Time::from_unix(0, 0));
        let Some(Plan::Mark {
            object: marked,
            then_remove: false,
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
        assert!(matches!(plan(&held), Some(Plan::Leave)));
    }
}
