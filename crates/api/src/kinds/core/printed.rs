//! Values as errors print them that are neither plain texts nor plain numbers: texts of a type of their own, and
//! records, whose fields have other names and another order in errors than in objects.

use serde_json::Value;

use crate::{field::Shown, go, rules::Tree};

/// A text of a type of its own: written as JSON, so that markup in it is escaped.
pub(in crate::kinds) fn word(text: &str) -> Shown {
    Shown::Printed(go::json_string(text))
}

/// A value as JSON; `null` if it is not there.
pub(in crate::kinds) fn value(value: &Value) -> Shown {
    Shown::Printed(go::json(value))
}

/// The type of a field of a record, which tells what is printed when it is not there.
#[derive(Clone, Copy)]
pub(in crate::kinds) enum Empty {
    Text,
    Null,
}

/// A record: the name of each field in errors, its name in objects, and what stands for it when it is not there.
pub(in crate::kinds) fn record(object: &Value, fields: &[(&str, &str, Empty)]) -> String {
    let fields: Vec<_> = fields
        .iter()
        .map(|(shown, name, empty)| {
            let text = match (object.at(name), empty) {
                (Value::Null, Empty::Text) => "\"\"".to_owned(),
                (value, _) => go::json(value),
            };
            format!("\"{shown}\":{text}")
        })
        .collect();
    format!("{{{}}}", fields.join(","))
}
