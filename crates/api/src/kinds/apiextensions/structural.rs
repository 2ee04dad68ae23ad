//! Structural schemas: types are specified at one position; `allOf`, `anyOf`, `oneOf` and `not` only restrict values.

use serde_json::{Value, json};

use super::{
    schema::{self, AdditionalPropertiesField},
    stored_definition::StoredDefinition,
};
use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree},
};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const NOTHING_ELSE: &str =
    "must not specify anything other than name and generateName, but metadata is implicitly specified";

/// Fields that are forbidden in nested value validations, and the message of each.
const FORBIDDEN_IN_VALIDATIONS: [(&str, &str); 11] = [
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// Position of a schema.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go level
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

/// Errors that make a schema non-structural, sorted by their text.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go ValidateStructural
pub(super) fn validate_structural(schema: &Value, stored: &StoredDefinition<'_>, at: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_structural_invariants(schema, SchemaLevel::Root, stored, at, &mut errors);
    validate_completeness(schema, schema, at, at, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go validateStructuralInvariants
fn validate_structural_invariants(
    schema: &Value,
    level: SchemaLevel,
    stored: &StoredDefinition<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let kind = schema.text("type");
    let field_path = at.child("items");
    match schema::items(schema) {
        Some(items) => validate_structural_invariants(items, SchemaLevel::Item, stored, &field_path, errors),
        None if kind == "array" => errors.push(Error::required(&field_path, "must be specified")),
        None => {}
    }
    let properties = schema.entries("properties");
    let properties_at = at.child("properties");
    for (name, property) in properties {
        validate_structural_invariants(
            property,
            SchemaLevel::Field,
            stored,
            &properties_at.key(name),
            errors,
        );
    }
    let additional = schema::additional(schema);
    let additional_at = at.child("additionalProperties");
    if additional != AdditionalPropertiesField::Unsaid && level == SchemaLevel::Root {
        errors.push(Error::forbidden(&additional_at, "must not be used at the root"));
    }
    if let AdditionalPropertiesField::Schema(schema) = additional {
        validate_structural_invariants(schema, SchemaLevel::Field, stored, &additional_at, errors);
    }
    let embedded = schema.flag(EMBEDDED);
    for name in [PRESERVE, EMBEDDED] {
        if schema.flag(INT_OR_STRING) && schema.flag(name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(&at.child(name), json!(true), detail));
        }
    }
    let first = schema.items("allOf").first();
    let skip = SkippedJunctors {
        any_of: is_int_or_string(schema),
        any_of_of_first: first.is_some_and(is_int_or_string),
    };
    validate_value_validation(schema, skip, stored, at, errors);
    validate_type(schema, level, at, errors);
    if embedded && additional != AdditionalPropertiesField::Unsaid {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(&additional_at, detail));
    }
    if level == SchemaLevel::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(
            &at.child("type"),
            kind,
            "must be object at the root",
        ));
    }
    let is_resource = level == SchemaLevel::Root || embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = properties.get(name).filter(|_| is_resource)
            && property.text("type") != "string"
        {
            let field_path = properties_at.key(name);
            errors.push(Error::invalid(
                &field_path.child("type"),
                property.text("type"),
                "must be string",
            ));
        }
    }
    if let Some(metadata) = properties.get("metadata") {
        let field_path = properties_at.key("metadata");
        if is_resource && metadata.text("type") != "object" {
            errors.push(Error::invalid(
                &field_path.child("type"),
                metadata.text("type"),
                "must be object",
            ));
        }
        if level == SchemaLevel::Root && !restricts_names_only(metadata) {
            errors.push(Error::forbidden(&field_path, NOTHING_ELSE));
        }
    }
    if embedded && !schema.flag(PRESERVE) && properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
            x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&properties_at, detail));
    }
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go validateStructuralInvariants
fn validate_type(schema: &Value, level: SchemaLevel, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = schema.text("type");
    let field_path = at.child("type");
    if schema.flag(EMBEDDED) && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            Error::required(&field_path, detail)
        } else {
            Error::invalid(&field_path, kind, detail)
        });
    } else if kind.is_empty() && !schema.flag(INT_OR_STRING) && !schema.flag(PRESERVE) {
        let detail = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        errors.push(Error::required(&field_path, detail));
    }
}

/// Only `name` and `generateName` of metadata may be restricted.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go validateStructuralMetadataInvariants
fn restricts_names_only(metadata: &Value) -> bool {
    let fields = metadata.as_object().into_iter().flatten();
    fields.into_iter().all(|(name, value)| match name.as_str() {
        "type" | "default" => true,
        "properties" => value.as_object().is_some_and(|properties| {
            properties
                .keys()
                .all(|name| name == "name" || name == "generateName")
        }),
        _ => value.is_null(),
    })
}

/// Whether it is the one allowed pattern of int-or-string: `anyOf` the two types.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go isIntOrStringAnyOfPattern, isIntOrStringAllOfPattern
fn is_int_or_string(schema: &Value) -> bool {
    let is = |schema: &Value, kind: &str| *schema == json!({"type": kind});
    matches!(schema.items("anyOf"), [first, second] if is(first, "integer") && is(second, "string"))
}

/// Junctors that are not validated because they are the int-or-string pattern.
#[derive(Clone, Copy, Default)]
struct SkippedJunctors {
    any_of: bool,
    any_of_of_first: bool,
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go validateValueValidation
fn validate_value_validation(
    schema: &Value,
    skip: SkippedJunctors,
    stored: &StoredDefinition<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for list in ["anyOf", "allOf", "oneOf"] {
        if list == "anyOf" && skip.any_of {
            continue;
        }
        let field_path = at.child(list);
        for (index, one) in schema.items(list).iter().enumerate() {
            let skip = SkippedJunctors {
                any_of: list == "allOf" && index == 0 && skip.any_of_of_first,
                any_of_of_first: false,
            };
            validate_nested_value_validation(one, skip, stored, &field_path.index(index), errors);
        }
    }
    if schema.has("not") {
        validate_nested_value_validation(
            schema.at("not"),
            SkippedJunctors::default(),
            stored,
            &at.child("not"),
            errors,
        );
    }
    let pattern = schema.text("pattern");
    if let Some(msg) = stored.invalid_pattern_message(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {msg}");
        errors.push(Error::invalid(&at.child("pattern"), pattern, detail));
    }
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go validateNestedValueValidation
fn validate_nested_value_validation(
    schema: &Value,
    skip: SkippedJunctors,
    stored: &StoredDefinition<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_value_validation(schema, skip, stored, at, errors);
    if let Some(items) = schema::items(schema) {
        validate_nested_value_validation(
            items,
            SkippedJunctors::default(),
            stored,
            &at.child("items"),
            errors,
        );
    }
    let properties_at = at.child("properties");
    for (name, property) in schema.entries("properties") {
        validate_nested_value_validation(
            property,
            SkippedJunctors::default(),
            stored,
            &properties_at.key(name),
            errors,
        );
    }
    if !schema.text("type").is_empty() {
        errors.push(Error::forbidden(
            &at.child("type"),
            "must be empty to be structural",
        ));
    }
    if !matches!(
        schema::additional(schema),
        AdditionalPropertiesField::Unsaid | AdditionalPropertiesField::Allowed(false)
    ) {
        let field_path = at.child("additionalProperties");
        errors.push(Error::forbidden(
            &field_path,
            "must be undefined to be structural",
        ));
    }
    for (name, detail) in FORBIDDEN_IN_VALIDATIONS {
        if schema.has(name) {
            errors.push(Error::forbidden(&at.child(name), detail));
        }
    }
    if schema.entries("properties").contains_key("metadata") {
        let detail = "must not be specified in a nested context";
        errors.push(Error::forbidden(&properties_at.key("metadata"), detail));
    }
}

/// Every field that `narrow` restricts below its junctors must be specified in `whole`.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/complete.go validateValueValidationCompleteness
fn validate_completeness(
    narrow: &Value,
    whole: &Value,
    whole_at: &Path<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if narrow.has("not") {
        validate_nested_completeness(narrow.at("not"), whole, whole_at, &at.child("not"), errors);
    }
    for list in ["allOf", "anyOf", "oneOf"] {
        let field_path = at.child(list);
        for (index, one) in narrow.items(list).iter().enumerate() {
            validate_nested_completeness(one, whole, whole_at, &field_path.index(index), errors);
        }
    }
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/complete.go validateNestedValueValidationCompleteness
fn validate_nested_completeness(
    narrow: &Value,
    whole: &Value,
    whole_at: &Path<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_completeness(narrow, whole, whole_at, at, errors);
    let missing = |field_path: &Path<'_>, narrow_at: &Path<'_>| {
        Error::required(field_path, format!("because it is defined in {narrow_at}"))
    };
    if let Some(items) = schema::items(narrow) {
        let field_path = whole_at.child("items");
        let narrow_at = at.child("items");
        match schema::items(whole) {
            Some(whole) => validate_nested_completeness(items, whole, &field_path, &narrow_at, errors),
            None => errors.push(missing(&field_path, &narrow_at)),
        }
    }
    let properties_at = whole_at.child("properties");
    let narrow_properties_at = at.child("properties");
    for (name, property) in narrow.entries("properties") {
        let field_path = properties_at.key(name);
        let narrow_at = narrow_properties_at.key(name);
        match whole.entries("properties").get(name) {
            Some(whole) => validate_nested_completeness(property, whole, &field_path, &narrow_at, errors),
            None => errors.push(missing(&field_path, &narrow_at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(schema: &Value) -> Vec<String> {
        let errors = validate_structural(schema, &StoredDefinition::default(), &Path::new("s"));
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn requires_a_type_for_every_value() {
        let schema = json!({"type": "object", "properties": {
            "a": {}, "b": {"type": "array"}, "c": {"type": "array", "items": {}}, "d": {"x-kubernetes-int-or-string": true},
        }});
        assert_eq!(
            messages(&schema),
            [
                "s.properties[a].type: Required value: must not be empty for specified object fields",
                "s.properties[b].items: Required value: must be specified",
                "s.properties[c].items.type: Required value: must not be empty for specified array items",
            ]
        );
    }

    #[test]
    fn rejects_restrictions_of_unspecified_fields() {
        let schema = json!({"type": "object", "anyOf": [{"required": ["a"], "properties": {"a": {"minimum": 1}}}],
            "properties": {"b": {"type": "string", "not": {"type": "string", "description": "x"}}}});
        assert_eq!(
            messages(&schema),
            [
                "s.properties[a]: Required value: because it is defined in s.anyOf[0].properties[a]",
                "s.properties[b].not.description: Forbidden: must be empty to be structural",
                "s.properties[b].not.type: Forbidden: must be empty to be structural",
            ]
        );
    }

    #[test]
    fn accepts_one_int_or_string_pattern() {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let good = json!({"x-kubernetes-int-or-string": true, "anyOf": either});
        let nested =
            json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": either}, {"minLength": 1}]});
        let schema = json!({"type": "object", "properties": {"a": good, "b": nested}});
        assert_eq!(messages(&schema), [] as [&str; 0]);
    }

    #[test]
    fn rejects_metadata_restrictions_except_names() {
        let schema = |metadata: Value| json!({"type": "object", "properties": {"metadata": metadata}});
        let good = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}});
        assert_eq!(messages(&schema(good)), [] as [&str; 0]);
        let bad = json!({"type": "object", "properties": {"labels": {"type": "object"}}});
        assert_eq!(messages(&schema(bad)).len(), 1);
    }
}
