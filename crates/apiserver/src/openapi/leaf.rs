//! The types that are not made of fields: what they are called and how they look.

use k3_api::schema::Type;
use serde_json::{Value, json};

use super::definition::OpenApiVersion;

pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const VERSION_INFO: &str = "io.k8s.apimachinery.pkg.version.Info";

const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const DURATION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const OR_BOOL: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool";
const OR_ARRAY: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray";
const OR_STRINGS: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray";

/// The fields of `/version`, and whether they are always there.
const VERSION_FIELDS: [(&str, bool); 13] = [
    ("buildDate", true),
    ("compiler", true),
    ("emulationMajor", false),
    ("emulationMinor", false),
    ("gitCommit", true),
    ("gitTreeState", true),
    ("gitVersion", true),
    ("goVersion", true),
    ("major", true),
    ("minCompatibilityMajor", false),
    ("minCompatibilityMinor", false),
    ("minor", true),
    ("platform", true),
];

/// The name of a type that is defined but has no fields of its own; `None` for those that are written in place.
pub(super) fn name(ty: &Type) -> Option<&'static str> {
    Some(match ty {
        Type::Time => TIME,
        Type::MicroTime => MICRO_TIME,
        Type::Duration => DURATION,
        Type::Quantity => QUANTITY,
        Type::IntOrString => INT_OR_STRING,
        Type::RawExtension => RAW_EXTENSION,
        Type::FieldsV1 => FIELDS,
        Type::Json => JSON,
        Type::SchemaOrBool => OR_BOOL,
        Type::SchemaOrArray => OR_ARRAY,
        Type::SchemaOrStrings => OR_STRINGS,
        _ => return None,
    })
}

/// The definition for a name, without its description.
pub(super) fn definition(name: &str, dialect: OpenApiVersion) -> Value {
    match (name, dialect) {
        (TIME | MICRO_TIME, _) => json!({"type": "string", "format": "date-time"}),
        (DURATION, _) | (QUANTITY, OpenApiVersion::V2) => json!({"type": "string"}),
        (QUANTITY, OpenApiVersion::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        (INT_OR_STRING, OpenApiVersion::V2) => json!({"type": "string", "format": "int-or-string"}),
        (INT_OR_STRING, OpenApiVersion::V3) => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        (RAW_EXTENSION | FIELDS | PATCH, _) => json!({"type": "object"}),
        (VERSION_INFO, _) => version_info(dialect),
        // Any JSON at all: nothing can be said.
        _ => json!({}),
    }
}

fn version_info(dialect: OpenApiVersion) -> Value {
    let mut properties = serde_json::Map::new();
    for (name, always) in VERSION_FIELDS {
        let mut property = json!({"type": "string"});
        if let Some(text) = k3_descriptions::of_field(VERSION_INFO, name) {
            property["description"] = json!(text);
        }
        if always && dialect == OpenApiVersion::V3 {
            property["default"] = json!("");
        }
        properties.insert(name.to_owned(), property);
    }
    let required: Vec<_> = VERSION_FIELDS
        .iter()
        .filter(|(_, always)| *always)
        .map(|(name, _)| name)
        .collect();
    json!({"type": "object", "properties": properties, "required": required})
}
