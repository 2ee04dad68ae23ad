//! Structural schemas: every value has one place that says what it is, and all else only narrows it.

use serde_json::{Value, json};

use super::{
    schema::{self, Additional},
    stored::Stored,
};
use crate::{
    field::{Error, Path},
    rules::{Errors, Tree},
};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const NOTHING_ELSE: &str =
    "must not specify anything other than name and generateName, but metadata is implicitly specified";

/// What may not be said where values are only narrowed, and how that is told.
const FORBIDDEN: [(&str, &str); 11] = [
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

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps a schema from being structural, sorted by its text.
pub(super) fn validate(schema: &Value, stored: &Stored<'_>, at: &Path<'_>) -> Errors {
    let mut errors = Errors::new();
    invariants(schema, Level::Root, stored, at, &mut errors);
    complete(schema, schema, at, at, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn invariants(schema: &Value, level: Level, stored: &Stored<'_>, at: &Path<'_>, errors: &mut Errors) {
    let kind = schema.text("type");
    let field_path = at.child("items");
    match schema::items(schema) {
        Some(items) => invariants(items, Level::Item, stored, &field_path, errors),
        None if kind == "array" => errors.push(Error::required(&field_path, "must be specified")),
        None => {}
    }
    let properties = schema.entries("properties");
    let properties_at = at.child("properties");
    for (name, property) in properties {
        invariants(property, Level::Field, stored, &properties_at.key(name), errors);
    }
    let additional = schema::additional(schema);
    let additional_at = at.child("additionalProperties");
    if additional != Additional::Unsaid && level == Level::Root {
        errors.push(Error::forbidden(&additional_at, "must not be used at the root"));
    }
    if let Additional::Schema(schema) = additional {
        invariants(schema, Level::Field, stored, &additional_at, errors);
    }
    let embedded = schema.flag(EMBEDDED);
    for name in [PRESERVE, EMBEDDED] {
        if schema.flag(INT_OR_STRING) && schema.flag(name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(&at.child(name), json!(true), detail));
        }
    }
    let first = schema.items("allOf").first();
    let skip = Skip {
        any_of: is_int_or_string(schema),
        any_of_of_first: first.is_some_and(is_int_or_string),
    };
    narrowing(schema, skip, stored, at, errors);
    judge_type(schema, level, at, errors);
    if embedded && additional != Additional::Unsaid {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(&additional_at, detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(
            &at.child("type"),
            kind,
            "must be object at the root",
        ));
    }
    let is_resource = level == Level::Root || embedded;
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
        if level == Level::Root && !narrows_names_alone(metadata) {
            errors.push(Error::forbidden(&field_path, NOTHING_ELSE));
        }
    }
    if embedded && !schema.flag(PRESERVE) && properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
            x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&properties_at, detail));
    }
}

fn judge_type(schema: &Value, level: Level, at: &Path<'_>, errors: &mut Errors) {
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
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(Error::required(&field_path, detail));
    }
}

/// The metadata of a resource is known: only names may be narrowed.
fn narrows_names_alone(metadata: &Value) -> bool {
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

/// Whether the one way is taken in which a number or a text may be asked for: `anyOf` the two types, and no more.
fn is_int_or_string(schema: &Value) -> bool {
    let is = |schema: &Value, kind: &str| *schema == json!({"type": kind});
    matches!(schema.items("anyOf"), [first, second] if is(first, "integer") && is(second, "string"))
}

/// The parts that are not judged, because they are the one way to ask for a number or a text.
#[derive(Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    any_of_of_first: bool,
}

fn narrowing(schema: &Value, skip: Skip, stored: &Stored<'_>, at: &Path<'_>, errors: &mut Errors) {
    for list in ["anyOf", "allOf", "oneOf"] {
        if list == "anyOf" && skip.any_of {
            continue;
        }
        let field_path = at.child(list);
        for (index, one) in schema.items(list).iter().enumerate() {
            let skip = Skip {
                any_of: list == "allOf" && index == 0 && skip.any_of_of_first,
                any_of_of_first: false,
            };
            nested(one, skip, stored, &field_path.index(index), errors);
        }
    }
    if schema.has("not") {
        nested(
            schema.at("not"),
            Skip::default(),
            stored,
            &at.child("not"),
            errors,
        );
    }
    let pattern = schema.text("pattern");
    if let Some(msg) = stored.pattern_fault(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {msg}");
        errors.push(Error::invalid(&at.child("pattern"), pattern, detail));
    }
}

fn nested(schema: &Value, skip: Skip, stored: &Stored<'_>, at: &Path<'_>, errors: &mut Errors) {
    narrowing(schema, skip, stored, at, errors);
    if let Some(items) = schema::items(schema) {
        nested(items, Skip::default(), stored, &at.child("items"), errors);
    }
    let properties_at = at.child("properties");
    for (name, property) in schema.entries("properties") {
        nested(
            property,
            Skip::default(),
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
        Additional::Unsaid | Additional::Allowed(false)
    ) {
        let field_path = at.child("additionalProperties");
        errors.push(Error::forbidden(
            &field_path,
            "must be undefined to be structural",
        ));
    }
    for (name, detail) in FORBIDDEN {
        if schema.has(name) {
            errors.push(Error::forbidden(&at.child(name), detail));
        }
    }
    if schema.entries("properties").contains_key("metadata") {
        let detail = "must not be specified in a nested context";
        errors.push(Error::forbidden(&properties_at.key("metadata"), detail));
    }
}

/// Everything that is narrowed must be said: what `narrow` has below its junctors, `whole` must have, too.
fn complete(narrow: &Value, whole: &Value, whole_at: &Path<'_>, at: &Path<'_>, errors: &mut Errors) {
    if narrow.has("not") {
        complete_nested(narrow.at("not"), whole, whole_at, &at.child("not"), errors);
    }
    for list in ["allOf", "anyOf", "oneOf"] {
        let field_path = at.child(list);
        for (index, one) in narrow.items(list).iter().enumerate() {
            complete_nested(one, whole, whole_at, &field_path.index(index), errors);
        }
    }
}

fn complete_nested(narrow: &Value, whole: &Value, whole_at: &Path<'_>, at: &Path<'_>, errors: &mut Errors) {
    complete(narrow, whole, whole_at, at, errors);
    let missing = |field_path: &Path<'_>, narrow_at: &Path<'_>| {
        Error::required(field_path, format!("because it is defined in {narrow_at}"))
    };
    if let Some(items) = schema::items(narrow) {
        let field_path = whole_at.child("items");
        let narrow_at = at.child("items");
        match schema::items(whole) {
            Some(whole) => complete_nested(items, whole, &field_path, &narrow_at, errors),
            None => errors.push(missing(&field_path, &narrow_at)),
        }
    }
    let places = whole_at.child("properties");
    let narrow_places = at.child("properties");
    for (name, property) in narrow.entries("properties") {
        let field_path = places.key(name);
        let narrow_at = narrow_places.key(name);
        match whole.entries("properties").get(name) {
            Some(whole) => complete_nested(property, whole, &field_path, &narrow_at, errors),
            None => errors.push(missing(&field_path, &narrow_at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(schema: &Value) -> Vec<String> {
        let errors = validate(schema, &Stored::default(), &Path::new("s"));
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_value_has_a_type_where_it_stands() {
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
    fn a_junctor_narrows_what_is_said_elsewhere() {
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
    fn a_number_or_a_text_is_asked_for_in_one_way() {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let good = json!({"x-kubernetes-int-or-string": true, "anyOf": either});
        let nested =
            json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": either}, {"minLength": 1}]});
        let schema = json!({"type": "object", "properties": {"a": good, "b": nested}});
        assert_eq!(messages(&schema), [] as [&str; 0]);
    }

    #[test]
    fn metadata_is_known_but_for_names() {
        let schema = |metadata: Value| json!({"type": "object", "properties": {"metadata": metadata}});
        let good = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}});
        assert_eq!(messages(&schema(good)), [] as [&str; 0]);
        let bad = json!({"type": "object", "properties": {"labels": {"type": "object"}}});
        assert_eq!(messages(&schema(bad)).len(), 1);
    }
}
