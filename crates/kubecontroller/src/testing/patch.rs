//! Patches and server-side apply.
//!
//! JSON patch and JSON merge patch are exact. A strategic merge patch merges the lists whose keys are known (see `KEYS`) and
//! replaces others. Apply remembers the last configuration of each field manager: fields that a manager no longer applies, and
//! no other manager applies, are removed; values that another manager applied are conflicts unless forced. Fields written by
//! other means have no owner, and `managedFields` is not maintained.

use std::{collections::BTreeMap, sync::Arc};

use kube::core::Status;
use serde_json::{Map, Value, json};

use super::{
    cluster::{FakeCluster, key_of, metadata},
    status,
    writes::ObjectWrite,
};

/// The type of a patch, by content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// A patch request.
pub(super) struct Patch {
    pub(super) kind: PatchKind,
    pub(super) body: Value,
    pub(super) manager: String,
    pub(super) force: bool,
}

/// Lists that are merged by a key of their elements. An empty key means a set of scalars.
const KEYS: &[(&str, &str)] = &[
    ("addresses", "type"),
    ("conditions", "type"),
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("finalizers", ""),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ownerReferences", "uid"),
    ("podIPs", "ip"),
    ("secrets", "name"),
    ("taints", "key"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

// --- PatchKind ---

impl PatchKind {
    pub(super) fn parse(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(PatchKind::Json),
            "application/merge-patch+json" => Some(PatchKind::Merge),
            "application/strategic-merge-patch+json" => Some(PatchKind::Strategic),
            "application/apply-patch+yaml" => Some(PatchKind::Apply),
            _ => None,
        }
    }
}

// --- Patch ---

impl Patch {
    /// Applies the patch. Returns the stored object, and whether it was created.
    pub(super) fn run(
        &self,
        cluster: &mut FakeCluster,
        write: &ObjectWrite<'_>,
    ) -> Result<(Arc<Value>, bool), Box<Status>> {
        let target = write.target;
        let id = &target.id;
        let name = target.name.clone().unwrap_or_default();
        let key = crate::Key::new(&target.namespace, &name);
        let old = match (cluster.get(id, &key), self.kind) {
            (Some(old), _) => old,
            (None, PatchKind::Apply) if target.subresource.is_none() => {
                return self.create(cluster, write, &name);
            }
            (None, _) => return Err(status::not_found(id, &name)),
        };
        for (field, status_response) in [
            ("resourceVersion", status::modified(id, &name)),
            ("uid", status::modified(id, &name)),
        ] {
            let asked = self.body["metadata"][field]
                .as_str()
                .filter(|text| !text.is_empty());
            if asked.is_some_and(|asked| Some(asked) != old["metadata"][field].as_str()) {
                return Err(status_response);
            }
        }
        let mut object = (*old).clone();
        match self.kind {
            PatchKind::Json => self.operations(&mut object)?,
            PatchKind::Merge => json_patch::merge(&mut object, &self.body),
            PatchKind::Strategic => merge(&mut object, &self.body, ""),
            PatchKind::Apply => self.apply(cluster, write, &mut object)?,
        }
        if !object.is_object() || key_of(&object) != key {
            return Err(status::bad_request(
                "a patch cannot change the name or the namespace of an object",
            ));
        }
        let stored = write.change(cluster, &old, object)?;
        self.remember(cluster, write, &key);
        Ok((stored, false))
    }

    fn create(
        &self,
        cluster: &mut FakeCluster,
        write: &ObjectWrite<'_>,
        name: &str,
    ) -> Result<(Arc<Value>, bool), Box<Status>> {
        let mut object = self.body.clone();
        if self.manager.is_empty() {
            return Err(status::bad_request(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        }
        metadata(&mut object).insert("name".to_owned(), name.into());
        let stored = write.create(cluster, object)?;
        self.remember(cluster, write, &key_of(&stored));
        Ok((stored, true))
    }

    fn operations(&self, object: &mut Value) -> Result<(), Box<Status>> {
        let operations: json_patch::Patch = serde_json::from_value(self.body.clone())
            .map_err(|error| status::bad_request(&error.to_string()))?;
        let mut changed = object.clone();
        for operation in &*operations {
            // The API server evaluates an absent field as null; clients rely on it to add the first finalizer.
            if let json_patch::PatchOperation::Test(test) = operation
                && test.value.is_null()
                && changed.pointer(test.path.as_str()).is_none()
            {
                continue;
            }
            json_patch::patch(&mut changed, std::slice::from_ref(operation)).map_err(|error| {
                let problem = "the server rejected our request due to an error in our request";
                status::failure(422, "Invalid", &format!("{problem}: {error}"))
            })?;
        }
        *object = changed;
        Ok(())
    }

    fn apply(
        &self,
        cluster: &mut FakeCluster,
        write: &ObjectWrite<'_>,
        object: &mut Value,
    ) -> Result<(), Box<Status>> {
        let owner_key = (write.target.id.clone(), key_of(object));
        let none = BTreeMap::new();
        let applied = cluster.applied.get(&owner_key).unwrap_or(&none);
        let wanted = owned(&self.body);
        let others: Vec<(&String, Map<String, Value>)> = applied
            .iter()
            .filter(|(manager, _)| **manager != self.manager_name(write))
            .map(|(manager, body)| (manager, leaves(body)))
            .collect();
        if !self.force {
            for (manager, theirs) in &others {
                let mine = leaves(&wanted);
                let Some((field, _)) = mine
                    .iter()
                    .find(|(field, value)| theirs.get(*field).is_some_and(|other| other != *value))
                else {
                    continue;
                };
                let why = format!("Apply failed with 1 conflict: conflict with {manager:?}: {field}");
                return Err(status::failure(409, "Conflict", &why));
            }
        }
        if let Some(before) = applied.get(&self.manager_name(write)) {
            let kept: Vec<Value> = others
                .iter()
                .filter_map(|(manager, _)| applied.get(*manager).cloned())
                .collect();
            prune(object, before, &wanted, &kept, "");
        }
        merge(object, &wanted, "");
        Ok(())
    }

    /// The name under which the configuration is remembered; subresources are applied separately.
    fn manager_name(&self, write: &ObjectWrite<'_>) -> String {
        match &write.target.subresource {
            Some(subresource) => format!("{}/{subresource}", self.manager),
            None => self.manager.clone(),
        }
    }

    fn remember(&self, cluster: &mut FakeCluster, write: &ObjectWrite<'_>, key: &crate::Key) {
        if self.kind != PatchKind::Apply || write.dry {
            return;
        }
        let owner_key = (write.target.id.clone(), key.clone());
        let name = self.manager_name(write);
        cluster
            .applied
            .entry(owner_key)
            .or_default()
            .insert(name, owned(&self.body));
    }
}

/// The fields that a manager owns by applying a configuration: all except the identity of the object.
fn owned(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    for name in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "managedFields",
        "creationTimestamp",
        "generateName",
    ] {
        metadata(&mut body).remove(name);
    }
    body
}

// --- merging ---

fn key_field(list: &str) -> Option<&'static str> {
    KEYS.iter()
        .find(|(name, _)| *name == list)
        .map(|(_, field)| *field)
}

/// The key of the elements of a list. Ports have one of two.
fn list_key(list: &str, elements: &[Value]) -> Option<&'static str> {
    if list == "ports" {
        let field =
            |field: &str| !elements.is_empty() && elements.iter().all(|port| port.get(field).is_some());
        return ["containerPort", "port"].into_iter().find(|name| field(name));
    }
    let has_key = |one: &Value, field: &str| one.get(field).is_some() || is_replacing(one);
    key_field(list).filter(|field| field.is_empty() || elements.iter().all(|one| has_key(one, field)))
}

/// Whether an element is the directive `$patch: replace`.
fn is_replacing(element: &Value) -> bool {
    element.get("$patch").and_then(Value::as_str) == Some("replace")
}

/// Merges a patch into a value; `name` is the name of the field that holds the value.
fn merge(value: &mut Value, patch: &Value, name: &str) {
    match patch {
        Value::Object(fields) => merge_fields(value, fields),
        Value::Array(elements) => match list_key(name, elements) {
            Some(field) if value.is_array() => merge_list(value, elements, field),
            _ => {
                let elements = elements.iter().filter(|element| !is_replacing(element));
                *value = elements.cloned().collect();
            }
        },
        _ => *value = patch.clone(),
    }
}

fn merge_fields(value: &mut Value, fields: &Map<String, Value>) {
    if fields.get("$patch").and_then(Value::as_str) == Some("replace") || !value.is_object() {
        *value = json!({});
    }
    let Some(object) = value.as_object_mut() else {
        return;
    };
    for (name, patch) in fields {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let removed = patch.as_array().cloned().unwrap_or_default();
            if let Some(elements) = object.get_mut(list).and_then(Value::as_array_mut) {
                elements.retain(|element| !removed.contains(element));
            }
        } else if name.starts_with('$') {
            // `$setElementOrder` and `$retainKeys` are ignored: elements keep the order in which they were added.
        } else if patch.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Value::Null), patch, name);
        }
    }
}

fn merge_list(value: &mut Value, elements: &[Value], field: &str) {
    let Some(list) = value.as_array_mut() else { return };
    for element in elements {
        if is_replacing(element) {
            list.clear();
            continue;
        }
        let existing = list.iter_mut().find(|one| same(one, element, field));
        match (existing, element.get("$patch").and_then(Value::as_str)) {
            (_, Some("delete")) => list.retain(|one| !same(one, element, field)),
            (Some(one), _) => merge(one, element, ""),
            (None, _) => {
                let mut added = Value::Null;
                merge(&mut added, element, "");
                list.push(added);
            }
        }
    }
}

fn same(one: &Value, other: &Value, field: &str) -> bool {
    if field.is_empty() {
        one == other
    } else {
        one.get(field) == other.get(field)
    }
}

/// Removes what `before` contains, but neither `now` nor any of `others`.
fn prune(value: &mut Value, before: &Value, now: &Value, others: &[Value], name: &str) {
    match (value, before) {
        (Value::Object(object), Value::Object(fields)) => {
            for (name, before) in fields {
                let theirs: Vec<Value> = others
                    .iter()
                    .filter_map(|other| other.get(name).cloned())
                    .collect();
                match (object.get_mut(name), now.get(name)) {
                    (Some(value), Some(now)) => prune(value, before, now, &theirs, name),
                    (Some(_), None) if theirs.is_empty() => drop(object.remove(name)),
                    (Some(value), None) => prune(value, before, &Value::Null, &theirs, name),
                    (None, _) => {}
                }
            }
        }
        (Value::Array(list), Value::Array(elements)) => {
            let Some(field) = list_key(name, elements) else {
                return;
            };
            let holds = |body: &Value, one: &Value| {
                body.as_array()
                    .is_some_and(|list| list.iter().any(|other| same(other, one, field)))
            };
            let is_removed = |one: &Value| {
                elements.iter().any(|before| same(before, one, field))
                    && !holds(now, one)
                    && !others.iter().any(|other| holds(other, one))
            };
            list.retain(|one| !is_removed(one));
        }
        _ => {}
    }
}

/// The values of a configuration by their paths. Elements of keyed lists are addressed by key.
fn leaves(body: &Value) -> Map<String, Value> {
    fn walk(value: &Value, path: &str, name: &str, found: &mut Map<String, Value>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    walk(value, &format!("{path}.{name}"), name, found);
                }
            }
            Value::Array(elements) => match list_key(name, elements) {
                Some(field) => {
                    for element in elements {
                        let key = if field.is_empty() {
                            element
                        } else {
                            &element[field]
                        };
                        walk(element, &format!("{path}[{field}={key}]"), "", found);
                    }
                }
                None => drop(found.insert(path.to_owned(), value.clone())),
            },
            _ => drop(found.insert(path.to_owned(), value.clone())),
        }
    }
    let mut found = Map::new();
    walk(body, "", "", &mut found);
    found
}
