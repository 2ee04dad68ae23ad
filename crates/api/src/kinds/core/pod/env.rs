//! Environment variables of containers.

use std::{cell::LazyCell, collections::HashMap};

use serde_json::Value;

use super::error_list::ErrorListExt;
use crate::{
    field::Path,
    kinds::core::volume::{Place, object_field, resource_field},
    name::{
        validate_config_key, validate_dns1123_label, validate_dns1123_subdomain,
        validate_relaxed_env_var_name,
    },
    strategy::{ErrorList, Tree},
};

/// Pod fields that a variable can refer to, beside labels and annotations.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

// upstream: pkg/apis/core/validation/validation.go ValidateEnv
pub(super) fn validate_env(variables: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    for (index, variable) in variables.iter().enumerate() {
        let field_path = at.index(index);
        match variable.text("name") {
            "" => errors.required(&field_path.child("name"), ""),
            name => errors.push_invalid(
                &field_path.child("name"),
                name,
                validate_relaxed_env_var_name(name),
            ),
        }
        if variable.has("valueFrom") {
            validate_env_var_source(variable, &field_path.child("valueFrom"), errors);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateEnvVarValueFrom
fn validate_env_var_source(variable: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let from = variable.at("valueFrom");
    let mut sources = 0;
    let mut has = |name: &str| {
        sources += usize::from(from.has(name));
        from.has(name)
    };
    if has("fieldRef") {
        object_field(from.at("fieldRef"), &FIELDS, &at.child("fieldRef"), errors);
    }
    if has("resourceFieldRef") {
        let reference = from.at("resourceFieldRef");
        resource_field(reference, Place::Container, &at.child("resourceFieldRef"), errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if has(name) {
            validate_key_selector(from.at(name), &at.child(name), errors);
        }
    }
    if has("fileKeyRef") {
        validate_file_key_selector(from.at("fileKeyRef"), &at.child("fileKeyRef"), errors);
    }
    if sources == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(at, "", detail);
    } else if !variable.text("value").is_empty() {
        errors.invalid(at, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(at, "", "may not have more than one field specified at a time");
    }
}

// upstream: pkg/apis/core/validation/validation.go validateConfigMapKeySelector, validateSecretKeySelector
fn validate_key_selector(reference: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let name = reference.text("name");
    errors.push_invalid(&at.child("name"), name, validate_dns1123_subdomain(name));
    match reference.text("key") {
        "" => errors.required(&at.child("key"), ""),
        key => errors.push_invalid(&at.child("key"), key, validate_config_key(key)),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateFileKeySelector
fn validate_file_key_selector(reference: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match reference.text("key") {
        "" => errors.required(&at.child("key"), ""),
        key => errors.push_invalid(&at.child("key"), key, validate_relaxed_env_var_name(key)),
    }
    match reference.text("volumeName") {
        "" => errors.required(&at.child("volumeName"), ""),
        name => errors.push_invalid(&at.child("volumeName"), name, validate_dns1123_label(name)),
    }
    match reference.text("path") {
        "" => errors.required(&at.child("path"), ""),
        path => validate_path_no_backsteps(path, &at.child("path"), errors),
    }
}

/// A path must not contain `..`.
// upstream: pkg/apis/core/validation/validation.go validatePathNoBacksteps
pub(super) fn validate_path_no_backsteps(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.split('/').any(|segment| segment == "..") {
        errors.invalid(at, path, "must not contain '..'");
    }
}

/// A path must be relative and must not contain `..`.
// upstream: pkg/apis/core/validation/validation.go validateLocalDescendingPath
pub(super) fn validate_local_descending_path(path: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if path.starts_with('/') {
        errors.invalid(at, path, "must be a relative path");
    }
    validate_path_no_backsteps(path, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go ValidateEnvFrom
pub(super) fn validate_env_from(sources: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    for (index, from) in sources.iter().enumerate() {
        let field_path = at.index(index);
        let prefix = from.text("prefix");
        if !prefix.is_empty() {
            errors.push_invalid(
                &field_path.child("prefix"),
                prefix,
                validate_relaxed_env_var_name(prefix),
            );
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            if !from.has(kind) {
                continue;
            }
            count += 1;
            let kind_at = field_path.child(kind);
            let name_at = kind_at.child("name");
            match from.at(kind).text("name") {
                "" => errors.required(&name_at, ""),
                // A trailing dash is allowed, as in a name prefix.
                name => errors.push_invalid(&name_at, name, crate::name::NameFormat::Subdomain.prefix(name)),
            }
        }
        match count {
            0 => errors.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(at, "", "may not have more than one field specified at a time"),
        }
    }
}

/// Variables from files require an emptyDir volume.
// upstream: pkg/apis/core/validation/validation.go validateFileKeyRefVolumes
pub(super) fn validate_file_key_ref_volumes(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    // Of several with one name, the last counts.
    let volumes = LazyCell::new(|| -> HashMap<&str, &Value> {
        let volumes = spec.items("volumes").iter();
        volumes.map(|volume| (volume.text("name"), volume)).collect()
    });
    for list in super::defaults::CONTAINERS {
        let list_at = at.child(list);
        for (index, container) in spec.items(list).iter().enumerate() {
            for (number, variable) in container.items("env").iter().enumerate() {
                let reference = variable.at_path("valueFrom.fileKeyRef");
                if reference.is_null() {
                    continue;
                }
                let name = reference.text("volumeName");
                let item_at = list_at.index(index);
                let env_at = item_at.child("env");
                let variable_at = env_at.index(number);
                let from_at = variable_at.child("valueFrom");
                let file_at = from_at.child("fileKeyRef");
                let name_at = file_at.child("volumeName");
                match volumes.get(name) {
                    None => errors.push(crate::field::Error::not_found(&name_at, name)),
                    Some(volume) if !volume.has("emptyDir") => {
                        errors.invalid(&name_at, name, "referenced volume must be of type emptyDir");
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
