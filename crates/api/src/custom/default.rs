//! Filling in what was left out.

use serde_json::Value;

use super::node::{Flag, Node};

/// Gives an object the defaults of its schema, wherever the object that holds a field is there.
pub(super) fn fill(value: &mut Value, node: &Node) {
    if !node.says(Flag::Defaults) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, property) in node.properties() {
                let Some(default) = property.fallback() else {
                    continue;
                };
                let missing = match fields.get(name) {
                    None => true,
                    Some(value) => is_missing(value, property),
                };
                if missing {
                    fields.insert(name.to_owned(), default.clone());
                }
            }
            for (name, value) in fields {
                if let Some(property) = node.property(name) {
                    fill(value, property);
                } else if let Some(node) = node.field(name) {
                    replace_null(value, node);
                    fill(value, node);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = node.items() else {
                return;
            };
            for item in items {
                replace_null(item, node);
                fill(item, node);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, node: &Node) {
    if is_missing(value, node)
        && let Some(default) = node.fallback()
    {
        *value = default.clone();
    }
}

/// Whether a value is `null` where that is no value.
fn is_missing(value: &Value, node: &Node) -> bool {
    value.is_null() && !node.says(Flag::Nullable)
}
