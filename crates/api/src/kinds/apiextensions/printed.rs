//! Definitions as errors show them.

use serde_json::Value;

use super::internal::{self, Field, Form};
use crate::go;

static RULE: [Field; 6] = [
    Field("rule", "Rule", Form::Text),
    Field("message", "Message", Form::Text),
    Field("messageExpression", "MessageExpression", Form::Text),
    Field("reason", "Reason", Form::Plain),
    Field("fieldPath", "FieldPath", Form::Text),
    Field("optionalOldSelf", "OptionalOldSelf", Form::Plain),
];
static DOCS: [Field; 2] = [
    Field("description", "Description", Form::Text),
    Field("url", "URL", Form::Text),
];

/// The fields of a schema, in the order in which they are declared.
pub(super) static SCHEMA: [Field; 44] = [
    Field("id", "ID", Form::Text),
    Field("$schema", "Schema", Form::Text),
    Field("$ref", "Ref", Form::Plain),
    Field("description", "Description", Form::Text),
    Field("type", "Type", Form::Text),
    Field("nullable", "Nullable", Form::Flag),
    Field("format", "Format", Form::Text),
    Field("title", "Title", Form::Text),
    Field("default", "Default", Form::Plain),
    Field("maximum", "Maximum", Form::Plain),
    Field("exclusiveMaximum", "ExclusiveMaximum", Form::Flag),
    Field("minimum", "Minimum", Form::Plain),
    Field("exclusiveMinimum", "ExclusiveMinimum", Form::Flag),
    Field("maxLength", "MaxLength", Form::Plain),
    Field("minLength", "MinLength", Form::Plain),
    Field("pattern", "Pattern", Form::Text),
    Field("maxItems", "MaxItems", Form::Plain),
    Field("minItems", "MinItems", Form::Plain),
    Field("uniqueItems", "UniqueItems", Form::Flag),
    Field("multipleOf", "MultipleOf", Form::Plain),
    Field("enum", "Enum", Form::Plain),
    Field("maxProperties", "MaxProperties", Form::Plain),
    Field("minProperties", "MinProperties", Form::Plain),
    Field("required", "Required", Form::Plain),
    Field("items", "Items", Form::Other(schema_or_list)),
    Field("allOf", "AllOf", Form::List(&SCHEMA)),
    Field("oneOf", "OneOf", Form::List(&SCHEMA)),
    Field("anyOf", "AnyOf", Form::List(&SCHEMA)),
    Field("not", "Not", Form::Pointer(&SCHEMA)),
    Field("properties", "Properties", Form::Map(&SCHEMA)),
    Field(
        "additionalProperties",
        "AdditionalProperties",
        Form::Other(schema_or_flag),
    ),
    Field("patternProperties", "PatternProperties", Form::Map(&SCHEMA)),
    Field("dependencies", "Dependencies", Form::Other(dependencies)),
    Field("additionalItems", "AdditionalItems", Form::Other(schema_or_flag)),
    Field("definitions", "Definitions", Form::Map(&SCHEMA)),
    Field("externalDocs", "ExternalDocs", Form::Pointer(&DOCS)),
    Field("example", "Example", Form::Plain),
    Field(
        "x-kubernetes-preserve-unknown-fields",
        "XPreserveUnknownFields",
        Form::Plain,
    ),
    Field("x-kubernetes-embedded-resource", "XEmbeddedResource", Form::Flag),
    Field("x-kubernetes-int-or-string", "XIntOrString", Form::Flag),
    Field("x-kubernetes-list-map-keys", "XListMapKeys", Form::Plain),
    Field("x-kubernetes-list-type", "XListType", Form::Plain),
    Field("x-kubernetes-map-type", "XMapType", Form::Plain),
    Field("x-kubernetes-validations", "XValidations", Form::List(&RULE)),
];

static HOLDER: [Field; 1] = [Field(
    "openAPIV3Schema",
    "OpenAPIV3Schema",
    Form::Pointer(&SCHEMA),
)];
static SCALE: [Field; 3] = [
    Field("specReplicasPath", "SpecReplicasPath", Form::Text),
    Field("statusReplicasPath", "StatusReplicasPath", Form::Text),
    Field("labelSelectorPath", "LabelSelectorPath", Form::Plain),
];
static SUBRESOURCES: [Field; 2] = [
    Field("status", "Status", Form::Plain),
    Field("scale", "Scale", Form::Pointer(&SCALE)),
];
static COLUMN: [Field; 6] = [
    Field("name", "Name", Form::Text),
    Field("type", "Type", Form::Text),
    Field("format", "Format", Form::Text),
    Field("description", "Description", Form::Text),
    Field("priority", "Priority", Form::Number),
    Field("jsonPath", "JSONPath", Form::Text),
];
static SELECTABLE: [Field; 1] = [Field("jsonPath", "JSONPath", Form::Text)];
static VERSION: [Field; 9] = [
    Field("name", "Name", Form::Text),
    Field("served", "Served", Form::Flag),
    Field("storage", "Storage", Form::Flag),
    Field("deprecated", "Deprecated", Form::Flag),
    Field("deprecationWarning", "DeprecationWarning", Form::Plain),
    Field("schema", "Schema", Form::Pointer(&HOLDER)),
    Field("subresources", "Subresources", Form::Pointer(&SUBRESOURCES)),
    Field(
        "additionalPrinterColumns",
        "AdditionalPrinterColumns",
        Form::List(&COLUMN),
    ),
    Field("selectableFields", "SelectableFields", Form::List(&SELECTABLE)),
];

/// The versions of a definition.
pub(super) fn versions(versions: &Value) -> String {
    match versions {
        Value::Array(items) => internal::print_list(items, &VERSION),
        _ => "null".to_owned(),
    }
}

/// A rule.
pub(super) fn rule(rule: &Value) -> String {
    internal::print(rule, &RULE)
}

/// A schema.
pub(super) fn schema(schema: &Value) -> String {
    internal::print(schema, &SCHEMA)
}

/// The schema of items, or the list of them.
pub(super) fn schema_or_list(value: &Value) -> String {
    match value {
        Value::Array(items) => format!(
            "{{\"Schema\":null,\"JSONSchemas\":{}}}",
            internal::print_list(items, &SCHEMA)
        ),
        one => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(one)),
    }
}

fn schema_or_flag(value: &Value) -> String {
    match value {
        Value::Bool(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
        one => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(one)),
    }
}

fn dependencies(value: &Value) -> String {
    let entries: Vec<_> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, one)| {
            let text = match one {
                Value::Array(_) => format!("{{\"Schema\":null,\"Property\":{}}}", go::json(one)),
                _ => format!("{{\"Schema\":{},\"Property\":null}}", schema(one)),
            };
            format!("{}:{text}", go::json_string(name))
        })
        .collect();
    format!("{{{}}}", entries.join(","))
}
