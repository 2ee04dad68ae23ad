//! `format` of strings and numbers in schemas.

use std::collections::HashSet;

use serde_json::Value;

use super::{internal_spec::InternalSpec, schema};
use crate::{go, strategy::Tree};

/// The supported string formats, without dashes.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go supportedFormats
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Warnings about schemas: unrecognized formats, and sets of objects or arrays.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go getUnrecognizedFormatsInCRD, getNonScalarListTypeSetWarnings
pub(super) fn warnings(spec: &Value) -> Vec<String> {
    let mut formats = Vec::new();
    let mut sets = Vec::new();
    for whole in InternalSpec::from_spec(spec).schemas() {
        schema::schema_has(whole, &mut |level| {
            let format = level.text("format");
            if !format.is_empty() && !is_supported_format(level.text("type"), format) {
                formats.push(format!("unrecognized format {}", go::quote(format)));
            }
            let items = schema::items(level).map_or("", |items| items.text("type"));
            if level.text("x-kubernetes-list-type") == "set" && matches!(items, "object" | "array") {
                sets.push(format!(
                    "x-kubernetes-list-type: set for items of type \"{items}\" is not supported by server-side apply or \
                     CEL validation rules"
                ));
            }
            false
        });
    }
    sets.sort();
    let mut seen = HashSet::new();
    let all = formats.into_iter().chain(sets);
    all.filter(|warning| seen.insert(warning.clone())).collect()
}

fn is_supported_format(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warns_once_of_unrecognized_formats() {
        let schema = json!({"openAPIV3Schema": {"properties": {
            "a": {"type": "string", "format": "date-time"},
            "b": {"type": "string", "format": "bogus"},
            "c": {"items": {"type": "integer", "format": "float"}},
            "d": {"not": {"format": "bogus"}},
        }}});
        let spec = json!({"versions": [{"name": "v1", "schema": schema}]});
        assert_eq!(
            warnings(&spec),
            ["unrecognized format \"bogus\"", "unrecognized format \"float\""]
        );
    }
}
