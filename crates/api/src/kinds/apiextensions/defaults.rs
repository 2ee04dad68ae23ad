//! The defaults of a schema: values of its own, which must be as the schema says.

use serde_json::{Value, json};

use super::schema;
use crate::{
    custom::{
        Malformed, Node, coerce_metadata, expression, has_unknown_fields, validate_metadata, validate_value,
    },
    field::{self, Error, Path},
    rules::{Errors, Tree, TreeMut},
};

/// The way from an object to a part of it: a field by its name, or an item.
#[derive(Clone, Copy)]
enum Way<'w> {
    Whole,
    Field(&'w Way<'w>, &'w str),
    Item(&'w Way<'w>),
}

/// Where a schema stands.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// Whether it is that of a part every object has.
    in_metadata: bool,
    /// Whether it is that of a whole object.
    whole: bool,
    /// The schema of the object it is in.
    object: &'p Value,
    /// The way from that object here.
    way: Way<'p>,
}

/// What is wrong with the defaults of a structural schema.
pub(super) fn validate(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = Place {
        in_metadata: false,
        whole: true,
        object: schema,
        way: Way::Whole,
    };
    walk(schema, field_path, at, errors);
}

fn walk(schema: &Value, field_path: Place<'_>, at: &Path<'_>, errors: &mut Errors) {
    let whole = field_path.whole || schema.flag("x-kubernetes-embedded-resource");
    let field_path = if whole {
        Place {
            in_metadata: false,
            whole,
            object: schema,
            way: Way::Whole,
        }
    } else {
        field_path
    };
    if schema.has("default") {
        let at = at.child("default");
        if field_path.in_metadata {
            judge_in_metadata(schema, field_path, &at, errors);
        } else {
            judge(schema, whole, &at, errors);
        }
    }
    let inside = Place {
        whole: false,
        ..field_path
    };
    if let Some(items) = schema::items(schema) {
        let way = Way::Item(&field_path.way);
        walk(items, Place { way, ..inside }, &at.child("items"), errors);
    }
    let properties_at = at.child("properties");
    for (name, property) in schema.entries("properties") {
        let of_all = whole && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let below = Place {
            in_metadata: field_path.in_metadata || of_all,
            way: Way::Field(&field_path.way, name),
            ..inside
        };
        walk(property, below, &properties_at.key(name), errors);
    }
}

fn judge(schema: &Value, whole: bool, at: &Path<'_>, errors: &mut Errors) {
    let default = schema.at("default");
    let node = Node::read(schema, false);
    if has_unknown_fields(default, &node, whole) {
        errors.push(Error::invalid(at, default, "must not have unknown fields"));
    }
    if let Err(error) = coerce_metadata(&mut default.clone(), &node, whole, Malformed::Refuse, at) {
        errors.push(*error);
        return;
    }
    let before = errors.len();
    validate_metadata(default, &node, whole, at, errors);
    if errors.len() == before {
        validate_value(default, &node, at, errors);
    }
    if errors.len() == before {
        ask(default, &node, whole, at, errors);
    }
}

/// Asks the rules of the schema: of a default that stays, and then of one that comes anew.
fn ask(default: &Value, node: &Node, whole: bool, at: &Path<'_>, errors: &mut Errors) {
    let Some(tree) = expression::Tree::of(node, whole) else {
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

/// A default within metadata is judged in an object that has nothing else.
fn judge_in_metadata(schema: &Value, field_path: Place<'_>, at: &Path<'_>, errors: &mut Errors) {
    let default = schema.at("default");
    let object = Node::read(field_path.object, false);
    let mut holder = field_path.way.around(default.clone());
    holder.fill("kind", "Validation");
    holder.fill("apiVersion", "validation/v1");
    let coerced = coerce_metadata(&mut holder, &object, true, Malformed::Refuse, &Path::NOWHERE);
    let msg = coerced.err().map(|error| error.to_string()).or_else(|| {
        let mut wrong = Errors::new();
        validate_metadata(&holder, &object, true, &Path::NOWHERE, &mut wrong);
        field::aggregate(&wrong)
    });
    if let Some(msg) = msg {
        let detail = format!("must result in valid metadata: {msg}");
        errors.push(Error::invalid(at, default, detail));
        return;
    }
    let node = Node::read(schema, false);
    let before = errors.len();
    validate_value(default, &node, at, errors);
    if errors.len() == before {
        ask(default, &node, false, at, errors);
    }
}

// --- Way ---

impl Way<'_> {
    /// An object that has nothing but a value at the end of this way.
    fn around(self, value: Value) -> Value {
        match self {
            Way::Whole => value,
            Way::Field(above, name) => {
                let mut holder = json!({});
                holder.set(name, value);
                above.around(holder)
            }
            Way::Item(above) => above.around(json!([value])),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_default_has_no_fields_the_schema_does_not_know() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"x": {"type": "integer"}}, "default": {"x": 1}},
            "b": {"type": "object", "properties": {"x": {"type": "integer"}}, "default": {"y": 1}},
            "c": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": {"y": {"z": 1}}},
            "d": {"type": "array", "items": {"type": "object"}, "default": [{"y": 1}]},
            "e": {"type": "integer", "default": "x"},
            "f": {"type": "integer", "minimum": 5, "default": 1},
            "g": {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]},
        }});
        let mut errors = Errors::new();
        validate(&schema, &Path::new("s"), &mut errors);
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
