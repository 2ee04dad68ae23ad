//! Values of internal types in error messages: the types have no JSON tags, so every field shows, in declaration order, under its
//! Go name.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go ErrorBody

use serde_json::{Map, Value};

use crate::{go, strategy::Tree};

/// A field: its JSON name, its Go name, its type.
pub(super) struct Field(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) FieldType,
);

/// The Go type of a field, which decides its zero value.
pub(super) enum FieldType {
    /// string
    Text,
    /// A number.
    Number,
    /// bool
    Flag,
    /// A pointer, slice or map that is `null` if absent, without fields of its own.
    Plain,
    /// A pointer to a struct.
    Pointer(&'static [Field]),
    /// A list of structs.
    List(&'static [Field]),
    /// A map of structs.
    Map(&'static [Field]),
    /// A type with a custom printer.
    Other(fn(&Value) -> String),
}

/// A struct with these fields.
pub(super) fn struct_json(value: &Value, fields: &'static [Field]) -> String {
    let mut text = String::from("{");
    for (index, Field(name, source, form)) in fields.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.extend(["\"", source, "\":", &form.json(value.at(name))]);
    }
    text.push('}');
    text
}

/// A list of structs with these fields.
pub(super) fn list_json(items: &[Value], fields: &'static [Field]) -> String {
    let items: Vec<_> = items.iter().map(|item| struct_json(item, fields)).collect();
    format!("[{}]", items.join(","))
}

/// A map of structs.
pub(super) fn map_json(items: &Map<String, Value>, fields: &'static [Field]) -> String {
    let items: Vec<_> = items
        .iter()
        .map(|(name, item)| format!("{}:{}", go::json_string(name), struct_json(item, fields)))
        .collect();
    format!("{{{}}}", items.join(","))
}

// --- Form ---

impl FieldType {
    fn json(&self, value: &Value) -> String {
        match (self, value) {
            (FieldType::Text, Value::Null) => "\"\"".to_owned(),
            (FieldType::Number, Value::Null) => "0".to_owned(),
            (FieldType::Flag, Value::Null) => "false".to_owned(),
            (_, Value::Null) => "null".to_owned(),
            (FieldType::Pointer(fields), _) => struct_json(value, fields),
            (FieldType::List(fields), Value::Array(items)) => list_json(items, fields),
            (FieldType::Map(fields), Value::Object(items)) => map_json(items, fields),
            (FieldType::Other(print), _) => print(value),
            _ => go::json(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static NODE: [Field; 4] = [
        Field("name", "Name", FieldType::Text),
        Field("on", "On", FieldType::Flag),
        Field("next", "Next", FieldType::Pointer(&NODE)),
        Field("all", "All", FieldType::List(&NODE)),
    ];

    #[test]
    fn prints_every_field_in_declaration_order() {
        let node = json!({"next": {"on": true}, "name": "a", "all": [{"name": "<"}]});
        assert_eq!(
            struct_json(&node, &NODE),
            "{\"Name\":\"a\",\"On\":false,\"Next\":{\"Name\":\"\",\"On\":true,\"Next\":null,\"All\":null},\
             \"All\":[{\"Name\":\"\\u003c\",\"On\":false,\"Next\":null,\"All\":null}]}"
        );
    }
}
