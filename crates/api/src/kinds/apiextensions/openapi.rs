//! The schema of a version.

use std::{cell::LazyCell, collections::HashSet};

use serde_json::Value;

use super::{
    defaults,
    expressions::{self, Costs},
    field_path,
    internal::Field,
    printed, schema,
    stored::Stored,
    structural,
};
use crate::{
    field::{Error, Path, Shown},
    kinds::field_checks,
    rules::{Errors, Tree},
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

/// What may be said of a whole object whose status is judged apart.
const AT_ROOT: [&str; 22] = [
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

/// Where a schema stands.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// Whether it is that of the whole object.
    root: bool,
    /// Whether it is that of a part every object has: `kind`, `apiVersion`, `metadata`.
    in_metadata: bool,
    /// Why it may have no default, if it may not: ` in top-level ` and this property, or in metadata.
    no_default: Option<NoDefault<'p>>,
}

#[derive(Clone, Copy)]
enum NoDefault<'p> {
    TopLevel(&'p str),
    Additional,
}

/// What is wrong with the schema of a version. `has_status`: whether the status is judged apart.
pub(super) fn validate(
    holder: &Value,
    has_status: bool,
    (costs, stored): (Costs, &Stored<'_>),
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let schema = holder.at("openAPIV3Schema");
    if schema.is_null() {
        return;
    }
    let before = errors.len();
    let at = at.child("openAPIV3Schema");
    if has_status {
        judge_root(schema, &at, errors);
    }
    if schema.flag("nullable") {
        let detail = "nullable cannot be true at the root";
        errors.push(Error::forbidden(&at.child("nullable"), detail));
    }
    let unsupported = schema::unsupported(schema);
    // Rules are asked for only where values can be.
    let mut asks = false;
    if unsupported.is_none() {
        let msgs = structural::validate(schema, stored, &at);
        if msgs.is_empty() {
            let before = errors.len();
            defaults::validate(schema, &at, errors);
            asks = errors.len() == before;
        }
        errors.extend(msgs);
    }
    let judged = errors.len();
    let field_path = Place {
        root: true,
        in_metadata: false,
        no_default: None,
    };
    judge(schema, field_path, &at, errors);
    if asks {
        let messages = expressions::validate(schema, costs, errors.get(judged..).unwrap_or_default(), &at);
        errors.extend(messages);
    }
    if let Some(msg) = unsupported.filter(|_| errors.len() == before) {
        errors.push(Error::invalid(&at, "", msg));
    }
}

fn judge_root(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    for Field(name, source, _) in printed::SCHEMA.iter().filter(|Field(name, ..)| schema.has(name)) {
        if *name == "type" && schema.text("type") != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                enabled";
            errors.push(Error::invalid(&at.child("type"), schema.text("type"), detail));
            return;
        }
        if !AT_ROOT.contains(source) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                AT_ROOT.join(" ")
            );
            errors.push(Error::invalid(
                at,
                Shown::Printed(printed::schema(schema)),
                detail,
            ));
            return;
        }
    }
}

fn judge(schema: &Value, field_path: Place<'_>, at: &Path<'_>, errors: &mut Errors) {
    supported(schema, field_path, at, errors);
    if schema.flag("uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&at.child("uniqueItems"), detail));
    }
    inner(schema, field_path, at, errors);
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.has(preserve) && !schema.flag(preserve) {
        errors.push(Error::invalid(
            &at.child(preserve),
            schema.at(preserve),
            "must be true or undefined",
        ));
    }
    judge_map_type(schema, at, errors);
    judge_list_type(schema, at, errors);
    judge_map_list(schema, at, errors);
    judge_members(schema, at, errors);
    judge_rules(schema, at, errors);
}

/// What a schema may not say at all.
fn supported(schema: &Value, field_path: Place<'_>, at: &Path<'_>, errors: &mut Errors) {
    let kind = schema.text("type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(Error::not_supported(&at.child("type"), kind, TYPES));
    }
    if let Some(reason) = field_path.no_default.filter(|_| schema.has("default")) {
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
    if field_path.in_metadata && schema.flag(embedded) {
        let detail = "must not be used inside of resource meta";
        errors.push(Error::forbidden(&at.child(embedded), detail));
    }
}

/// The schemas inside.
fn inner(schema: &Value, field_path: Place<'_>, at: &Path<'_>, errors: &mut Errors) {
    let inside = Place {
        root: false,
        ..field_path
    };
    let properties = schema.entries("properties");
    let additional = schema.at("additionalProperties");
    let additional_at = at.child("additionalProperties");
    if !additional.is_null() && !properties.is_empty() && additional.as_bool() != Some(true) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(Error::forbidden(&additional_at, detail));
    }
    if additional.is_object() {
        let inside = Place {
            no_default: if field_path.in_metadata {
                Some(NoDefault::Additional)
            } else {
                field_path.no_default
            },
            ..inside
        };
        judge(additional, inside, &additional_at, errors);
    }
    let properties_at = at.child("properties");
    for (name, property) in properties {
        let mut inside = inside;
        let of_all = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        if of_all && (field_path.root || schema.flag("x-kubernetes-embedded-resource")) {
            inside.in_metadata = true;
            if field_path.root {
                inside.no_default = Some(NoDefault::TopLevel(name));
            }
        }
        judge(property, inside, &properties_at.key(name), errors);
    }
    if schema.has("not") {
        judge(schema.at("not"), inside, &at.child("not"), errors);
    }
    for list in ["allOf", "oneOf", "anyOf"] {
        let list_at = at.child(list);
        for (index, one) in schema.items(list).iter().enumerate() {
            judge(one, inside, &list_at.index(index), errors);
        }
    }
    let definitions = at.child("definitions");
    for (name, one) in schema.entries("definitions") {
        judge(one, inside, &definitions.key(name), errors);
    }
    let items_at = at.child("items");
    if let Some(items) = schema::items(schema) {
        judge(items, inside, &items_at, errors);
    }
    for (index, one) in schema.items("items").iter().enumerate() {
        judge(one, inside, &items_at.index(index), errors);
    }
    let dependencies = at.child("dependencies");
    for (name, one) in schema
        .entries("dependencies")
        .iter()
        .filter(|(_, one)| one.is_object())
    {
        judge(one, inside, &dependencies.key(name), errors);
    }
}

/// A mark that goes with one type of values only.
fn goes_with(schema: &Value, mark: &str, kind: &str, at: &Path<'_>, errors: &mut Errors) -> bool {
    let given = schema.text("type");
    if !schema.has(mark) || given == kind {
        return true;
    }
    let field_path = at.child("type");
    let detail = format!("must be {kind} if {mark} is specified");
    errors.push(if given.is_empty() {
        Error::required(&field_path, detail)
    } else {
        Error::invalid(&field_path, given, detail)
    });
    false
}

fn judge_map_type(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    goes_with(schema, MAP_TYPE, "object", at, errors);
    let kind = schema.text(MAP_TYPE);
    if schema.has(MAP_TYPE) && !matches!(kind, "atomic" | "granular") {
        errors.push(Error::not_supported(
            &at.child(MAP_TYPE),
            kind,
            ["atomic", "granular"],
        ));
    }
}

fn judge_list_type(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let kind = schema.text(LIST_TYPE);
    if goes_with(schema, LIST_TYPE, "array", at, errors)
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

/// A list whose items are told apart by keys.
fn judge_map_list(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
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
        let shown = Shown::Printed(printed::schema_or_list(schema.at("items")));
        let detail = "must only have a single schema if x-kubernetes-list-type is map";
        errors.push(Error::invalid(&items_at, shown, detail));
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

/// What tells the members of a list apart must be there.
fn judge_members(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
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

/// What is wrong with the rules of a schema, beside their expressions.
fn judge_rules(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let list = at.child("x-kubernetes-validations");
    let supported = LazyCell::new(|| schema::unsupported(schema).is_none());
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
        if *supported && field_path::resolve(path, schema, true).is_err() {
            errors.push(Error::invalid(&path_at, path, "must be a valid path"));
        }
    }
}
