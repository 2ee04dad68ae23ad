//! Validation of PersistentVolumeClaimSpec, in claims, ephemeral volumes and StatefulSet templates.

use serde_json::{Map, Value};

use crate::{
    field::{BadValue, Error, Path},
    kinds::{core::pod::resources::set_defaults_resource_list, field_checks},
    name,
    quantity::Quantity,
    selector::label::{InvalidValues, UnknownOperators, validate},
    strategy::{ErrorList, Tree, TreeMut},
};

/// In the order of error messages.
pub(crate) const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// In the order of error messages.
pub(crate) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Metadata fields that a template may not have, in the order of their errors.
const FORBIDDEN_METADATA: [&str; 13] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Invalid values that are tolerated because the old object has them.
// upstream: pkg/apis/core/validation/validation.go PersistentVolumeClaimSpecValidationOptions
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimSpecValidationOptions {
    /// Selector values that are no valid label.
    pub(crate) invalid_values: bool,
    /// A data source group that is no domain name.
    pub(crate) invalid_group: bool,
}

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_PersistentVolumeClaimSpec
pub(crate) fn set_defaults_claim_spec(spec: &mut Value) {
    spec.set_default("volumeMode", "Filesystem");
    if let Some(resources) = spec.at_mut("resources") {
        for name in ["limits", "requests"] {
            if let Some(list) = resources.at_mut(name) {
                set_defaults_resource_list(list);
            }
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimTemplate
pub(crate) fn validate_claim_template(template: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_template_metadata(template.at("metadata"), &at.child("metadata"), errors);
    validate_claim_spec(
        template.at("spec"),
        ClaimSpecValidationOptions::default(),
        &at.child("spec"),
        errors,
    );
}

/// Validates the metadata of a template, which may have only labels and annotations.
// upstream: pkg/apis/core/validation/validation.go ValidateTemplateObjectMeta
pub(crate) fn validate_template_metadata(metadata: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(name::validate_annotations(
        &at.child("annotations"),
        metadata.entries("annotations"),
    ));
    errors.extend(name::validate_labels(
        &at.child("labels"),
        metadata.entries("labels"),
    ));
    for name in FORBIDDEN_METADATA {
        if metadata.has(name) {
            // upstream: pkg/apis/core/validation/validation.go ValidateTemplateObjectMeta; the path is the Go field name with a lower first letter
            let messages = if name == "uid" { "uID" } else { name };
            errors.push(Error::forbidden(&at.child(messages), "cannot be set"));
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimSpec
pub(crate) fn validate_claim_spec(
    spec: &Value,
    options: ClaimSpecValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if spec.items("accessModes").is_empty() {
        let detail = "at least 1 access mode is required";
        errors.push(Error::required(&at.child("accessModes"), detail));
    }
    if spec.has("selector") {
        let values = if options.invalid_values {
            InvalidValues::Taken
        } else {
            InvalidValues::Refused
        };
        let field_path = at.child("selector");
        errors.extend(validate(
            &field_path,
            spec.at("selector"),
            values,
            UnknownOperators::Refused,
        ));
    }
    validate_access_modes(spec, at, errors);
    let resources = at.child("resources");
    let field_path = resources.key("storage");
    match spec.at_path("resources.requests").at("storage") {
        Value::Null => errors.push(Error::required(&field_path, "")),
        storage => {
            validate_positive(&field_checks::quantity_or_zero(storage), &field_path, errors);
        }
    }
    validate_class_name(
        spec.text("storageClassName"),
        &at.child("storageClassName"),
        errors,
    );
    if spec.has("volumeMode") {
        field_checks::validate_supported(
            spec.text("volumeMode"),
            &VOLUME_MODES,
            &at.child("volumeMode"),
            errors,
        );
    }
    validate_data_sources(spec, options, at, errors);
    let field_path = at.child("volumeAttributesClassName");
    validate_class_name(spec.text("volumeAttributesClassName"), &field_path, errors);
}

/// Access modes must be supported, and ReadWriteOncePod must be alone.
pub(crate) fn validate_access_modes(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("accessModes");
    let mut alone = false;
    let mut shared = false;
    for mode in spec.texts("accessModes") {
        field_checks::validate_supported(mode, &ACCESS_MODES, &field_path, errors);
        if mode == "ReadWriteOncePod" {
            alone = true;
        } else if ACCESS_MODES.contains(&mode) {
            shared = true;
        }
    }
    if alone && shared {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(Error::forbidden(&field_path, detail));
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePositiveQuantityValue
pub(crate) fn validate_positive(amount: &Quantity, at: &Path<'_>, errors: &mut ErrorList) {
    if !amount.sign().is_gt() {
        let detail = "must be greater than zero";
        errors.push(Error::invalid(at, amount.to_string(), detail));
    }
}

/// A storage or attributes class name; empty is valid.
pub(crate) fn validate_class_name(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if !name.is_empty() {
        field_checks::validate_dns1123_subdomain(name, at, errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateDataSourceRef, isDataSourceEqualDataSourceRef
fn validate_data_sources(
    spec: &Value,
    options: ClaimSpecValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let source = spec.at("dataSource");
    let reference = spec.at("dataSourceRef");
    for (field, source) in [("dataSource", source), ("dataSourceRef", reference)] {
        if source.is_null() {
            continue;
        }
        let field_path = at.child(field);
        validate_data_source(source, options, &field_path, errors);
        if field == "dataSourceRef" && !source.text("namespace").is_empty() {
            field_checks::validate_dns1123_label(
                source.text("namespace"),
                &field_path.child("namespace"),
                errors,
            );
        }
    }
    if source.is_null() || reference.is_null() {
        return;
    }
    // upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimSpec; the value is a field.Path, which prints as {}
    let mut reject = |detail: &str| {
        let empty_object = BadValue::Json(Value::Object(Map::new()));
        errors.push(Error::invalid(at, empty_object, detail));
    };
    if !reference.text("namespace").is_empty() {
        reject("may not be specified when dataSourceRef.namespace is specified");
    } else if ["apiGroup", "kind", "name"]
        .into_iter()
        .any(|name| source.at(name) != reference.at(name))
    {
        reject("must match dataSourceRef");
    }
}

// upstream: pkg/apis/core/validation/validation.go validateDataSource
fn validate_data_source(
    source: &Value,
    options: ClaimSpecValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    field_checks::require_fields(source, &["name", "kind"], at, errors);
    let kind = source.text("kind");
    match source.text("apiGroup") {
        "" if kind != "PersistentVolumeClaim" => {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(Error::invalid(at, kind, detail));
        }
        "" => {}
        _ if options.invalid_group => {}
        group => field_checks::validate_dns1123_subdomain(group, &at.child("apiGroup"), errors),
    }
}
