//! Access to parts of a JSON schema, and a visitor.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go SchemaHas, schemaHasRecurse

use serde_json::Value;

use crate::strategy::Tree;

/// `additionalProperties`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AdditionalPropertiesField<'s> {
    /// Absent.
    Unsaid,
    /// `true` or `false`.
    Allowed(bool),
    /// Values of this schema.
    Schema(&'s Value),
}

pub(super) fn additional(schema: &Value) -> AdditionalPropertiesField<'_> {
    match schema.at("additionalProperties") {
        Value::Bool(allowed) => AdditionalPropertiesField::Allowed(*allowed),
        Value::Null => AdditionalPropertiesField::Unsaid,
        schema => AdditionalPropertiesField::Schema(schema),
    }
}

/// The schema of all items of a list.
pub(super) fn items(schema: &Value) -> Option<&Value> {
    Some(schema.at("items")).filter(|items| items.is_object())
}

/// Calls `see` for a schema and all inner schemas, outer ones first, until it returns true.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go SchemaHas
pub(super) fn schema_has(schema: &Value, see: &mut impl FnMut(&Value) -> bool) -> bool {
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
    items(schema).is_some_and(|items| schema_has(items, see))
        || lists
            .iter()
            .any(|name| schema.items(name).iter().any(|one| schema_has(one, see)))
        || ones.iter().any(|name| schema_has(schema.at(name), see))
        || maps
            .iter()
            .any(|name| schema.entries(name).values().any(|one| schema_has(one, see)))
        || late.iter().any(|name| schema_has(schema.at(name), see))
        || late_maps
            .iter()
            .any(|name| schema.entries(name).values().any(|one| schema_has(one, see)))
}

/// Why a schema cannot be converted to a structural one, if it cannot.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/convert.go validateUnsupportedFields
pub(super) fn unsupported_fields_message(schema: &Value) -> Option<String> {
    let text = |name: &str| !schema.text(name).is_empty();
    let map = |name: &str| !schema.entries(name).is_empty();
    let unsupported_fields = [
        ("id", text("id")),
        ("schema", text("$schema")),
        ("$ref", text("$ref")),
        ("patternProperties", map("patternProperties")),
        ("dependencies", map("dependencies")),
        ("additionalItems", schema.has("additionalItems")),
        ("definitions", map("definitions")),
    ];
    if let Some((name, _)) = unsupported_fields.iter().find(|(_, is_set)| *is_set) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    let inner_message = |one: &Value| {
        if one.is_object() {
            unsupported_fields_message(one)
        } else {
            None
        }
    };
    let nested = ["allOf", "anyOf", "oneOf"]
        .iter()
        .flat_map(|name| schema.items(name));
    if let Some(msg) = inner_message(schema.at("not")).or_else(|| nested.into_iter().find_map(inner_message))
    {
        return Some(msg);
    }
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.has(preserve) && !schema.flag(preserve) {
        return Some(format!("internal error: '{preserve}' must be true or undefined"));
    }
    if !schema.items("items").is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    inner_message(schema.at("items"))
        .or_else(|| schema.entries("properties").values().find_map(inner_message))
        .or_else(|| inner_message(schema.at("additionalProperties")))
}
