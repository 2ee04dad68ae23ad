//! Reading a JSON schema, and walking through one.

use serde_json::Value;

use crate::rules::Tree;

/// What may stand for fields that are not named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Additional<'s> {
    /// It is not said.
    Unsaid,
    /// Anything, or nothing.
    Allowed(bool),
    /// Values of this schema.
    Schema(&'s Value),
}

/// What a schema says of fields that it does not name.
pub(super) fn additional(schema: &Value) -> Additional<'_> {
    match schema.at("additionalProperties") {
        Value::Bool(allowed) => Additional::Allowed(*allowed),
        Value::Null => Additional::Unsaid,
        schema => Additional::Schema(schema),
    }
}

/// The one schema of the items of a list.
pub(super) fn items(schema: &Value) -> Option<&Value> {
    Some(schema.at("items")).filter(|items| items.is_object())
}

/// Calls `see` for a schema and all schemas inside, outer ones first, until it says that it has seen enough.
pub(super) fn any(schema: &Value, see: &mut impl FnMut(&Value) -> bool) -> bool {
    if !schema.is_object() {
        return false;
    }
    if see(schema) {
        return true;
    }
    let lists = ["items", "allOf", "anyOf", "oneOf"];
    let ones = ["not"];
    let maps = ["properties"];
    let late = ["additionalProperties", "additionalItems"];
    let late_maps = ["patternProperties", "definitions", "dependencies"];
    items(schema).is_some_and(|items| any(items, see))
        || lists
            .iter()
            .any(|name| schema.items(name).iter().any(|one| any(one, see)))
        || ones.iter().any(|name| any(schema.at(name), see))
        || maps
            .iter()
            .any(|name| schema.entries(name).values().any(|one| any(one, see)))
        || late.iter().any(|name| any(schema.at(name), see))
        || late_maps
            .iter()
            .any(|name| schema.entries(name).values().any(|one| any(one, see)))
}

/// Why a schema cannot be structural at all, if it cannot.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    let text = |name: &str| !schema.text(name).is_empty();
    let map = |name: &str| !schema.entries(name).is_empty();
    let found = [
        ("id", text("id")),
        ("schema", text("$schema")),
        ("$ref", text("$ref")),
        ("patternProperties", map("patternProperties")),
        ("dependencies", map("dependencies")),
        ("additionalItems", schema.has("additionalItems")),
        ("definitions", map("definitions")),
    ];
    if let Some((name, _)) = found.iter().find(|(_, found)| *found) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    let inside = |one: &Value| if one.is_object() { unsupported(one) } else { None };
    let nested = ["allOf", "anyOf", "oneOf"]
        .iter()
        .flat_map(|name| schema.items(name));
    if let Some(msg) = inside(schema.at("not")).or_else(|| nested.into_iter().find_map(inside)) {
        return Some(msg);
    }
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.has(preserve) && !schema.flag(preserve) {
        return Some(format!("internal error: '{preserve}' must be true or undefined"));
    }
    if !schema.items("items").is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    inside(schema.at("items"))
        .or_else(|| schema.entries("properties").values().find_map(inside))
        .or_else(|| inside(schema.at("additionalProperties")))
}
