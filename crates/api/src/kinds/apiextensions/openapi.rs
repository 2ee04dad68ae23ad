//! OpenAPI v3 schema of a version.

use std::{cell::LazyCell, collections::HashSet};

use serde_json::Value;

use super::{
    defaults, error_values,
    expressions::{self, CostCheck},
    field_path::{self, FieldPathSyntax},
    go_struct::Field,
    internal_spec::StatusSubresource,
    schema,
    stored_definition::StoredDefinition,
    structural,
};
use crate::{
    field::{BadValue, Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree},
};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";

/// Fields that a root schema may have if there is a status subresource.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go allowedAtRootSchema
const ALLOWED_AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Position of a schema.
#[derive(Clone, Copy)]
struct SchemaPosition<'p> {
    /// Whether it is the schema of the whole object.
    root: bool,
    /// Whether every object has this part: `kind`, `apiVersion` or `metadata`.
    in_metadata: bool,
    /// Why a default is forbidden here: the end of the message.
    no_default: Option<NoDefault<'p>>,
}

#[derive(Clone, Copy)]
enum NoDefault<'p> {
    TopLevel(&'p str),
    Additional,
}

/// Validates the schema of a version.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceDefinitionValidation
pub(super) fn validate_schema(
    holder: &Value,
    status: StatusSubresource,
    (costs, stored): (CostCheck, &StoredDefinition<'_>),
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let schema = holder.at("openAPIV3Schema");
    if schema.is_null() {
        return;
    }
    let before = errors.len();
    let at = at.child("openAPIV3Schema");
    if status == StatusSubresource::Enabled {
        validate_root(schema, &at, errors);
    }
    if schema.flag("nullable") {
        let detail = "nullable cannot be true at the root";
        errors.push(Error::forbidden(&at.child("nullable"), detail));
    }
    let unsupported = schema::unsupported_fields_message(schema);
    // Rules are compiled only for structural schemas.
    let mut compiles_rules = false;
    if unsupported.is_none() {
        let msgs = structural::validate_structural(schema, stored, &at);
        if msgs.is_empty() {
            let before = errors.len();
            defaults::validate_defaults(schema, &at, errors);
            compiles_rules = errors.len() == before;
        }
        errors.extend(msgs);
    }
    let already_reported = errors.len();
    let position = SchemaPosition {
        root: true,
        in_metadata: false,
        no_default: None,
    };
    validate_level(schema, position, &at, errors);
    if compiles_rules {
        let messages = expressions::validate_expressions(
            schema,
            costs,
            errors.get(already_reported..).unwrap_or_default(),
            &at,
        );
        errors.extend(messages);
    }
    if let Some(msg) = unsupported.filter(|_| errors.len() == before) {
        errors.push(Error::invalid(&at, "", msg));
    }
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceDefinitionValidation
fn validate_root(schema: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for Field(name, source, _) in error_values::SCHEMA_FIELDS
        .iter()
        .filter(|Field(name, ..)| schema.has(name))
    {
        if *name == "type" && schema.text("type") != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                enabled";
            errors.push(Error::invalid(&at.child("type"), schema.text("type"), detail));
            return;
        }
        if !ALLOWED_AT_ROOT.contains(source) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ALLOWED_AT_ROOT.join(" ")
            );
            errors.push(Error::invalid(
                at,
                BadValue::Printed(error_values::schema_json(schema)),
                detail,
            ));
            return;
        }
    }
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionOpenAPISchema
fn validate_level(schema: &Value, position: SchemaPosition<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    reject_unsupported_fields(schema, position, at, errors);
    if schema.flag("uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&at.child("uniqueItems"), detail));
    }
    validate_inner_schemas(schema, position, at, errors);
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.has(preserve) && !schema.flag(preserve) {
        errors.push(Error::invalid(
            &at.child(preserve),
            schema.at(preserve),
            "must be true or undefined",
        ));
    }
    validate_map_type(schema, at, errors);
    validate_list_type(schema, at, errors);
    validate_map_list(schema, at, errors);
    validate_map_list_keys(schema, at, errors);
    validate_rules(schema, at, errors);
}

/// Rejects schema fields that are not supported at all.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validate
fn reject_unsupported_fields(
    schema: &Value,
    position: SchemaPosition<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let kind = schema.text("type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(Error::not_supported(&at.child("type"), kind, TYPES));
    }
    if let Some(reason) = position.no_default.filter(|_| schema.has("default")) {
        let detail = match reason {
            NoDefault::TopLevel(property) => format!("must not be set in top-level {property}"),
            NoDefault::Additional => {
                "must not be set inside additionalProperties applying to object metadata".to_owned()
            }
        };
        errors.push(Error::forbidden(&at.child("default"), detail));
    }
    for name in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if schema.has(name) {
            errors.push(Error::forbidden(
                &at.child(name),
                format!("{name} is not supported"),
            ));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(&at.child("type"), detail));
    }
    if !schema.items("items").is_empty() {
        let detail = "items must be a schema object and not an array";
        errors.push(Error::forbidden(&at.child("items"), detail));
    }
    let embedded = "x-kubernetes-embedded-resource";
    if position.in_metadata && schema.flag(embedded) {
        let detail = "must not be used inside of resource meta";
        errors.push(Error::forbidden(&at.child(embedded), detail));
    }
}

/// Validates the inner schemas.
fn validate_inner_schemas(
    schema: &Value,
    position: SchemaPosition<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let inner_position = SchemaPosition {
        root: false,
        ..position
    };
    let properties = schema.entries("properties");
    let additional = schema.at("additionalProperties");
    let additional_at = at.child("additionalProperties");
    if !additional.is_null() && !properties.is_empty() && additional.as_bool() != Some(true) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(Error::forbidden(&additional_at, detail));
    }
    if additional.is_object() {
        let inner_position = SchemaPosition {
            no_default: if position.in_metadata {
                Some(NoDefault::Additional)
            } else {
                position.no_default
            },
            ..inner_position
        };
        validate_level(additional, inner_position, &additional_at, errors);
    }
    let properties_at = at.child("properties");
    for (name, property) in properties {
        let mut inner_position = inner_position;
        let of_all = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        if of_all && (position.root || schema.flag("x-kubernetes-embedded-resource")) {
            inner_position.in_metadata = true;
            if position.root {
                inner_position.no_default = Some(NoDefault::TopLevel(name));
            }
        }
        validate_level(property, inner_position, &properties_at.key(name), errors);
    }
    if schema.has("not") {
        validate_level(schema.at("not"), inner_position, &at.child("not"), errors);
    }
    for list in ["allOf", "oneOf", "anyOf"] {
        let list_at = at.child(list);
        for (index, one) in schema.items(list).iter().enumerate() {
            validate_level(one, inner_position, &list_at.index(index), errors);
        }
    }
    let definitions = at.child("definitions");
    for (name, one) in schema.entries("definitions") {
        validate_level(one, inner_position, &definitions.key(name), errors);
    }
    let items_at = at.child("items");
    if let Some(items) = schema::items(schema) {
        validate_level(items, inner_position, &items_at, errors);
    }
    for (index, one) in schema.items("items").iter().enumerate() {
        validate_level(one, inner_position, &items_at.index(index), errors);
    }
    let dependencies = at.child("dependencies");
    for (name, one) in schema
        .entries("dependencies")
        .iter()
        .filter(|(_, one)| one.is_object())
    {
        validate_level(one, inner_position, &dependencies.key(name), errors);
    }
}

/// Whether an extension that requires a type of values has it.
fn requires_type(schema: &Value, mark: &str, kind: &str, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let actual_type = schema.text("type");
    if !schema.has(mark) || actual_type == kind {
        return true;
    }
    let field_path = at.child("type");
    let detail = format!("must be {kind} if {mark} is specified");
    errors.push(if actual_type.is_empty() {
        Error::required(&field_path, detail)
    } else {
        Error::invalid(&field_path, actual_type, detail)
    });
    false
}

fn validate_map_type(schema: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    requires_type(schema, MAP_TYPE, "object", at, errors);
    let kind = schema.text(MAP_TYPE);
    if schema.has(MAP_TYPE) && !matches!(kind, "atomic" | "granular") {
        errors.push(Error::not_supported(
            &at.child(MAP_TYPE),
            kind,
            ["atomic", "granular"],
        ));
    }
}

fn validate_list_type(schema: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = schema.text(LIST_TYPE);
    if requires_type(schema, LIST_TYPE, "array", at, errors)
        && kind == "set"
        && let Some(items) = schema::items(schema)
    {
        let items_at = at.child("items");
        let wrong = match items.text("type") {
            "array" if items.has(LIST_TYPE) && items.text(LIST_TYPE) != "atomic" => Some(LIST_TYPE),
            "object" if items.text(MAP_TYPE) != "atomic" => Some(MAP_TYPE),
            _ => None,
        };
        if let Some(mark) = wrong {
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            errors.push(Error::invalid(&items_at.child(mark), items.at(LIST_TYPE), detail));
        }
    }
    if schema.has(LIST_TYPE) && !matches!(kind, "atomic" | "set" | "map") {
        errors.push(Error::not_supported(
            &at.child(LIST_TYPE),
            kind,
            ["atomic", "set", "map"],
        ));
    }
    if !schema.items(MAP_KEYS).is_empty() && kind != "map" {
        let field_path = at.child(LIST_TYPE);
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(if schema.has(LIST_TYPE) {
            Error::invalid(&field_path, kind, detail)
        } else {
            Error::required(&field_path, detail)
        });
    }
}

/// Lists of `x-kubernetes-list-type: map`.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionOpenAPISchema
fn validate_map_list(schema: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if schema.text(LIST_TYPE) != "map" {
        return;
    }
    let keys_at = at.child(MAP_KEYS);
    let items_at = at.child("items");
    if schema.items(MAP_KEYS).is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(Error::required(&keys_at, detail));
    }
    if !schema.has("items") {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(Error::required(&items_at, detail));
        return;
    }
    let Some(items) = schema::items(schema) else {
        let items_value = BadValue::Printed(error_values::schema_or_list_json(schema.at("items")));
        let detail = "must only have a single schema if x-kubernetes-list-type is map";
        errors.push(Error::invalid(&items_at, items_value, detail));
        return;
    };
    if items.text("type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(
            &items_at.child("type"),
            items.text("type"),
            detail,
        ));
        return;
    }
    let properties_at = items_at.child("properties");
    let repeated = field_checks::duplicate_flags(schema.texts(MAP_KEYS));
    for (index, key) in schema.texts(MAP_KEYS).enumerate() {
        match items.entries("properties").get(key) {
            Some(property) if matches!(property.text("type"), "array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let field_path = properties_at.key(key);
                errors.push(Error::invalid(
                    &field_path.child("type"),
                    items.text("type"),
                    detail,
                ));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(Error::invalid(&keys_at, schema.at(MAP_KEYS), detail));
            }
        }
        if repeated[index] {
            let detail = "must not contain duplicate entries";
            errors.push(Error::invalid(&keys_at, schema.at(MAP_KEYS), detail));
        }
    }
}

/// Key fields of map and set lists must be required or have a default.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateMapListKeysMapSet
fn validate_map_list_keys(schema: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = schema.text(LIST_TYPE);
    let Some(items) = schema::items(schema).filter(|_| matches!(kind, "set" | "map")) else {
        return;
    };
    let items_at = at.child("items");
    if items.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.push(Error::forbidden(&items_at.child("nullable"), detail));
    }
    if kind == "set" {
        return;
    }
    let properties_at = items_at.child("properties");
    let required: HashSet<&str> = items.texts("required").collect();
    for key in schema.texts(MAP_KEYS) {
        let Some(property) = items.entries("properties").get(key) else {
            continue;
        };
        let field_path = properties_at.key(key);
        let reason = "this property is in x-kubernetes-list-map-keys, so it";
        if !property.has("default") && !required.contains(key) {
            let detail = format!("{reason} must have a default or be a required property");
            errors.push(Error::required(&field_path.child("default"), detail));
        }
        if property.flag("nullable") {
            let detail = format!("{reason} cannot be nullable");
            errors.push(Error::forbidden(&field_path.child("nullable"), detail));
        }
    }
}

/// Validates the rules of a schema except their expressions.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionOpenAPISchema
fn validate_rules(schema: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let list = at.child("x-kubernetes-validations");
    let supported = LazyCell::new(|| schema::unsupported_fields_message(schema).is_none());
    for (index, rule) in schema.items("x-kubernetes-validations").iter().enumerate() {
        let at = list.index(index);
        let text = rule.text("rule").trim();
        let message = rule.text("message");
        let message_at = at.child("message");
        if text.is_empty() {
            errors.push(Error::required(&at.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(Error::invalid(
                &message_at,
                message,
                "must be non-empty if specified",
            ));
        } else if has_lines(message.trim()) {
            errors.push(Error::invalid(
                &message_at,
                message,
                "must not contain line breaks",
            ));
        } else if has_lines(text) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(Error::required(&message_at, detail));
        }
        let expression = rule.text("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(Error::required(&at.child("messageExpression"), detail));
        }
        if rule.has("reason") && !REASONS.contains(&rule.text("reason")) {
            errors.push(Error::not_supported(
                &at.child("reason"),
                rule.text("reason"),
                REASONS,
            ));
        }
        let path = rule.text("fieldPath");
        let path_at = at.child("fieldPath");
        if path.is_empty() {
            continue;
        }
        if path.trim().is_empty() {
            errors.push(Error::invalid(&path_at, path, "must be non-empty if specified"));
        }
        if has_lines(path) {
            errors.push(Error::invalid(&path_at, path, "must not contain line breaks"));
        }
        if *supported && field_path::resolve(path, schema, FieldPathSyntax::DotsAndBrackets).is_err() {
            errors.push(Error::invalid(&path_at, path, "must be a valid path"));
        }
    }
}
