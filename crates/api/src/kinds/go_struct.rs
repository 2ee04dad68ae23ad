//! How errors show a part of an object: as the Go struct that upstream keeps it in, under the names and in the order
//! that are declared there, with everything that is empty.

use serde_json::Value;

use super::label_selector;
use crate::{field::Shown, go, rules::Tree};

/// A field of a struct.
pub(super) struct Field {
    /// Its name in Go.
    go: &'static str,
    /// Its name in objects.
    json: &'static str,
    of: Of,
}

enum Of {
    /// What is shown if it is not there; else it is shown as it is.
    Plain(&'static str),
    /// A struct, or `null`.
    Pointer(&'static [Field]),
    /// A list of structs, or `null`.
    List(&'static [Field]),
    /// A label selector, or `null`.
    Selector,
}

/// A part of an object as an error shows it; `null` if it is not there.
pub(super) fn shown(fields: &'static [Field], value: &Value) -> Shown {
    Shown::Printed(printed(fields, value))
}

/// The text of such a value.
pub(super) fn printed(fields: &'static [Field], value: &Value) -> String {
    let mut out = String::new();
    push_or_null(&mut out, fields, value);
    out
}

// --- Field ---

impl Field {
    const fn new(go: &'static str, json: &'static str, of: Of) -> Self {
        Field { go, json, of }
    }

    /// A text.
    pub(super) const fn text(go: &'static str, json: &'static str) -> Self {
        Self::new(go, json, Of::Plain("\"\""))
    }

    /// A number, or an amount that is never left open.
    pub(super) const fn number(go: &'static str, json: &'static str) -> Self {
        Self::new(go, json, Of::Plain("0"))
    }

    /// Anything simple that may be `null`.
    pub(super) const fn nullable(go: &'static str, json: &'static str) -> Self {
        Self::new(go, json, Of::Plain("null"))
    }

    /// A struct or `null`.
    pub(super) const fn pointer(go: &'static str, json: &'static str, fields: &'static [Field]) -> Self {
        Self::new(go, json, Of::Pointer(fields))
    }

    /// A list of structs or `null`.
    pub(super) const fn list(go: &'static str, json: &'static str, fields: &'static [Field]) -> Self {
        Self::new(go, json, Of::List(fields))
    }

    /// A label selector or `null`.
    pub(super) const fn selector(go: &'static str, json: &'static str) -> Self {
        Self::new(go, json, Of::Selector)
    }

    fn push(&self, out: &mut String, object: &Value) {
        let value = object.at(self.json);
        match &self.of {
            Of::Plain(zero) if value.is_null() => out.push_str(zero),
            Of::Plain(_) => out.push_str(&go::json(value)),
            Of::Pointer(fields) => push_or_null(out, fields, value),
            Of::List(fields) => match value.as_array() {
                None => out.push_str("null"),
                Some(items) => {
                    out.push('[');
                    for (index, item) in items.iter().enumerate() {
                        if index > 0 {
                            out.push(',');
                        }
                        push(out, fields, item);
                    }
                    out.push(']');
                }
            },
            Of::Selector => out.push_str(&label_selector::printed(value)),
        }
    }
}

fn push_or_null(out: &mut String, fields: &'static [Field], value: &Value) {
    if value.is_null() {
        out.push_str("null");
    } else {
        push(out, fields, value);
    }
}

fn push(out: &mut String, fields: &'static [Field], value: &Value) {
    out.push('{');
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push('"');
        out.push_str(field.go);
        out.push_str("\":");
        field.push(out, value);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RULE: &[Field] = &[
        Field::nullable("Values", "values"),
        Field::number("Count", "count"),
    ];
    const POLICY: &[Field] = &[
        Field::text("Type", "type"),
        Field::list("Rules", "rules", RULE),
        Field::pointer("Other", "other", RULE),
        Field::selector("Selector", "selector"),
    ];

    #[test]
    fn everything_is_shown_in_the_order_it_is_declared() {
        let value = json!({"rules": [{"values": [2, 1]}], "selector": {"matchLabels": {"a": "b"}}});
        assert_eq!(
            printed(POLICY, &value),
            r#"{"Type":"","Rules":[{"Values":[2,1],"Count":0}],"Other":null,"Selector":{"matchLabels":{"a":"b"}}}"#
        );
        assert_eq!(printed(POLICY, &Value::Null), "null");
    }
}
