//! Validates the metadata of an object on create and update.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go ValidateObjectMeta, ValidateObjectMetaAccessorUpdate, ValidateFinalizers

use std::{cell::LazyCell, collections::HashSet};

use serde_json::Value;

use super::{ErrorList, Tree};
use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::Scope,
    limits::MAX_VALUE_BYTES,
    name::{self, NameFormat},
};

const IMMUTABLE: &str = "field is immutable";

/// The fields of an owner reference, in the order in which errors show them.
const OWNER_FIELDS: [&str; 6] = [
    "apiVersion",
    "kind",
    "name",
    "uid",
    "controller",
    "blockOwnerDeletion",
];

/// What is wrong with the metadata of a new object, whose name is set by now.
pub fn object_meta(metadata: &Value, at: &Path<'_>, names: NameFormat, scope: Scope) -> ErrorList {
    let mut errors = ErrorList::new();
    let prefix = metadata.text("generateName");
    if !prefix.is_empty() {
        let path = at.child("generateName");
        errors.extend(
            names
                .prefix(prefix)
                .into_iter()
                .map(|message| Error::invalid(&path, prefix, message)),
        );
    }
    let path = at.child("name");
    match metadata.text("name") {
        "" => errors.push(Error::required(&path, "name or generateName is required")),
        name => errors.extend(
            names
                .name(name)
                .into_iter()
                .map(|message| Error::invalid(&path, name, message)),
        ),
    }
    let path = at.child("namespace");
    match (metadata.text("namespace"), scope) {
        ("", Scope::Namespaced) => errors.push(Error::required(&path, "")),
        ("", Scope::Cluster) => {}
        (_, Scope::Cluster) => errors.push(Error::forbidden(&path, "not allowed on this type")),
        (namespace, Scope::Namespaced) => errors.extend(
            NameFormat::Label
                .name(namespace)
                .into_iter()
                .map(|message| Error::invalid(&path, namespace, message)),
        ),
    }
    if let Some(generation) = metadata.int("generation").filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(&at.child("generation"), generation, detail));
    }
    loose(metadata, at, &mut errors);
    let finalizers: Vec<_> = metadata.texts("finalizers").collect();
    errors.extend(name::validate_finalizers(&at.child("finalizers"), &finalizers));
    errors
}

/// What is wrong with a change of metadata.
pub fn object_meta_update(new: &Value, old: &Value, at: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    if old.has("deletionTimestamp") {
        let before: HashSet<_> = old.texts("finalizers").collect();
        let mut added: Vec<_> = new
            .texts("finalizers")
            .filter(|name| !before.contains(name))
            .collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let names: Vec<_> = added.into_iter().map(go::quote).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                names.join(", ")
            );
            errors.push(Error::forbidden(&at.child("finalizers"), detail));
        }
    }
    if new.text("resourceVersion").is_empty() {
        let path = at.child("resourceVersion");
        errors.push(Error::invalid(
            &path,
            new.text("resourceVersion"),
            "must be specified for an update",
        ));
    }
    if new.int("generation") < old.int("generation") {
        let generation = new.int_or_zero("generation");
        errors.push(Error::invalid(
            &at.child("generation"),
            generation,
            "must not be decremented",
        ));
    }
    for name in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
    ] {
        if new.at(name) != old.at(name) {
            let shown = match new.at(name) {
                Value::Null if name.ends_with("Timestamp") => BadValue::Json(Value::Null),
                value => BadValue::Text(value.as_str().unwrap_or_default().to_owned()),
            };
            errors.push(Error::invalid(&at.child(name), shown, IMMUTABLE));
        }
    }
    let grace = "deletionGracePeriodSeconds";
    if new.at(grace) != old.at(grace) {
        errors.push(Error::invalid(&at.child(grace), new.at(grace).clone(), IMMUTABLE));
    }
    loose(new, at, &mut errors);
    errors
}

/// Finalizers that need no domain before their name.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with a finalizer beside its form: without a domain it must be one of the standard ones.
pub fn standard_finalizer(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(Error::invalid(at, name, detail));
    }
}

/// The same for all finalizers of an object.
pub(super) fn standard_finalizers(metadata: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let path = at.child("finalizers");
    for (index, name) in metadata.texts("finalizers").enumerate() {
        standard_finalizer(name, &path.index(index), errors);
    }
}

/// What is asked of new and changed metadata alike.
fn loose(metadata: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(name::validate_labels(
        &at.child("labels"),
        metadata.entries("labels"),
    ));
    errors.extend(name::validate_annotations(
        &at.child("annotations"),
        metadata.entries("annotations"),
    ));
    owners(
        metadata.items("ownerReferences"),
        &at.child("ownerReferences"),
        errors,
    );
}

fn owners(owners: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    let mut controller: Option<String> = None;
    // Every error of a second controller shows all owners: they are printed once.
    let all = LazyCell::new(|| printed_within(owners, MAX_VALUE_BYTES));
    for (index, owner) in owners.iter().enumerate() {
        let path = at.index(index);
        let version = owner.text("apiVersion");
        if version.is_empty() {
            errors.push(Error::required(&path.child("apiVersion"), "must not be empty"));
        } else if version.matches('/').count() > 1 || version.ends_with('/') {
            let detail = "must be <group>/<version> or <version>";
            errors.push(Error::invalid(&path.child("apiVersion"), version, detail));
        }
        for name in ["kind", "name", "uid"] {
            if owner.text(name).is_empty() {
                errors.push(Error::required(&path.child(name), "must not be empty"));
            }
        }
        if version == "v1" && owner.text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(Error::invalid(&path, BadValue::Printed(printed(owner)), detail));
        }
        if owner.flag("controller") {
            let name = format!("{}/{}", owner.text("kind"), owner.text("name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                         and {name}"
                    );
                    errors.push(Error::invalid(at, BadValue::Printed(all.clone()), detail));
                }
            }
        }
    }
}

/// A list of owners. It ends early once it has more than so many bytes.
fn printed_within(owners: &[Value], max: usize) -> String {
    let mut text = String::from("[");
    for (index, owner) in owners.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&printed(owner));
        if text.len() > max {
            return text;
        }
    }
    text.push(']');
    text
}

fn printed(owner: &Value) -> String {
    let fields: Vec<_> = OWNER_FIELDS
        .iter()
        .filter(|name| owner.has(name))
        .map(|name| format!("\"{name}\":{}", owner.at(name)))
        .collect();
    format!("{{{}}}", fields.join(","))
}
