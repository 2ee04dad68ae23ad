//! The environment of containers.

use std::{cell::LazyCell, collections::HashMap};

use serde_json::Value;

use super::report::Report;
use crate::{
    field::Path,
    kinds::core::volume::{Place, object_field, resource_field},
    name::{config_key, dns1123_label, dns1123_subdomain, relaxed_env_var_name},
    rules::{Errors, Tree},
};

/// The fields of its pod a variable can hold, beside labels and annotations.
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

/// What is wrong with variables.
pub(super) fn validate(variables: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let field_path = at.index(index);
        match variable.text("name") {
            "" => errors.required(&field_path.child("name"), ""),
            name => errors.push_invalid(&field_path.child("name"), name, relaxed_env_var_name(name)),
        }
        if variable.has("valueFrom") {
            source(variable, &field_path.child("valueFrom"), errors);
        }
    }
}

fn source(variable: &Value, at: &Path<'_>, errors: &mut Errors) {
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
            key_reference(from.at(name), &at.child(name), errors);
        }
    }
    if has("fileKeyRef") {
        file_reference(from.at("fileKeyRef"), &at.child("fileKeyRef"), errors);
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

fn key_reference(reference: &Value, at: &Path<'_>, errors: &mut Errors) {
    let name = reference.text("name");
    errors.push_invalid(&at.child("name"), name, dns1123_subdomain(name));
    match reference.text("key") {
        "" => errors.required(&at.child("key"), ""),
        key => errors.push_invalid(&at.child("key"), key, config_key(key)),
    }
}

fn file_reference(reference: &Value, at: &Path<'_>, errors: &mut Errors) {
    match reference.text("key") {
        "" => errors.required(&at.child("key"), ""),
        key => errors.push_invalid(&at.child("key"), key, relaxed_env_var_name(key)),
    }
    match reference.text("volumeName") {
        "" => errors.required(&at.child("volumeName"), ""),
        name => errors.push_invalid(&at.child("volumeName"), name, dns1123_label(name)),
    }
    match reference.text("path") {
        "" => errors.required(&at.child("path"), ""),
        path => no_steps_back(path, &at.child("path"), errors),
    }
}

/// A path that must not lead upwards.
pub(super) fn no_steps_back(path: &str, at: &Path<'_>, errors: &mut Errors) {
    if path.split('/').any(|part| part == "..") {
        errors.invalid(at, path, "must not contain '..'");
    }
}

/// A path that must lead downwards.
pub(super) fn descending(path: &str, at: &Path<'_>, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(at, path, "must be a relative path");
    }
    no_steps_back(path, at, errors);
}

/// What is wrong with where variables are taken from in bulk.
pub(super) fn validate_from(sources: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, from) in sources.iter().enumerate() {
        let field_path = at.index(index);
        let prefix = from.text("prefix");
        if !prefix.is_empty() {
            errors.push_invalid(&field_path.child("prefix"), prefix, relaxed_env_var_name(prefix));
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
                // A dash at the end is taken, as in the beginning of a name.
                name => errors.push_invalid(&name_at, name, crate::name::Rule::Subdomain.prefix(name)),
            }
        }
        match count {
            0 => errors.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(at, "", "may not have more than one field specified at a time"),
        }
    }
}

/// Variables read from files need a volume that is a scratch directory.
pub(super) fn validate_files(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    // Of several by one name, the last.
    let volumes = LazyCell::new(|| -> HashMap<&str, &Value> {
        let volumes = spec.items("volumes").iter();
        volumes.map(|volume| (volume.text("name"), volume)).collect()
    });
    for list in super::defaults::CONTAINERS {
        let list_at = at.child(list);
        for (index, container) in spec.items(list).iter().enumerate() {
            for (number, variable) in container.items("env").iter().enumerate() {
                let reference = variable.way("valueFrom.fileKeyRef");
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
