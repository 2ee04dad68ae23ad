//! TypeMeta and ObjectMeta of custom resources, at the root and in embedded resources.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/algorithm.go CoerceWithOptions
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta/validation.go Validate, validateEmbeddedResource

use serde_json::Value;

use super::{
    node::{Node, NodeRole},
    shape::object_meta,
};
use crate::{
    decode,
    field::{Error, Path},
    kinds::Scope,
    limits::{self, MAX_PATH_BYTES},
    name::{self, NameFormat},
    schema::SettleError,
    strategy::{ErrorList, Tree, TreeMut, object_meta as validate_object_meta},
};

/// Paths of fields that are not known which are collected. Clients are shown fewer.
const MAX_UNKNOWN: usize = 1000;

/// What happens to metadata that is not metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MalformedMetadata {
    /// It is an error.
    Refuse,
    /// What cannot be read is dropped, field by field.
    Drop,
}

/// Brings metadata into the form of its type. Gives the fields it does not know; the error is why it cannot be read.
pub(super) fn settle(metadata: &mut Value, malformed: MalformedMetadata) -> Result<Vec<String>, SettleError> {
    match decode::normalize(metadata, *object_meta()) {
        Ok(decoded) => {
            let unknown = unknown_fields(&decoded.strict_errors);
            *metadata = decoded.value;
            Ok(unknown)
        }
        Err(error) if malformed == MalformedMetadata::Refuse => Err(error.into()),
        Err(_) => {
            let Value::Object(fields) = std::mem::take(metadata) else {
                return Err(SettleError::NoObject);
            };
            *metadata = Value::Object(serde_json::Map::new());
            let mut unknown = Vec::new();
            for (name, value) in fields {
                let mut one = Value::Object(serde_json::Map::new());
                one.set(&name, value);
                if let Ok(decoded) = decode::normalize(&one, *object_meta()) {
                    unknown.extend(unknown_fields(&decoded.strict_errors));
                    metadata.copy_from(&name, &decoded.value);
                }
            }
            Ok(unknown)
        }
    }
}

fn unknown_fields(strict_errors: &decode::StrictErrors) -> Vec<String> {
    strict_errors
        .warnings()
        .filter_map(|warning| {
            let path = warning.strip_prefix("unknown field \"")?.strip_suffix('"')?;
            Some(path.to_owned())
        })
        .collect()
}

/// Brings the metadata of the objects inside a value into form. `role` is that of the value itself.
/// Gives the paths to the fields of metadata that are not known, sorted.
pub(crate) fn coerce(
    value: &mut Value,
    node: &Node,
    role: NodeRole,
    malformed: MalformedMetadata,
    at: &Path<'_>,
) -> Result<Vec<String>, Box<Error>> {
    let mut coercion = MetadataCoercion {
        malformed,
        unknown: Vec::new(),
    };
    coercion.level(value, node, role, at)?;
    coercion.unknown.sort();
    Ok(coercion.unknown)
}

struct MetadataCoercion {
    malformed: MalformedMetadata,
    unknown: Vec<String>,
}

impl MetadataCoercion {
    fn level(
        &mut self,
        value: &mut Value,
        node: &Node,
        role: NodeRole,
        at: &Path<'_>,
    ) -> Result<(), Box<Error>> {
        match value {
            Value::Object(_) => {
                if role == NodeRole::Resource || node.role() == NodeRole::Resource {
                    self.resource(value, at)?;
                }
                let Value::Object(fields) = value else {
                    return Ok(());
                };
                for (name, value) in fields {
                    if let Some(property) = node.property(name) {
                        self.level(value, property, NodeRole::Field, &at.child(name))?;
                    } else if let Some(node) = node.field(name) {
                        self.level(value, node, NodeRole::Field, &at.key(name))?;
                    }
                }
            }
            Value::Array(items) => {
                if let Some(node) = node.items() {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.level(item, node, NodeRole::Field, &at.index(index))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn resource(&mut self, object: &mut Value, at: &Path<'_>) -> Result<(), Box<Error>> {
        for name in ["apiVersion", "kind"] {
            let found = object.get(name).is_some_and(|value| !value.is_string());
            if found && self.malformed == MalformedMetadata::Drop {
                object.remove(name);
            } else if found {
                let error = Error::invalid(&at.child(name), object.at(name), "must be a string");
                return Err(Box::new(error));
            }
        }
        let Some(metadata) = object.get_mut("metadata") else {
            return Ok(());
        };
        let child_path = at.child("metadata");
        let before = metadata.clone();
        match settle(metadata, self.malformed) {
            Ok(unknown) => {
                if !unknown.is_empty() && self.unknown.len() < MAX_UNKNOWN {
                    let prefix = limits::display(&child_path, MAX_PATH_BYTES);
                    self.unknown
                        .extend(unknown.iter().map(|path| format!("{prefix}.{path}")));
                }
            }
            Err(error) if self.malformed == MalformedMetadata::Refuse => {
                return Err(Box::new(Error::invalid(&child_path, before, error.to_string())));
            }
            Err(_) => *metadata = before,
        }
        Ok(())
    }
}

/// What is wrong with the objects inside a value. `role` is that of the value itself.
pub(crate) fn validate(value: &Value, node: &Node, role: NodeRole, at: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Value::Object(fields) => {
            if role == NodeRole::Resource || node.role() == NodeRole::Resource {
                resource(value, at, errors);
            }
            for (name, value) in fields {
                if let Some(property) = node.property(name) {
                    validate(value, property, NodeRole::Field, &at.child(name), errors);
                } else if let Some(node) = node.field(name) {
                    validate(value, node, NodeRole::Field, &at.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(node) = node.items() {
                for (index, item) in items.iter().enumerate() {
                    validate(item, node, NodeRole::Field, &at.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn resource(object: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for name in ["apiVersion", "kind"] {
        let child_path = at.child(name);
        match object.get(name) {
            None => errors.push(Error::required(&child_path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(Error::invalid(&child_path, text, "must not be empty"));
            }
            Some(Value::String(text)) => {
                if let Some(detail) = name_error(name, text) {
                    errors.push(Error::invalid(&child_path, text, detail));
                }
            }
            Some(value) => errors.push(Error::invalid(&child_path, value, "must be a string")),
        }
    }
    let Some(given) = object.get("metadata") else {
        return;
    };
    let child_path = at.child("metadata");
    let mut metadata = given.clone();
    if let Err(error) = settle(&mut metadata, MalformedMetadata::Refuse) {
        errors.push(Error::invalid(&child_path, given, error.to_string()));
        return;
    }
    if metadata.text("name").is_empty() {
        metadata.set("name", "fakename");
    }
    let scope = if metadata.text("namespace").is_empty() {
        Scope::Cluster
    } else {
        Scope::Namespaced
    };
    errors.extend(validate_object_meta(
        &metadata,
        &child_path,
        NameFormat::PathSegment,
        scope,
    ));
}

/// What is wrong with an apiVersion or a kind.
fn name_error(name: &str, text: &str) -> Option<String> {
    if name == "apiVersion" {
        let parts = text.matches('/').count();
        return (parts > 1).then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let messages = name::validate_dns1035_label(&text.to_lowercase());
    (!messages.is_empty()).then(|| {
        format!(
            "may have mixed case, but should otherwise match: {}",
            messages.join(",")
        )
    })
}
