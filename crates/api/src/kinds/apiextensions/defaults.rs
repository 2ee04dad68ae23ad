//! Defaults in a schema, which must themselves be valid and pruned.

use serde_json::{Value, json};

use super::schema;
use crate::{
    custom::{
        MalformedMetadata, Node, NodeRole, coerce_metadata, expression, has_unknown_fields,
        validate_metadata, validate_value,
    },
    field::{self, Error, Path},
    strategy::{ErrorList, Tree, TreeMut},
};

/// The path from an object to a part of it: a field by its name, or an item.
#[derive(Clone, Copy)]
enum ObjectPath<'w> {
    Whole,
    Field(&'w ObjectPath<'w>, &'w str),
    Item(&'w ObjectPath<'w>),
}

/// Position of a schema.
#[derive(Clone, Copy)]
struct SchemaPosition<'p> {
    /// Whether every object has this part: `kind`, `apiVersion` or `metadata`.
    in_metadata: bool,
    /// What the schema describes.
    role: NodeRole,
    /// The schema of the enclosing object.
    object: &'p Value,
    /// The path from that object.
    path: ObjectPath<'p>,
}

/// Validates the defaults of a structural schema.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go ValidateDefaults
pub(super) fn validate_defaults(schema: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let position = SchemaPosition {
        in_metadata: false,
        role: NodeRole::Resource,
        object: schema,
        path: ObjectPath::Whole,
    };
    validate_level(schema, position, at, errors);
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go validate
fn validate_level(schema: &Value, position: SchemaPosition<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let role = if schema.flag("x-kubernetes-embedded-resource") {
        NodeRole::Resource
    } else {
        position.role
    };
    let position = if role == NodeRole::Resource {
        SchemaPosition {
            in_metadata: false,
            role,
            object: schema,
            path: ObjectPath::Whole,
        }
    } else {
        position
    };
    if schema.has("default") {
        let at = at.child("default");
        if position.in_metadata {
            validate_metadata_default(schema, position, &at, errors);
        } else {
            validate_default(schema, role, &at, errors);
        }
    }
    let inner = SchemaPosition {
        role: NodeRole::Field,
        ..position
    };
    if let Some(items) = schema::items(schema) {
        let path = ObjectPath::Item(&position.path);
        validate_level(
            items,
            SchemaPosition { path, ..inner },
            &at.child("items"),
            errors,
        );
    }
    let properties_at = at.child("properties");
    for (name, property) in schema.entries("properties") {
        let of_all =
            role == NodeRole::Resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let below = SchemaPosition {
            in_metadata: position.in_metadata || of_all,
            path: ObjectPath::Field(&position.path, name),
            ..inner
        };
        validate_level(property, below, &properties_at.key(name), errors);
    }
}

fn validate_default(schema: &Value, role: NodeRole, at: &Path<'_>, errors: &mut ErrorList) {
    let default = schema.at("default");
    let node = Node::read(schema);
    if has_unknown_fields(default, &node, role) {
        errors.push(Error::invalid(at, default, "must not have unknown fields"));
    }
    if let Err(error) = coerce_metadata(&mut default.clone(), &node, role, MalformedMetadata::Refuse, at) {
        errors.push(*error);
        return;
    }
    let before = errors.len();
    validate_metadata(default, &node, role, at, errors);
    if errors.len() == before {
        validate_value(default, &node, at, errors);
    }
    if errors.len() == before {
        evaluate_rules(default, &node, role, at, errors);
    }
}

/// Evaluates the validation rules on the default: as unchanged value, and then as new value.
fn evaluate_rules(default: &Value, node: &Node, role: NodeRole, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(tree) = expression::CompiledRuleTree::of(node, role) else {
        return;
    };
    for old in [Some(default), None] {
        let before = errors.len();
        expression::validate(&tree, node, (default, old), None, at, errors);
        if errors.len() > before {
            return;
        }
    }
}

/// Validates a default inside metadata in an object that has nothing else.
fn validate_metadata_default(
    schema: &Value,
    position: SchemaPosition<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let default = schema.at("default");
    let object = Node::read(position.object);
    let mut holder = position.path.wrap(default.clone());
    holder.set_default("kind", "Validation");
    holder.set_default("apiVersion", "validation/v1");
    let coerced = coerce_metadata(
        &mut holder,
        &object,
        NodeRole::Resource,
        MalformedMetadata::Refuse,
        &Path::NIL,
    );
    let msg = coerced.err().map(|error| error.to_string()).or_else(|| {
        let mut wrong = ErrorList::new();
        validate_metadata(&holder, &object, NodeRole::Resource, &Path::NIL, &mut wrong);
        field::aggregate(&wrong)
    });
    if let Some(msg) = msg {
        let detail = format!("must result in valid metadata: {msg}");
        errors.push(Error::invalid(at, default, detail));
        return;
    }
    let node = Node::read(schema);
    let before = errors.len();
    validate_value(default, &node, at, errors);
    if errors.len() == before {
        evaluate_rules(default, &node, NodeRole::Field, at, errors);
    }
}

// --- Way ---

impl ObjectPath<'_> {
    /// An object that has only this value, at the end of the path.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/surroundingobject.go NewRootObjectFunc, WithTypeMeta
    fn wrap(self, value: Value) -> Value {
        match self {
            ObjectPath::Whole => value,
            ObjectPath::Field(above, name) => {
                let mut holder = json!({});
                holder.set(name, value);
                above.wrap(holder)
            }
            ObjectPath::Item(above) => above.wrap(json!([value])),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejects_defaults_with_unknown_fields() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"x": {"type": "integer"}}, "default": {"x": 1}},
            "b": {"type": "object", "properties": {"x": {"type": "integer"}}, "default": {"y": 1}},
            "c": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": {"y": {"z": 1}}},
            "d": {"type": "array", "items": {"type": "object"}, "default": [{"y": 1}]},
            "e": {"type": "integer", "default": "x"},
            "f": {"type": "integer", "minimum": 5, "default": 1},
            "g": {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]},
        }});
        let mut errors = ErrorList::new();
        validate_defaults(&schema, &Path::new("s"), &mut errors);
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "s.properties[b].default: Invalid value: {\"y\":1}: must not have unknown fields",
                "s.properties[d].default: Invalid value: [{\"y\":1}]: must not have unknown fields",
                "s.properties[e].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
                "s.properties[f].default: Invalid value: 1:  in body should be greater than or equal to 5",
                "s.properties[g].default: Invalid value: 1: failed rule: self > 1",
            ]
        );
    }
}
