//! What a claim asks for: in claims, in ephemeral volumes of pods, in templates of stateful sets.

use serde_json::{Map, Value};

use crate::{
    field::{BadValue, Error, Path},
    kinds::{core::pod::resources::set_defaults_resource_list, field_checks},
    name,
    quantity::Quantity,
    selector::label::{InvalidValues, UnknownOperators, validate},
    strategy::{ErrorList, Tree, TreeMut},
};

/// In the order errors list them.
pub(crate) const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// In the order errors list them.
pub(crate) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// The fields that the metadata of a template may not have, in the order in which they are told.
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

/// What is taken because the old object has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leniency {
    /// Values in the selector that can be no label.
    pub(crate) invalid_values: bool,
    /// A group of the data source that is no domain name.
    pub(crate) invalid_group: bool,
}

/// Fills in what was left out of the spec of a claim.
pub(crate) fn default_spec(spec: &mut Value) {
    spec.set_default("volumeMode", "Filesystem");
    if let Some(resources) = spec.at_mut("resources") {
        for name in ["limits", "requests"] {
            if let Some(list) = resources.at_mut(name) {
                set_defaults_resource_list(list);
            }
        }
    }
}

/// What is wrong with a template of a claim, as an ephemeral volume has it.
pub(crate) fn validate_claim_template(template: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_template_metadata(template.at("metadata"), &at.child("metadata"), errors);
    validate_claim_spec(
        template.at("spec"),
        Leniency::default(),
        &at.child("spec"),
        errors,
    );
}

/// What is wrong with the metadata of a template, which may have labels and annotations only.
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
            // Made of the name in Go by its first letter alone.
            let messages = if name == "uid" { "uID" } else { name };
            errors.push(Error::forbidden(&at.child(messages), "cannot be set"));
        }
    }
}

/// What is wrong with the spec of a claim.
pub(crate) fn validate_claim_spec(spec: &Value, lenient: Leniency, at: &Path<'_>, errors: &mut ErrorList) {
    if spec.items("accessModes").is_empty() {
        let detail = "at least 1 access mode is required";
        errors.push(Error::required(&at.child("accessModes"), detail));
    }
    if spec.has("selector") {
        let values = if lenient.invalid_values {
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
    access_modes(spec, at, errors);
    let resources = at.child("resources");
    let field_path = resources.key("storage");
    match spec.at_path("resources.requests").at("storage") {
        Value::Null => errors.push(Error::required(&field_path, "")),
        storage => {
            positive(&field_checks::quantity_or_zero(storage), &field_path, errors);
        }
    }
    class_name(
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
    data_sources(spec, lenient, at, errors);
    let field_path = at.child("volumeAttributesClassName");
    class_name(spec.text("volumeAttributesClassName"), &field_path, errors);
}

/// The ways a volume may be mounted: known ones, and one pod alone or none of that sort.
pub(crate) fn access_modes(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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

/// An amount above zero.
pub(crate) fn positive(amount: &Quantity, at: &Path<'_>, errors: &mut ErrorList) {
    if !amount.sign().is_gt() {
        let detail = "must be greater than zero";
        errors.push(Error::invalid(at, amount.to_string(), detail));
    }
}

/// The name of a class; none is needed.
pub(crate) fn class_name(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if !name.is_empty() {
        field_checks::validate_dns1123_subdomain(name, at, errors);
    }
}

fn data_sources(spec: &Value, lenient: Leniency, at: &Path<'_>, errors: &mut ErrorList) {
    let source = spec.at("dataSource");
    let reference = spec.at("dataSourceRef");
    for (field, source) in [("dataSource", source), ("dataSourceRef", reference)] {
        if source.is_null() {
            continue;
        }
        let field_path = at.child(field);
        data_source(source, lenient, &field_path, errors);
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
    // What errors show in the place of the value is a path, which prints as an empty object.
    let mut refuse = |detail: &str| {
        let shown = BadValue::Json(Value::Object(Map::new()));
        errors.push(Error::invalid(at, shown, detail));
    };
    if !reference.text("namespace").is_empty() {
        refuse("may not be specified when dataSourceRef.namespace is specified");
    } else if ["apiGroup", "kind", "name"]
        .into_iter()
        .any(|name| source.at(name) != reference.at(name))
    {
        refuse("must match dataSourceRef");
    }
}

fn data_source(source: &Value, lenient: Leniency, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["name", "kind"], at, errors);
    let kind = source.text("kind");
    match source.text("apiGroup") {
        "" if kind != "PersistentVolumeClaim" => {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(Error::invalid(at, kind, detail));
        }
        "" => {}
        _ if lenient.invalid_group => {}
        group => field_checks::validate_dns1123_subdomain(group, &at.child("apiGroup"), errors),
    }
}
