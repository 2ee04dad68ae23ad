//! Defaulting of custom resources from their structural schema.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go Default, isNonNullableNull

use serde_json::Value;

use super::node::{Node, SchemaFlag};

/// Bytes of defaults that one object is given. An object with as many is too large to be stored.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Gives an object the defaults of its schema, wherever the object that holds a field is there. A large default in each
/// item of a long list could fill the memory: beyond [`MAX_BYTES`] nothing is filled in.
pub(super) fn fill(value: &mut Value, node: &Node) {
    let mut bytes = MAX_BYTES;
    fill_level(value, node, &mut bytes);
}

fn fill_level(value: &mut Value, node: &Node, bytes: &mut usize) {
    if !node.has_flag(SchemaFlag::Defaults) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, property, default) in node.defaulted() {
                if *bytes == 0 {
                    return;
                }
                let missing = match fields.get(name) {
                    None => true,
                    Some(value) => is_missing(value, property),
                };
                if missing {
                    *bytes = bytes.saturating_sub(name.len() + memory_size(default));
                    fields.insert(name.to_owned(), default.clone());
                }
            }
            for (name, value) in fields {
                if let Some(property) = node.property(name) {
                    fill_level(value, property, bytes);
                } else if let Some(node) = node.field(name) {
                    replace_null(value, node, bytes);
                    fill_level(value, node, bytes);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = node.items() else {
                return;
            };
            for item in items {
                replace_null(item, node, bytes);
                fill_level(item, node, bytes);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, node: &Node, bytes: &mut usize) {
    if *bytes > 0
        && is_missing(value, node)
        && let Some(default) = node.fallback()
    {
        *bytes = bytes.saturating_sub(memory_size(default));
        *value = default.clone();
    }
}

/// About how many bytes of memory a value takes.
fn memory_size(value: &Value) -> usize {
    const EACH: usize = 32;
    match value {
        Value::String(text) => EACH + text.len(),
        Value::Array(items) => EACH + items.iter().map(memory_size).sum::<usize>(),
        Value::Object(fields) => {
            EACH + fields
                .iter()
                .map(|(name, value)| EACH + name.len() + memory_size(value))
                .sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => EACH,
    }
}

/// Whether a value is `null` where that is no value.
fn is_missing(value: &Value, node: &Node) -> bool {
    value.is_null() && !node.has_flag(SchemaFlag::Nullable)
}
