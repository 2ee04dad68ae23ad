//! CustomResourceDefinition: strategy and validation outside of the spec.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{
    approval, ca_bundle,
    conversion::{self, ConversionValidationOptions},
    format, names, spec,
};
use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{Error, Path},
    kinds::webhook_client,
    strategy::{Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut},
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
        ColumnDescription::Field("metadata.creationTimestamp"),
    ),
    Column::text("Group", "API group").wide(),
    Column::text("Kind", "CustomResource kind").wide(),
    Column::text("ShortNames", "Short names").wide(),
    Column::new(
        "Established",
        "boolean",
        ColumnDescription::text("Established status"),
    )
    .wide(),
];

pub(super) struct CustomResourceDefinition;

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go strategy
impl RestStrategy for CustomResourceDefinition {
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go SetDefaults_CustomResourceDefinition
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        let names = spec.ensure_object("names");
        let kind = names.text("kind").to_owned();
        if names.text("singular").is_empty() && !kind.is_empty() {
            names.set("singular", kind.to_lowercase());
        }
        if names.text("listKind").is_empty() && !kind.is_empty() {
            names.set("listKind", format!("{kind}List"));
        }
        spec.set_default("conversion", json!({"strategy": "None"}));
        let config = spec
            .at_mut("conversion")
            .and_then(|conversion| conversion.at_mut("webhook"))
            .and_then(|webhook| webhook.at_mut("clientConfig"));
        if let Some(config) = config {
            webhook_client::set_defaults_service_reference(config);
        }
        if object.at("status").items("storedVersions").is_empty() {
            add_stored_version(object);
        }
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        let zero = at.kind.ty.zero();
        object.set("status", zero.get("status").cloned().unwrap_or_default());
        add_stored_version(object);
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        new.copy_from("status", old);
        add_stored_version(new);
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go statusStrategy; metadata of a status write is kept
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go statusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        new.copy_from("spec", old);
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        (subresource == "status").then(|| ResetFields::Fields(FieldSet::of_fields(&[&["spec"]])))
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinition
    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_name(object, errors);
        let options = ConversionValidationOptions {
            known_version: true,
            certificates: false,
        };
        spec::validate_definition_spec(object.at("spec"), None, options, errors);
        validate_status_and_approval(object, None, errors);
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionUpdate
    fn validate_update(&self, new: &Value, old: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let before = old.at("spec");
        let established = is_established(old);
        let old_bundle = before
            .at("conversion")
            .at_path("webhook.clientConfig")
            .at("caBundle");
        let options = ConversionValidationOptions {
            known_version: conversion::has_known_review_version_or_empty(before.at("conversion")),
            certificates: established && !ca_bundle::is_invalid_ca_bundle(old_bundle),
        };
        spec::validate_definition_spec(new.at("spec"), Some(before), options, errors);
        validate_spec_update(new, old, errors);
        validate_status_and_approval(new, Some(old), errors);
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionStatus
    fn validate_status_update(
        &self,
        new: &Value,
        _old: &Value,
        _at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status_names(new, errors);
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let old_warnings: HashSet<String> = old
            .map(|old| format::warnings(old.at("spec")))
            .into_iter()
            .flatten()
            .collect();
        let mut warnings = format::warnings(new.at("spec"));
        warnings.retain(|warning| !old_warnings.contains(warning));
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
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

/// Adds the storage version to `status.storedVersions`.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go PrepareForCreate, PrepareForUpdate
fn add_stored_version(object: &mut Value) {
    let versions = object.at("spec").items("versions");
    let Some(storage) = versions.iter().find(|version| version.flag("storage")) else {
        return;
    };
    let name = storage.text("name").to_owned();
    let status = object.ensure_object("status");
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

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinition
fn validate_name(object: &Value, errors: &mut ErrorList) {
    let metadata = object.at("metadata");
    let spec = object.at("spec");
    let expected = format!("{}.{}", spec.at("names").text("plural"), spec.text("group"));
    let at = Path::new("metadata");
    for field in ["generateName", "name"] {
        let name = metadata.text(field);
        if !name.is_empty() && name != expected {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            errors.push(Error::invalid(&at.child(field), name, detail));
        }
    }
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceDefinitionSpecUpdate
fn validate_spec_update(object: &Value, before: &Value, errors: &mut ErrorList) {
    let new = object.at("spec");
    let old = before.at("spec");
    let at = Path::new("spec");
    let names_at = at.child("names");
    let mut same = |new: &Value, old: &Value, field: &str, at: &Path<'_>| {
        if new.text(field) != old.text(field) {
            errors.push(Error::invalid(&at.child(field), new.text(field), IMMUTABLE));
        }
    };
    let names = new.at("names");
    let old_names = old.at("names");
    if is_established(before) {
        same(new, old, "scope", &at);
        same(names, old_names, "kind", &names_at);
    }
    same(new, old, "group", &at);
    same(names, old_names, "plural", &names_at);
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionStatus
fn validate_status_names(object: &Value, errors: &mut ErrorList) {
    let at = Path::new("status");
    names::validate_names(
        object.at("status").at("acceptedNames"),
        &at.child("acceptedNames"),
        errors,
    );
}

fn validate_status_and_approval(new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    validate_status_names(new, errors);
    validate_stored_versions(new, errors);
    approval::validate_api_approval(new, old, errors);
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

/// Versions in `status.storedVersions` must remain in the spec, so that stored objects can be decoded.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionStoredVersions
fn validate_stored_versions(object: &Value, errors: &mut ErrorList) {
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
    let spec_versions: HashSet<&str> = versions.iter().map(|version| version.text("name")).collect();
    let stored_names: HashSet<&str> = names.iter().copied().collect();
    for version in versions.iter().filter(|version| version.flag("storage")) {
        let name = version.text("name");
        if !stored_names.contains(name) {
            let detail = format!("must have the storage version {name}");
            errors.push(Error::invalid(&at, stored, detail));
        }
    }
    for (index, name) in names.iter().enumerate() {
        if !spec_versions.contains(name) {
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
