//! Writes: what an API server does with an object before it stores it.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::core::Status;
use serde_json::{Map, Value, json};

use super::{
    cluster::{FakeCluster, has_finalizers, key_of, metadata},
    resource::{RequestTarget, ResourceId},
    status,
};
use crate::Key;

/// The context of a write.
pub(super) struct ObjectWrite<'a> {
    pub(super) target: &'a RequestTarget,
    pub(super) now: Timestamp,
    /// Whether it is a dry run.
    pub(super) dry: bool,
}

/// Delete options.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) grace: Option<i64>,
    pub(super) propagation: Option<String>,
}

/// The result of a deletion.
pub(super) enum DeleteResult {
    /// Removed; the last state of the object.
    Removed(Arc<Value>),
    /// Terminating: it waits for finalizers or its grace period.
    Terminating(Arc<Value>),
}

/// Metadata fields that clients cannot change.
const SERVER_OWNED_METADATA: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// Built-in resources without a status subresource.
const WITHOUT_STATUS: [&str; 23] = [
    "bindings",
    "clusterrolebindings",
    "clusterroles",
    "configmaps",
    "controllerrevisions",
    "csidrivers",
    "csinodes",
    "endpoints",
    "endpointslices",
    "events",
    "ingressclasses",
    "leases",
    "limitranges",
    "mutatingwebhookconfigurations",
    "podtemplates",
    "priorityclasses",
    "rolebindings",
    "roles",
    "runtimeclasses",
    "secrets",
    "serviceaccounts",
    "storageclasses",
    "validatingwebhookconfigurations",
];

/// Whether a resource has a status subresource.
pub(super) fn has_status(cluster: &mut FakeCluster, id: &ResourceId) -> bool {
    let is_plain =
        cluster.stored(id).without_status || id.is_built_in() && WITHOUT_STATUS.contains(&id.plural.as_str());
    !is_plain
}

// --- ObjectWrite ---

impl ObjectWrite<'_> {
    /// Creates an object.
    pub(super) fn create(
        &self,
        cluster: &mut FakeCluster,
        mut object: Value,
    ) -> Result<Arc<Value>, Box<Status>> {
        let id = &self.target.id;
        self.set_type_and_namespace(cluster, &mut object)?;
        if text(&object, "resourceVersion").is_some_and(|version| version != "0") {
            return Err(status::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if text(&object, "name").is_none() {
            let Some(prefix) = text(&object, "generateName").map(str::to_owned) else {
                let kind = object["kind"].as_str().unwrap_or_default();
                return Err(status::invalid(
                    id,
                    kind,
                    "",
                    "metadata.name",
                    "Required value: name or generateName is required",
                ));
            };
            let name = format!("{prefix}{}", cluster.suffix());
            metadata(&mut object).insert("name".to_owned(), name.into());
        }
        let key = key_of(&object);
        if cluster.get(id, &key).is_some() {
            return Err(status::already_exists(id, key.name()));
        }
        if has_status(cluster, id) {
            forget(&mut object, "status");
            if id.group.is_empty() && id.plural == "pods" {
                object["status"] = json!({"phase": "Pending"});
            }
        }
        let has_generation = object.get("spec").is_some();
        let uid = cluster.uid();
        let metadata = metadata(&mut object);
        for name in SERVER_OWNED_METADATA {
            metadata.remove(name);
        }
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), seconds(self.now).into());
        if has_generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
        Ok(self.store(cluster, object))
    }

    /// Replaces an object, or its status. A resource version in the object must be the latest.
    pub(super) fn update(
        &self,
        cluster: &mut FakeCluster,
        mut object: Value,
    ) -> Result<Arc<Value>, Box<Status>> {
        let id = &self.target.id;
        let name = self.target.name.clone().unwrap_or_default();
        self.set_type_and_namespace(cluster, &mut object)?;
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if text(&object, "name").is_some_and(|given| given != name) {
            let given = text(&object, "name").unwrap_or_default();
            return Err(status::bad_request(&format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        metadata(&mut object).insert("name".to_owned(), name.clone().into());
        let key = key_of(&object);
        let old = cluster
            .get(id, &key)
            .ok_or_else(|| status::not_found(id, &name))?;
        match text(&object, "uid") {
            Some(uid) if Some(uid) != text(&old, "uid") => {
                let stored = text(&old, "uid").unwrap_or_default();
                let why =
                    format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}");
                return Err(status::conflict(id, &name, &why));
            }
            _ => {}
        }
        match text(&object, "resourceVersion") {
            None if !id.is_built_in() => {
                let why = "Invalid value: 0: must be specified for an update";
                return Err(status::invalid(id, &kind, &name, "metadata.resourceVersion", why));
            }
            Some(version) if Some(version) != text(&old, "resourceVersion") => {
                return Err(status::modified(id, &name));
            }
            _ => {}
        }
        self.change(cluster, &old, object)
    }

    /// Stores a changed object by the rules of its resource or subresource.
    pub(super) fn change(
        &self,
        cluster: &mut FakeCluster,
        old: &Arc<Value>,
        mut object: Value,
    ) -> Result<Arc<Value>, Box<Status>> {
        let id = &self.target.id;
        let key = key_of(old);
        if has_status(cluster, id) {
            if self.target.subresource.as_deref() == Some("status") {
                let mut whole = (**old).clone();
                copy(&object, &mut whole, "status");
                // For built-in kinds, writes to `status` may also change these metadata fields; for custom resources not.
                let writable_metadata: &[&str] = if id.is_built_in() {
                    &["annotations", "labels", "finalizers"]
                } else {
                    &[]
                };
                for name in writable_metadata {
                    match object["metadata"].get(name).cloned() {
                        Some(value) => metadata(&mut whole).insert((*name).to_owned(), value),
                        None => metadata(&mut whole).remove(*name),
                    };
                }
                object = whole;
            } else {
                copy(old, &mut object, "status");
            }
        }
        for name in SERVER_OWNED_METADATA {
            match old["metadata"].get(name).cloned() {
                Some(value) => metadata(&mut object).insert(name.to_owned(), value),
                None => metadata(&mut object).remove(name),
            };
        }
        let is_terminating = object["metadata"].get("deletionTimestamp").is_some();
        if is_terminating {
            let before = old["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let now = object["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if let Some(added) = now.iter().find(|name| !before.contains(name)) {
                let kind = object["kind"].as_str().unwrap_or_default();
                let why = format!(
                    "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers [{added}]"
                );
                return Err(status::invalid(id, kind, key.name(), "metadata.finalizers", &why));
            }
        }
        if old["metadata"].get("generation").is_some() && desired(old) != desired(&object) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
            metadata(&mut object).insert("generation".to_owned(), generation.into());
        }
        let version = old["metadata"]["resourceVersion"].clone();
        metadata(&mut object).insert("resourceVersion".to_owned(), version);
        if object == **old {
            return Ok(old.clone());
        }
        let grace = object["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or_default();
        if is_terminating && grace == 0 && !has_finalizers(&object) && !self.dry {
            // The last finalizer was removed.
            cluster.remove(id, &key);
            return Ok(Arc::new(object));
        }
        Ok(self.store(cluster, object))
    }

    /// Deletes an object, or marks it as terminating.
    pub(super) fn delete(
        &self,
        cluster: &mut FakeCluster,
        key: &Key,
        how: &DeleteOptions,
    ) -> Result<DeleteResult, Box<Status>> {
        let id = &self.target.id;
        let old = cluster
            .get(id, key)
            .ok_or_else(|| status::not_found(id, key.name()))?;
        let differs = |expected: &Option<String>, field: &str| {
            let actual = text(&old, field).unwrap_or_default().to_owned();
            expected
                .clone()
                .filter(|expected| *expected != actual)
                .map(|expected| (expected, actual))
        };
        if let Some((expected, actual)) = differs(&how.uid, "uid") {
            let why = format!(
                "the UID in the precondition ({expected}) does not match the UID in record ({actual}). The object might have been deleted and then recreated"
            );
            return Err(status::conflict(id, key.name(), &why));
        }
        if let Some((expected, actual)) = differs(&how.resource_version, "resourceVersion") {
            let why = format!(
                "the ResourceVersion in the precondition ({expected}) does not match the ResourceVersion in record ({actual}). The object might have been modified"
            );
            return Err(status::conflict(id, key.name(), &why));
        }
        let mut object = (*old).clone();
        let finalizer = match how.propagation.as_deref() {
            Some("Foreground") => Some("foregroundDeletion"),
            Some("Orphan") => Some("orphan"),
            _ => None,
        };
        let is_terminating = object["metadata"].get("deletionTimestamp").is_some();
        if let Some(finalizer) = finalizer.filter(|_| !is_terminating) {
            let mut finalizers = object["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if !finalizers.iter().any(|one| one == finalizer) {
                finalizers.push(finalizer.into());
            }
            metadata(&mut object).insert("finalizers".to_owned(), finalizers.into());
        }
        let grace = grace(id, &old, how);
        if grace == 0 && !has_finalizers(&object) {
            if self.dry {
                return Ok(DeleteResult::Removed(old));
            }
            cluster.remove(id, key);
            return Ok(DeleteResult::Removed(old));
        }
        let shorter = object["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .is_none_or(|before| grace < before);
        if !is_terminating || shorter {
            let at = self.now + std::time::Duration::from_secs(u64::try_from(grace).unwrap_or_default());
            let counts = object["metadata"]["generation"]
                .as_i64()
                .filter(|_| !is_terminating);
            let metadata = metadata(&mut object);
            metadata.insert("deletionTimestamp".to_owned(), seconds(at).into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
            if let Some(generation) = counts {
                metadata.insert("generation".to_owned(), (generation + 1).into());
            }
            return Ok(DeleteResult::Terminating(self.store(cluster, object)));
        }
        Ok(DeleteResult::Terminating(old))
    }

    /// Sets `apiVersion`, kind and namespace of an object according to the path.
    fn set_type_and_namespace(
        &self,
        cluster: &mut FakeCluster,
        object: &mut Value,
    ) -> Result<(), Box<Status>> {
        if !object.is_object() {
            return Err(status::bad_request("the body of the request is not an object"));
        }
        let target = self.target;
        let stored = cluster.stored(&target.id);
        if let Some(kind) = object["kind"].as_str() {
            kind.clone_into(&mut stored.kind);
        } else if !stored.kind.is_empty() {
            object["kind"] = stored.kind.clone().into();
        }
        stored.version.clone_from(&target.version);
        object["apiVersion"] = target.api_version().into();
        if text(object, "namespace").is_some_and(|given| given != target.namespace) {
            return Err(status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if !target.namespace.is_empty() {
            metadata(object).insert("namespace".to_owned(), target.namespace.clone().into());
        }
        metadata(object);
        Ok(())
    }

    fn store(&self, cluster: &mut FakeCluster, object: Value) -> Arc<Value> {
        if self.dry {
            return Arc::new(object);
        }
        cluster.store(&self.target.id, object)
    }
}

/// The grace period of a deletion. Only scheduled pods that have not finished get one.
fn grace(id: &ResourceId, object: &Value, how: &DeleteOptions) -> i64 {
    let is_finished = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let is_placed = object["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    if !id.group.is_empty() || id.plural != "pods" || is_finished || !is_placed {
        return 0;
    }
    how.grace
        .or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_i64())
        .unwrap_or(30)
        .max(0)
}

/// The fields whose changes increment the generation: all except metadata and status.
fn desired(object: &Value) -> Map<String, Value> {
    let mut rest = object.as_object().cloned().unwrap_or_default();
    for name in ["metadata", "status", "apiVersion", "kind"] {
        rest.remove(name);
    }
    rest
}

fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object["metadata"][field].as_str().filter(|text| !text.is_empty())
}

fn forget(object: &mut Value, field: &str) {
    if let Some(object) = object.as_object_mut() {
        object.remove(field);
    }
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => forget(to, field),
    }
}

/// A timestamp in the format of object metadata.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
