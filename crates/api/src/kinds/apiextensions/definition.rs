//! Custom resource definitions.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{
    approval, bundle,
    conversion::{self, Demands},
    format, names, spec,
};
use crate::{
    apply::{FieldSet, managed::Reset},
    field::{Error, Path},
    kinds::webhook_client,
    rules::{Circumstances, Column, Description, Errors, Row, Rules, Tree, TreeMut},
    time::Time,
};

const IMMUTABLE: &str = "field is immutable";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text("Scope", "Cluster/Namespaced"),
    Column::text("Versions", "Served versions"),
    Column::new(
        "Created At",
        "date",
        Description::Field("metadata.creationTimestamp"),
    ),
    Column::text("Group", "API group").wide(),
    Column::text("Kind", "CustomResource kind").wide(),
    Column::text("ShortNames", "Short names").wide(),
    Column::new("Established", "boolean", Description::text("Established status")).wide(),
];

pub(super) struct CustomResourceDefinition;

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go strategy
impl Rules for CustomResourceDefinition {
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go SetDefaults_CustomResourceDefinition
    fn default(&self, object: &mut Value) {
        let spec = object.make("spec");
        let names = spec.make("names");
        let kind = names.text("kind").to_owned();
        if names.text("singular").is_empty() && !kind.is_empty() {
            names.set("singular", kind.to_lowercase());
        }
        if names.text("listKind").is_empty() && !kind.is_empty() {
            names.set("listKind", format!("{kind}List"));
        }
        spec.fill("conversion", json!({"strategy": "None"}));
        let config = spec
            .at_mut("conversion")
            .and_then(|conversion| conversion.at_mut("webhook"))
            .and_then(|webhook| webhook.at_mut("clientConfig"));
        if let Some(config) = config {
            webhook_client::set_defaults_service_reference(config);
        }
        if object.at("status").items("storedVersions").is_empty() {
            store(object);
        }
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go PrepareForCreate
    fn prepare_create(&self, object: &mut Value, at: &Circumstances<'_>) {
        let zero = at.kind.ty.zero();
        object.set("status", zero.get("status").cloned().unwrap_or_default());
        store(object);
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go PrepareForUpdate
    fn prepare_update(&self, new: &mut Value, old: &Value, _at: &Circumstances<'_>) {
        new.copy_from("status", old);
        store(new);
    }

    /// The metadata of such a write counts, as clients know it.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go statusStrategy
    fn prepare_status(&self, new: &mut Value, old: &Value, _at: &Circumstances<'_>) {
        new.copy_from("spec", old);
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        (subresource == "status").then(|| Reset::Fields(FieldSet::of_fields(&[&["spec"]])))
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinition
    fn validate(&self, object: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        judge_name(object, errors);
        let demands = Demands {
            known_version: true,
            certificates: false,
        };
        spec::validate(object.at("spec"), None, demands, errors);
        judge_rest(object, None, errors);
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionUpdate
    fn validate_update(&self, new: &Value, old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        let before = old.at("spec");
        let established = is_established(old);
        let old_bundle = before.at("conversion").way("webhook.clientConfig").at("caBundle");
        let demands = Demands {
            known_version: conversion::is_known(before.at("conversion")),
            certificates: established && !bundle::is_bad(old_bundle),
        };
        spec::validate(new.at("spec"), Some(before), demands, errors);
        judge_change(new.at("spec"), before, established, errors);
        judge_rest(new, Some(old), errors);
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionStatus
    fn validate_status(&self, new: &Value, _old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        judge_status(new, errors);
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let known: HashSet<String> = old
            .map(|old| format::warnings(old.at("spec")))
            .into_iter()
            .flatten()
            .collect();
        let mut warnings = format::warnings(new.at("spec"));
        warnings.retain(|warning| !known.contains(warning));
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go AllowUnconditionalUpdate
    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, _now: Time) -> Row {
        let metadata = object.at("metadata");
        let spec = object.at("spec");
        let names = spec.at("names");
        let mut versions: Vec<_> = spec
            .items("versions")
            .iter()
            .filter(|version| version.flag("served"))
            .map(|version| {
                let mark = if version.flag("storage") { "(storage)" } else { "" };
                format!("{}{mark}", version.text("name"))
            })
            .collect();
        versions.sort();
        let short: Vec<_> = names.texts("shortNames").collect();
        Row::new(vec![
            json!(metadata.text("name")),
            json!(spec.text("scope")),
            json!(versions.join(",")),
            json!(metadata.text("creationTimestamp")),
            json!(spec.text("group")),
            json!(names.text("kind")),
            json!(short.join(",")),
            json!(is_established(object)),
        ])
    }
}

/// The version that objects are stored in belongs to those they may be stored in.
fn store(object: &mut Value) {
    let versions = object.at("spec").items("versions");
    let Some(storage) = versions.iter().find(|version| version.flag("storage")) else {
        return;
    };
    let name = storage.text("name").to_owned();
    let status = object.make("status");
    let mut stored: Vec<Value> = status.items("storedVersions").to_vec();
    if !stored.iter().any(|version| *version == name) {
        stored.push(json!(name));
        status.set("storedVersions", stored);
    }
}

fn is_established(object: &Value) -> bool {
    let conditions = object.at("status").items("conditions");
    conditions
        .iter()
        .any(|one| one.text("type") == "Established" && one.text("status") == "True")
}

fn judge_name(object: &Value, errors: &mut Errors) {
    let metadata = object.at("metadata");
    let spec = object.at("spec");
    let wanted = format!("{}.{}", spec.at("names").text("plural"), spec.text("group"));
    let at = Path::new("metadata");
    for field in ["generateName", "name"] {
        let given = metadata.text(field);
        if !given.is_empty() && given != wanted {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            errors.push(Error::invalid(&at.child(field), given, detail));
        }
    }
}

fn judge_change(new: &Value, old: &Value, established: bool, errors: &mut Errors) {
    let at = Path::new("spec");
    let names_at = at.child("names");
    let mut same = |new: &Value, old: &Value, field: &str, at: &Path<'_>| {
        if new.text(field) != old.text(field) {
            errors.push(Error::invalid(&at.child(field), new.text(field), IMMUTABLE));
        }
    };
    let names = new.at("names");
    let old_names = old.at("names");
    if established {
        same(new, old, "scope", &at);
        same(names, old_names, "kind", &names_at);
    }
    same(new, old, "group", &at);
    same(names, old_names, "plural", &names_at);
}

fn judge_status(object: &Value, errors: &mut Errors) {
    let at = Path::new("status");
    names::validate(
        object.at("status").at("acceptedNames"),
        &at.child("acceptedNames"),
        errors,
    );
}

fn judge_rest(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    judge_status(new, errors);
    judge_stored(new, errors);
    approval::validate(new, old, errors);
    let preserves = |object: &Value| object.at("spec").flag("preserveUnknownFields");
    if preserves(new) && !old.is_some_and(preserves) {
        let at = Path::new("spec");
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
            instead";
        errors.push(Error::invalid(
            &at.child("preserveUnknownFields"),
            json!(true),
            detail,
        ));
    }
}

/// Objects that are stored in a version need it to be read again.
fn judge_stored(object: &Value, errors: &mut Errors) {
    let status = Path::new("status");
    let at = status.child("storedVersions");
    let stored = object.at("status").at("storedVersions");
    let names: Vec<_> = object.at("status").texts("storedVersions").collect();
    if names.is_empty() {
        errors.push(Error::invalid(
            &at,
            stored,
            "must have at least one stored version",
        ));
        return;
    }
    let versions = object.at("spec").items("versions");
    let known: HashSet<&str> = versions.iter().map(|version| version.text("name")).collect();
    let stored_names: HashSet<&str> = names.iter().copied().collect();
    for version in versions.iter().filter(|version| version.flag("storage")) {
        let name = version.text("name");
        if !stored_names.contains(name) {
            let detail = format!("must have the storage version {name}");
            errors.push(Error::invalid(&at, stored, detail));
        }
    }
    for (index, name) in names.iter().enumerate() {
        if !known.contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(Error::invalid(&at.index(index), *name, detail));
        }
    }
}

#[cfg(test)]
mod tests;
