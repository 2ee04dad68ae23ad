//! The formats of texts and numbers that values are judged by.

use std::collections::HashSet;

use serde_json::Value;

use super::{form::Form, schema};
use crate::{go, rules::Tree};

/// The formats of texts, without dashes.
const TEXTS: [&str; 26] = [
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

/// What a user should know of the schemas of a definition: formats that nobody judges, and sets that no client merges.
pub(super) fn warnings(spec: &Value) -> Vec<String> {
    let mut formats = Vec::new();
    let mut sets = Vec::new();
    for whole in Form::of(spec).schemas() {
        schema::any(whole, &mut |one| {
            let format = one.text("format");
            if !format.is_empty() && !is_known(one.text("type"), format) {
                formats.push(format!("unrecognized format {}", go::quote(format)));
            }
            let items = schema::items(one).map_or("", |items| items.text("type"));
            if one.text("x-kubernetes-list-type") == "set" && matches!(items, "object" | "array") {
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

fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => TEXTS.contains(&format.replace('-', "").as_str()),
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
    fn a_format_that_nobody_judges_is_told_once() {
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
