//! Volumes that are files made of other objects: of config maps, secrets, and the pod itself.

use serde_json::Value;

use super::field_ref::{Place, object_field, resource_field};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree},
};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The fields of the pod that a file may show, sorted.
const FILE_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// A secret as files.
pub(super) fn secret(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["secretName"], at, errors);
    keyed(source, at, errors);
}

/// A config map as files.
pub(super) fn config_map(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(source, &["name"], at, errors);
    keyed(source, at, errors);
}

fn keyed(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    default_mode(source, at, errors);
    let field_path = at.child("items");
    for (index, item) in source.items("items").iter().enumerate() {
        key_to_path(item, &field_path.index(index), errors);
    }
}

/// The pod's own fields as files.
pub(super) fn downward_api(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    default_mode(source, at, errors);
    for file in source.items("items") {
        downward_file(file, at, errors);
    }
}

/// The mode and owner of files that do not say their own.
pub(super) fn default_mode(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    mode(source, "defaultMode", at, errors);
    user(source, "defaultUser", at, errors);
}

/// A key of an object, and the path it becomes.
pub(super) fn key_to_path(item: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(item, &["key", "path"], at, errors);
    non_reserved_path(item.text("path"), &at.child("path"), errors);
    mode(item, "mode", at, errors);
    user(item, "user", at, errors);
}

/// A field of the pod, and the path it becomes. Errors name the place of the volume, not of the file.
pub(super) fn downward_file(file: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::require_fields(file, &["path"], at, errors);
    non_reserved_path(file.text("path"), &at.child("path"), errors);
    match (file.has("fieldRef"), file.has("resourceFieldRef")) {
        (true, both) => {
            object_field(file.at("fieldRef"), &FILE_FIELDS, &at.child("fieldRef"), errors);
            if both {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(Error::invalid(at, "resource", detail));
            }
        }
        (false, true) => {
            let reference = file.at("resourceFieldRef");
            let field_path = at.child("resourceFieldRef");
            resource_field(reference, Place::Volume, &field_path, errors);
        }
        (false, false) => {
            let detail = "one of fieldRef and resourceFieldRef is required";
            errors.push(Error::required(at, detail));
        }
    }
    mode(file, "mode", at, errors);
    user(file, "user", at, errors);
}

fn mode(tree: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = tree.int(name).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.push(Error::invalid(&at.child(name), mode, MODE));
    }
}

/// A number of a user.
pub(super) fn user(tree: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::validate_in_range(tree, name, 0, i64::from(i32::MAX), at, errors);
}

/// A path below the volume, not one of those that begin with two dots, which the node keeps for itself.
pub(super) fn non_reserved_path(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    descending_path(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(Error::invalid(at, path, "must not start with '..'"));
    }
}

/// A path that stays below where it begins.
pub(super) fn descending_path(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.starts_with('/') {
        errors.push(Error::invalid(at, path, "must be a relative path"));
    }
    no_backsteps(path, at, errors);
}

/// A path that never goes up.
pub(super) fn no_backsteps(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.split('/').any(|step| step == "..") {
        errors.push(Error::invalid(at, path, "must not contain '..'"));
    }
}
