//! Label selectors as fields of objects: judged, shown in errors, shown in tables.

use serde_json::Value;

use crate::{
    field::{Path, BadValue},
    go,
    strategy::{ErrorList, Tree},
    selector::label::{self, InvalidValues, Selector, UnknownOperators},
};

/// What is wrong with a selector. Nothing is wrong with none.
pub(super) fn validate(selector: &Value, values: InvalidValues, at: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(label::validate(at, selector, values, UnknownOperators::Refused));
}

/// Values that can be no label are taken where the old selector has some.
pub(super) fn as_before(old: &Value) -> InvalidValues {
    let bad = |text: &str| !crate::name::validate_label_value(text).is_empty();
    let known = old
        .items("matchExpressions")
        .iter()
        .any(|one| one.texts("values").any(bad));
    if known {
        InvalidValues::Taken
    } else {
        InvalidValues::Refused
    }
}

/// Whether a selector asks for nothing, and so would take every pod there is.
pub(super) fn is_empty(selector: &Value) -> bool {
    selector.entries("matchLabels").is_empty() && selector.items("matchExpressions").is_empty()
}

/// A selector in an error: labels come first.
pub(super) fn shown(selector: &Value) -> BadValue {
    BadValue::Printed(printed(selector))
}

/// A selector as JSON, labels first.
pub(super) fn printed(selector: &Value) -> String {
    if selector.is_null() {
        return "null".to_owned();
    }
    let fields: Vec<_> = ["matchLabels", "matchExpressions"]
        .iter()
        .filter(|name| selector.has(name))
        .map(|name| format!("\"{name}\":{}", go::json(selector.at(name))))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// A selector in a table.
pub(super) fn cell(selector: &Value) -> Value {
    let text = match Selector::from_object(Some(selector)) {
        Ok(selector) => selector.to_string(),
        Err(_) => "<error>".to_owned(),
    };
    Value::String(if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    })
}

/// Plain labels in a table.
pub(super) fn labels_cell(labels: &Value) -> Value {
    let text = Selector::from_labels(Some(labels)).to_string();
    Value::String(if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_stand_before_expressions() {
        let selector = json!({
            "matchExpressions": [{"key": "b", "operator": "In", "values": ["<x>"]}],
            "matchLabels": {"a": "1"},
        });
        assert_eq!(
            printed(&selector),
            r#"{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"In","values":["\u003cx\u003e"]}]}"#
        );
        assert_eq!(printed(&Value::Null), "null");
    }

    #[test]
    fn cells_name_what_is_selected() {
        assert_eq!(
            cell(&json!({"matchLabels": {"b": "2", "a": "1"}})),
            json!("a=1,b=2")
        );
        assert_eq!(cell(&Value::Null), json!("<none>"));
        assert_eq!(
            cell(&json!({"matchExpressions": [{"key": "a", "operator": "Like"}]})),
            json!("<error>")
        );
        assert_eq!(labels_cell(&json!({"b": "2", "a": ""})), json!("a=,b=2"));
        assert_eq!(labels_cell(&Value::Null), json!("<none>"));
    }
}
