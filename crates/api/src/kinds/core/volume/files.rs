//! Volumes of files from ConfigMaps, Secrets and the downward API.

use serde_json::Value;

use super::field_ref::{ResourceRefHolder, validate_object_field_selector, validate_resource_field_selector};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree},
};

const INVALID_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Pod fields that a file may have, sorted.
const FILE_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

// upstream: pkg/apis/core/validation/validation.go validateSecretVolumeSource
pub(super) fn validate_secret_volume_source(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["secretName"], at, errors);
    validate_items(source, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateConfigMapVolumeSource
pub(super) fn validate_config_map_volume_source(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["name"], at, errors);
    validate_items(source, at, errors);
}

fn validate_items(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_default_mode(source, at, errors);
    let field_path = at.child("items");
    for (index, item) in source.items("items").iter().enumerate() {
        validate_key_to_path(item, &field_path.index(index), errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateDownwardAPIVolumeSource
pub(super) fn validate_downward_api_volume_source(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_default_mode(source, at, errors);
    for file in source.items("items") {
        validate_downward_api_file(file, at, errors);
    }
}

/// Default mode and user of files.
pub(super) fn validate_default_mode(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_mode(source, "defaultMode", at, errors);
    validate_user(source, "defaultUser", at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validateKeyToPath
pub(super) fn validate_key_to_path(item: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(item, &["key", "path"], at, errors);
    validate_local_non_reserved_path(item.text("path"), &at.child("path"), errors);
    validate_mode(item, "mode", at, errors);
    validate_user(item, "user", at, errors);
}

/// A downward API file. Errors have the path of the volume, not of the file.
// upstream: pkg/apis/core/validation/validation.go validateDownwardAPIVolumeFile; the field path lacks the index of the item
pub(super) fn validate_downward_api_file(file: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(file, &["path"], at, errors);
    validate_local_non_reserved_path(file.text("path"), &at.child("path"), errors);
    match (file.has("fieldRef"), file.has("resourceFieldRef")) {
        (true, both) => {
            validate_object_field_selector(file.at("fieldRef"), &FILE_FIELDS, &at.child("fieldRef"), errors);
            if both {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(Error::invalid(at, "resource", detail));
            }
        }
        (false, true) => {
            let reference = file.at("resourceFieldRef");
            let field_path = at.child("resourceFieldRef");
            validate_resource_field_selector(reference, ResourceRefHolder::Volume, &field_path, errors);
        }
        (false, false) => {
            let detail = "one of fieldRef and resourceFieldRef is required";
            errors.push(Error::required(at, detail));
        }
    }
    validate_mode(file, "mode", at, errors);
    validate_user(file, "user", at, errors);
}

fn validate_mode(tree: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = tree.int(name).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.push(Error::invalid(&at.child(name), mode, INVALID_MODE));
    }
}

// upstream: pkg/apis/core/validation/validation.go validateUserField
pub(super) fn validate_user(tree: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::validate_in_range(tree, name, 0, i64::from(i32::MAX), at, errors);
}

/// A relative path that does not start with `..`, which the kubelet uses itself.
// upstream: pkg/apis/core/validation/validation.go ValidateLocalNonReservedPath
pub(super) fn validate_local_non_reserved_path(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    validate_local_descending_path(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(Error::invalid(at, path, "must not start with '..'"));
    }
}

/// A relative path without `..`.
// upstream: pkg/apis/core/validation/validation.go validateLocalDescendingPath
pub(super) fn validate_local_descending_path(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.starts_with('/') {
        errors.push(Error::invalid(at, path, "must be a relative path"));
    }
    validate_path_no_backsteps(path, at, errors);
}

/// A path without `..`.
// upstream: pkg/apis/core/validation/validation.go validatePathNoBacksteps
pub(super) fn validate_path_no_backsteps(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.split('/').any(|step| step == "..") {
        errors.push(Error::invalid(at, path, "must not contain '..'"));
    }
}
