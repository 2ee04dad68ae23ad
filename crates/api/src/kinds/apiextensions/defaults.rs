//! The defaults of a schema: values of its own, which must be as the schema says.
//!
//! Whether a default has the type and the bounds that are asked for is for the judge of custom resources to say, who has
//! his place in [`judge`].

use serde_json::Value;

use super::schema::{self, Additional};
use crate::{
    field::{Error, Path},
    rules::{Errors, Tree},
};

/// What is wrong with the defaults of a structural schema.
pub(super) fn validate(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    walk(schema, false, true, at, errors);
}

/// `in_metadata`: whether the schema is that of a part every object has. `resource`: whether it is that of an object.
fn walk(schema: &Value, in_metadata: bool, resource: bool, at: &Path<'_>, errors: &mut Errors) {
    let resource = resource || schema.flag("x-kubernetes-embedded-resource");
    let in_metadata = in_metadata && !resource;
    if schema.has("default") && !in_metadata {
        judge(schema, &at.child("default"), errors);
    }
    if let Some(items) = schema::items(schema) {
        walk(items, in_metadata, false, &at.child("items"), errors);
    }
    let properties_at = at.child("properties");
    for (name, property) in schema.entries("properties") {
        let of_all = resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        walk(
            property,
            in_metadata || of_all,
            false,
            &properties_at.key(name),
            errors,
        );
    }
}

fn judge(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let default = schema.at("default");
    if has_unknown(default, Some(schema), false) {
        errors.push(Error::invalid(at, default, "must not have unknown fields"));
    }
}

/// Whether a value has fields that its schema does not know. `kept`: whether such fields are kept all the way here.
fn has_unknown(value: &Value, schema: Option<&Value>, kept: bool) -> bool {
    let kept = match schema {
        Some(schema) if schema.flag("x-kubernetes-preserve-unknown-fields") => true,
        // Lists inside what is kept hand it on; what a schema names is judged anew.
        _ => kept && value.is_array(),
    };
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let Some(schema) = schema else {
                return true;
            };
            let of_all = matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            if of_all && schema.flag("x-kubernetes-embedded-resource") {
                return false;
            }
            match (schema.entries("properties").get(name), schema::additional(schema)) {
                (Some(property), _) => has_unknown(value, Some(property), false),
                (None, Additional::Schema(schema)) => has_unknown(value, Some(schema), false),
                (None, Additional::Allowed(_)) => has_unknown(value, None, false),
                (None, Additional::Unsaid) => !kept,
            }
        }),
        Value::Array(items) => {
            let schema = schema.and_then(schema::items);
            items.iter().any(|item| {
                if kept && schema.is_none() {
                    return false;
                }
                has_unknown(item, schema, kept)
            })
        }
        _ => false,
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
        }});
        let mut errors = Errors::new();
        validate(&schema, &Path::new("s"), &mut errors);
        let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "s.properties[b].default: Invalid value: {\"y\":1}: must not have unknown fields",
                "s.properties[d].default: Invalid value: [{\"y\":1}]: must not have unknown fields",
            ]
        );
    }
}
