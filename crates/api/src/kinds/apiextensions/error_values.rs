//! Field tables of the internal types of CustomResourceDefinitions, for error messages.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/types_jsonschema.go JSONSchemaProps, ValidationRule

use serde_json::Value;

use super::go_struct::{self, Field, FieldType};
use crate::go;

static RULE_FIELDS: [Field; 6] = [
    Field("rule", "Rule", FieldType::Text),
    Field("message", "Message", FieldType::Text),
    Field("messageExpression", "MessageExpression", FieldType::Text),
    Field("reason", "Reason", FieldType::Plain),
    Field("fieldPath", "FieldPath", FieldType::Text),
    Field("optionalOldSelf", "OptionalOldSelf", FieldType::Plain),
];
static DOCS_FIELDS: [Field; 2] = [
    Field("description", "Description", FieldType::Text),
    Field("url", "URL", FieldType::Text),
];

/// The fields of JSONSchemaProps in declaration order.
pub(super) static SCHEMA_FIELDS: [Field; 44] = [
    Field("id", "ID", FieldType::Text),
    Field("$schema", "Schema", FieldType::Text),
    Field("$ref", "Ref", FieldType::Plain),
    Field("description", "Description", FieldType::Text),
    Field("type", "Type", FieldType::Text),
    Field("nullable", "Nullable", FieldType::Flag),
    Field("format", "Format", FieldType::Text),
    Field("title", "Title", FieldType::Text),
    Field("default", "Default", FieldType::Plain),
    Field("maximum", "Maximum", FieldType::Plain),
    Field("exclusiveMaximum", "ExclusiveMaximum", FieldType::Flag),
    Field("minimum", "Minimum", FieldType::Plain),
    Field("exclusiveMinimum", "ExclusiveMinimum", FieldType::Flag),
    Field("maxLength", "MaxLength", FieldType::Plain),
    Field("minLength", "MinLength", FieldType::Plain),
    Field("pattern", "Pattern", FieldType::Text),
    Field("maxItems", "MaxItems", FieldType::Plain),
    Field("minItems", "MinItems", FieldType::Plain),
    Field("uniqueItems", "UniqueItems", FieldType::Flag),
    Field("multipleOf", "MultipleOf", FieldType::Plain),
    Field("enum", "Enum", FieldType::Plain),
    Field("maxProperties", "MaxProperties", FieldType::Plain),
    Field("minProperties", "MinProperties", FieldType::Plain),
    Field("required", "Required", FieldType::Plain),
    Field("items", "Items", FieldType::Other(schema_or_list_json)),
    Field("allOf", "AllOf", FieldType::List(&SCHEMA_FIELDS)),
    Field("oneOf", "OneOf", FieldType::List(&SCHEMA_FIELDS)),
    Field("anyOf", "AnyOf", FieldType::List(&SCHEMA_FIELDS)),
    Field("not", "Not", FieldType::Pointer(&SCHEMA_FIELDS)),
    Field("properties", "Properties", FieldType::Map(&SCHEMA_FIELDS)),
    Field(
        "additionalProperties",
        "AdditionalProperties",
        FieldType::Other(schema_or_flag_json),
    ),
    Field(
        "patternProperties",
        "PatternProperties",
        FieldType::Map(&SCHEMA_FIELDS),
    ),
    Field(
        "dependencies",
        "Dependencies",
        FieldType::Other(dependencies_json),
    ),
    Field(
        "additionalItems",
        "AdditionalItems",
        FieldType::Other(schema_or_flag_json),
    ),
    Field("definitions", "Definitions", FieldType::Map(&SCHEMA_FIELDS)),
    Field("externalDocs", "ExternalDocs", FieldType::Pointer(&DOCS_FIELDS)),
    Field("example", "Example", FieldType::Plain),
    Field(
        "x-kubernetes-preserve-unknown-fields",
        "XPreserveUnknownFields",
        FieldType::Plain,
    ),
    Field(
        "x-kubernetes-embedded-resource",
        "XEmbeddedResource",
        FieldType::Flag,
    ),
    Field("x-kubernetes-int-or-string", "XIntOrString", FieldType::Flag),
    Field("x-kubernetes-list-map-keys", "XListMapKeys", FieldType::Plain),
    Field("x-kubernetes-list-type", "XListType", FieldType::Plain),
    Field("x-kubernetes-map-type", "XMapType", FieldType::Plain),
    Field(
        "x-kubernetes-validations",
        "XValidations",
        FieldType::List(&RULE_FIELDS),
    ),
];

static VALIDATION_FIELDS: [Field; 1] = [Field(
    "openAPIV3Schema",
    "OpenAPIV3Schema",
    FieldType::Pointer(&SCHEMA_FIELDS),
)];
static SCALE_FIELDS: [Field; 3] = [
    Field("specReplicasPath", "SpecReplicasPath", FieldType::Text),
    Field("statusReplicasPath", "StatusReplicasPath", FieldType::Text),
    Field("labelSelectorPath", "LabelSelectorPath", FieldType::Plain),
];
static SUBRESOURCES_FIELDS: [Field; 2] = [
    Field("status", "Status", FieldType::Plain),
    Field("scale", "Scale", FieldType::Pointer(&SCALE_FIELDS)),
];
static COLUMN_FIELDS: [Field; 6] = [
    Field("name", "Name", FieldType::Text),
    Field("type", "Type", FieldType::Text),
    Field("format", "Format", FieldType::Text),
    Field("description", "Description", FieldType::Text),
    Field("priority", "Priority", FieldType::Number),
    Field("jsonPath", "JSONPath", FieldType::Text),
];
static SELECTABLE_FIELDS: [Field; 1] = [Field("jsonPath", "JSONPath", FieldType::Text)];
static VERSION_FIELDS: [Field; 9] = [
    Field("name", "Name", FieldType::Text),
    Field("served", "Served", FieldType::Flag),
    Field("storage", "Storage", FieldType::Flag),
    Field("deprecated", "Deprecated", FieldType::Flag),
    Field("deprecationWarning", "DeprecationWarning", FieldType::Plain),
    Field("schema", "Schema", FieldType::Pointer(&VALIDATION_FIELDS)),
    Field(
        "subresources",
        "Subresources",
        FieldType::Pointer(&SUBRESOURCES_FIELDS),
    ),
    Field(
        "additionalPrinterColumns",
        "AdditionalPrinterColumns",
        FieldType::List(&COLUMN_FIELDS),
    ),
    Field(
        "selectableFields",
        "SelectableFields",
        FieldType::List(&SELECTABLE_FIELDS),
    ),
];

pub(super) fn versions_json(versions: &Value) -> String {
    match versions {
        Value::Array(items) => go_struct::list_json(items, &VERSION_FIELDS),
        _ => "null".to_owned(),
    }
}

pub(super) fn rule_json(rule: &Value) -> String {
    go_struct::struct_json(rule, &RULE_FIELDS)
}

pub(super) fn schema_json(schema: &Value) -> String {
    go_struct::struct_json(schema, &SCHEMA_FIELDS)
}

/// JSONSchemaPropsOrArray.
pub(super) fn schema_or_list_json(value: &Value) -> String {
    match value {
        Value::Array(items) => format!(
            "{{\"Schema\":null,\"JSONSchemas\":{}}}",
            go_struct::list_json(items, &SCHEMA_FIELDS)
        ),
        one => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema_json(one)),
    }
}

fn schema_or_flag_json(value: &Value) -> String {
    match value {
        Value::Bool(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
        one => format!("{{\"Allows\":true,\"Schema\":{}}}", schema_json(one)),
    }
}

fn dependencies_json(value: &Value) -> String {
    let entries: Vec<_> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, one)| {
            let text = match one {
                Value::Array(_) => format!("{{\"Schema\":null,\"Property\":{}}}", go::json(one)),
                _ => format!("{{\"Schema\":{},\"Property\":null}}", schema_json(one)),
            };
            format!("{}:{text}", go::json_string(name))
        })
        .collect();
    format!("{{{}}}", entries.join(","))
}
