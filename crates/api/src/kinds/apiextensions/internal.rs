//! Values as errors show them that stem from types without names for JSON: every field is there, in the order of its
//! declaration, under the name it has in the source.

use serde_json::{Map, Value};

use crate::{go, strategy::Tree};

/// A field: its name in JSON, its name in the source, what it is.
pub(super) struct Field(pub(super) &'static str, pub(super) &'static str, pub(super) Form);

/// What a field is, which says how it is printed when it is not there.
pub(super) enum Form {
    /// A text.
    Text,
    /// A number.
    Number,
    /// Yes or no.
    Flag,
    /// Anything that is `null` if it is not there, and has no fields.
    Plain,
    /// An object that may be absent.
    Pointer(&'static [Field]),
    /// A list of objects.
    List(&'static [Field]),
    /// Objects by name.
    Map(&'static [Field]),
    /// Something with a form of its own.
    Other(fn(&Value) -> String),
}

/// An object with these fields.
pub(super) fn print(value: &Value, fields: &'static [Field]) -> String {
    let mut text = String::from("{");
    for (index, Field(name, source, form)) in fields.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.extend(["\"", source, "\":", &form.print(value.at(name))]);
    }
    text.push('}');
    text
}

/// A list of objects with these fields.
pub(super) fn print_list(items: &[Value], fields: &'static [Field]) -> String {
    let items: Vec<_> = items.iter().map(|item| print(item, fields)).collect();
    format!("[{}]", items.join(","))
}

/// Objects by name.
pub(super) fn print_map(items: &Map<String, Value>, fields: &'static [Field]) -> String {
    let items: Vec<_> = items
        .iter()
        .map(|(name, item)| format!("{}:{}", go::json_string(name), print(item, fields)))
        .collect();
    format!("{{{}}}", items.join(","))
}

// --- Form ---

impl Form {
    fn print(&self, value: &Value) -> String {
        match (self, value) {
            (Form::Text, Value::Null) => "\"\"".to_owned(),
            (Form::Number, Value::Null) => "0".to_owned(),
            (Form::Flag, Value::Null) => "false".to_owned(),
            (_, Value::Null) => "null".to_owned(),
            (Form::Pointer(fields), _) => print(value, fields),
            (Form::List(fields), Value::Array(items)) => print_list(items, fields),
            (Form::Map(fields), Value::Object(items)) => print_map(items, fields),
            (Form::Other(print), _) => print(value),
            _ => go::json(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static NODE: [Field; 4] = [
        Field("name", "Name", Form::Text),
        Field("on", "On", Form::Flag),
        Field("next", "Next", Form::Pointer(&NODE)),
        Field("all", "All", Form::List(&NODE)),
    ];

    #[test]
    fn every_field_is_shown_in_the_order_of_its_declaration() {
        let node = json!({"next": {"on": true}, "name": "a", "all": [{"name": "<"}]});
        assert_eq!(
            print(&node, &NODE),
            "{\"Name\":\"a\",\"On\":false,\"Next\":{\"Name\":\"\",\"On\":true,\"Next\":null,\"All\":null},\
             \"All\":[{\"Name\":\"\\u003c\",\"On\":false,\"Next\":null,\"All\":null}]}"
        );
    }
}
