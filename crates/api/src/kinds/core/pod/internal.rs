//! Pods in error messages: upstream marshals the internal types, which have no JSON tags, so every field shows under its Go name in
//! declaration order.
//!
//! A table lists the fields of each type and what they hold: `s` string, `n` number, `b` bool, `q` quantity, `p` IntOrString port,
//! `[]` list, `{}` map, `*` pointer; the name of a type is that type, `+` embeds the fields of another type, `?` omits an absent
//! field. `Name=key` gives the JSON key.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go ErrorBody

use std::{collections::HashMap, sync::OnceLock};

use serde_json::Value;

use crate::{field::BadValue, go, strategy::Tree};

const TABLE: &str = include_str!("internal.txt");

/// A value of a type for an error, on one line.
pub(crate) fn internal_value(ty: &str, value: &Value) -> BadValue {
    let mut out = String::new();
    node(ty, value).compact(&mut out);
    BadValue::Printed(out)
}

/// A list of values of a type for an error; `null` if absent.
pub(crate) fn internal_list_value(ty: &str, values: &[Value]) -> BadValue {
    let mut out = String::new();
    list(ty, values).compact(&mut out);
    BadValue::Printed(out)
}

/// A value of a type, one line per field, for diffs.
pub(super) fn internal_lines(ty: &str, value: &Value) -> String {
    let mut out = String::new();
    node(ty, value).indented(&mut out, 0);
    out
}

struct TypeField {
    name: &'static str,
    key: String,
    holds: &'static str,
    optional: bool,
}

enum InternalFieldTree {
    Leaf(String),
    List(Vec<InternalFieldTree>),
    Object(Vec<(String, InternalFieldTree)>),
}

fn table() -> &'static HashMap<&'static str, Vec<TypeField>> {
    static PARSED: OnceLock<HashMap<&'static str, Vec<TypeField>>> = OnceLock::new();
    PARSED.get_or_init(|| {
        let lines = TABLE.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(ty, columns)| (ty, columns.split(' ').map(TypeField::read).collect()))
            .collect()
    })
}

fn node(ty: &str, value: &Value) -> InternalFieldTree {
    let mut fields = Vec::new();
    collect(ty, value, &mut fields);
    InternalFieldTree::Object(fields)
}

fn collect(ty: &str, value: &Value, fields: &mut Vec<(String, InternalFieldTree)>) {
    for column in table().get(ty).into_iter().flatten() {
        if column.name.is_empty() {
            let inner = if column.key.is_empty() {
                value
            } else {
                value.at(&column.key)
            };
            collect(column.holds, inner, fields);
        } else if !column.optional || value.has(&column.key) {
            fields.push((column.name.to_owned(), column.node(value.at(&column.key))));
        }
    }
}

fn list(ty: &str, items: &[Value]) -> InternalFieldTree {
    if items.is_empty() {
        return InternalFieldTree::Leaf("null".to_owned());
    }
    InternalFieldTree::List(items.iter().map(|item| node(ty, item)).collect())
}

// --- Column ---

impl TypeField {
    fn read(text: &'static str) -> Self {
        if let Some(inner) = text.strip_prefix('+') {
            let (key, holds) = inner.split_once('/').unwrap_or(("", inner));
            return TypeField {
                name: "",
                key: key.to_owned(),
                holds,
                optional: false,
            };
        }
        let (names, holds) = text.split_once(':').expect("each column has a type");
        let optional = names.starts_with('?');
        let names = names.trim_start_matches('?');
        let (name, key) = match names.split_once('=') {
            Some((name, key)) => (name, key.to_owned()),
            None => (names, lower_first(names)),
        };
        TypeField {
            name,
            key,
            holds,
            optional,
        }
    }

    fn node(&self, value: &Value) -> InternalFieldTree {
        let leaf = |zero: &str| {
            InternalFieldTree::Leaf(if value.is_null() {
                zero.to_owned()
            } else {
                go::json(value)
            })
        };
        match self.holds {
            "s" => leaf("\"\""),
            "n" | "p" => leaf("0"),
            "b" => leaf("false"),
            "q" => leaf("\"0\""),
            "*" => leaf("null"),
            "[]" => match value.as_array() {
                Some(items) => InternalFieldTree::List(
                    items
                        .iter()
                        .map(|item| InternalFieldTree::Leaf(go::json(item)))
                        .collect(),
                ),
                None => leaf("null"),
            },
            "{}" => match value.as_object() {
                Some(map) => InternalFieldTree::Object(
                    map.iter()
                        .map(|(key, item)| (key.clone(), InternalFieldTree::Leaf(go::json(item))))
                        .collect(),
                ),
                None => leaf("null"),
            },
            holds => {
                if let Some(ty) = holds.strip_prefix("[]") {
                    list(ty, value.as_array().map_or(&[], Vec::as_slice))
                } else if let Some(ty) = holds.strip_prefix('*') {
                    if value.is_null() {
                        leaf("null")
                    } else {
                        node(ty, value)
                    }
                } else {
                    node(holds, value)
                }
            }
        }
    }
}

fn lower_first(name: &str) -> String {
    let mut chars = name.chars();
    chars
        .next()
        .map(|first| first.to_ascii_lowercase())
        .into_iter()
        .chain(chars)
        .collect()
}

// --- InternalFieldTree ---

impl InternalFieldTree {
    fn compact(&self, out: &mut String) {
        match self {
            InternalFieldTree::Leaf(text) => out.push_str(text),
            InternalFieldTree::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.compact(out);
                }
                out.push(']');
            }
            InternalFieldTree::Object(fields) => {
                out.push('{');
                for (index, (name, item)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&go::json_string(name));
                    out.push(':');
                    item.compact(out);
                }
                out.push('}');
            }
        }
    }

    fn indented(&self, out: &mut String, depth: usize) {
        let (open, close, count) = match self {
            InternalFieldTree::Leaf(text) => return out.push_str(text),
            InternalFieldTree::List(items) => ('[', ']', items.len()),
            InternalFieldTree::Object(fields) => ('{', '}', fields.len()),
        };
        out.push(open);
        let begin = |out: &mut String, index: usize| {
            out.push_str(if index > 0 { ",\n" } else { "\n" });
            out.extend(std::iter::repeat_n(' ', depth + 1));
        };
        match self {
            InternalFieldTree::Leaf(_) => {}
            InternalFieldTree::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    begin(out, index);
                    item.indented(out, depth + 1);
                }
            }
            InternalFieldTree::Object(fields) => {
                for (index, (name, item)) in fields.iter().enumerate() {
                    begin(out, index);
                    out.push_str(&go::json_string(name));
                    out.push_str(": ");
                    item.indented(out, depth + 1);
                }
            }
        }
        if count > 0 {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', depth));
        }
        out.push(close);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::schema::schema;

    const LEAVES: [&str; 8] = ["s", "n", "b", "q", "p", "*", "[]", "{}"];

    /// The type in what a field holds; `None` for a value without fields.
    fn held_type(holds: &'static str) -> Option<&'static str> {
        if LEAVES.contains(&holds) {
            return None;
        }
        let list = holds.strip_prefix("[]");
        let pointer = holds.strip_prefix('*');
        Some(list.or(pointer).unwrap_or(holds))
    }

    /// The JSON names of the fields of a type of the table.
    fn keys(ty: &str) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for field in &table()[ty] {
            if field.name.is_empty() && field.key.is_empty() {
                keys.extend(self::keys(field.holds));
            } else {
                keys.insert(field.key.clone());
            }
        }
        keys
    }

    #[test]
    fn every_line_of_the_table_is_a_type_of_its_own() {
        let lines = TABLE.lines().filter(|line| !line.is_empty()).count();
        assert_eq!(table().len(), lines, "a type without fields, or twice");
    }

    #[test]
    fn types_that_fields_hold_are_in_the_table() {
        for (ty, fields) in table() {
            for held in fields.iter().filter_map(|field| held_type(field.holds)) {
                assert!(
                    table().contains_key(held),
                    "{ty} holds {held}, which is not in the table"
                );
            }
        }
    }

    #[test]
    fn types_that_errors_show_are_in_the_table() {
        let core = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kinds/core");
        let sources = [core.join("pod"), core].map(|directory| std::fs::read_dir(directory).unwrap());
        let mut shown = 0;
        for source in sources.into_iter().flatten() {
            let path = source.unwrap().path();
            if path.ends_with("internal.rs") {
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap_or_default();
            for call in ["internal_value(", "internal_list_value(", "internal_lines("] {
                for argument in text.split(call).skip(1) {
                    let Some(ty) = argument.trim_start().strip_prefix('"') else {
                        continue;
                    };
                    let ty = &ty[..ty.find('"').unwrap()];
                    assert!(table().contains_key(ty), "{ty} is not in the table");
                    shown += 1;
                }
            }
        }
        assert!(shown > 5, "{shown}");
    }

    /// A field that the API does not have would always be shown empty, and one that the table lacks never.
    #[test]
    fn types_have_the_fields_of_the_api() {
        for ty in table().keys() {
            let found = schema()
                .get("core", "v1", ty)
                .or_else(|| schema().get("meta", "v1", ty));
            let found = found.unwrap_or_else(|| panic!("the API has no {ty}"));
            let expected: BTreeSet<_> = found.get().all().map(|field| field.name.to_owned()).collect();
            let actual = keys(ty);
            // Of the metadata of a template only what clients may set is shown.
            if *ty == "ObjectMeta" {
                assert!(actual.is_subset(&expected), "{ty}: {actual:?}");
            } else {
                assert_eq!(actual, expected, "{ty}");
            }
        }
    }

    #[test]
    fn prints_absent_fields_as_zero() {
        let profile = internal_value("SeccompProfile", &json!({"type": "Bogus"}));
        assert_eq!(
            profile,
            BadValue::Printed(r#"{"Type":"Bogus","LocalhostProfile":null}"#.into())
        );
        let pod = json!({"volumes": [{"name": "v", "emptyDir": {}}], "serviceAccount": "x"});
        let text = internal_lines("PodSpec", &pod);
        assert!(text.starts_with(
            "{\n \"Volumes\": [\n  {\n   \"Name\": \"v\",\n   \"HostPath\": null,\n   \"EmptyDir\": {\n"
        ));
        assert!(text.contains(" \"DeprecatedServiceAccount\": \"x\",\n"));
    }
}
