//! `LabelSelector` fields of objects: validation, and their text in errors and tables.

use serde_json::Value;

use crate::{
    field::{BadValue, Path},
    go,
    selector::label::{self, InvalidValues, UnknownOperators},
    strategy::{ErrorList, Tree},
};

/// Validates a selector. An absent one is valid.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go ValidateLabelSelector
pub(super) fn validate_label_selector(
    selector: &Value,
    values: InvalidValues,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    errors.extend(label::validate(at, selector, values, UnknownOperators::Refused));
}

/// Tolerates values that are no valid label where the old selector already has some.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go LabelSelectorHasInvalidLabelValue
pub(super) fn tolerate_invalid_values_of(old: &Value) -> InvalidValues {
    let bad = |text: &str| !crate::name::validate_label_value(text).is_empty();
    let already_invalid = old
        .items("matchExpressions")
        .iter()
        .any(|one| one.texts("values").any(bad));
    if already_invalid {
        InvalidValues::Taken
    } else {
        InvalidValues::Refused
    }
}

/// Whether a selector has no requirement, and so would match every pod.
pub(super) fn is_empty(selector: &Value) -> bool {
    selector.entries("matchLabels").is_empty() && selector.items("matchExpressions").is_empty()
}

/// A selector as the value of a field error.
pub(super) fn error_value(selector: &Value) -> BadValue {
    BadValue::Printed(to_go_json(selector))
}

/// A selector as JSON in the order of the Go struct: matchLabels first.
pub(super) fn to_go_json(selector: &Value) -> String {
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
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go FormatLabelSelector
pub(super) fn format_label_selector(selector: &Value) -> Value {
    let text = match label::from_object(Some(selector)) {
        Ok(selector) => selector.to_string(),
        Err(_) => "<error>".to_owned(),
    };
    Value::String(if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    })
}

/// A plain map of labels in a table.
pub(super) fn format_labels(labels: &Value) -> Value {
    let text = label::from_labels(Some(labels)).to_string();
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
    fn prints_match_labels_first() {
        let selector = json!({
            "matchExpressions": [{"key": "b", "operator": "In", "values": ["<x>"]}],
            "matchLabels": {"a": "1"},
        });
        assert_eq!(
            to_go_json(&selector),
            r#"{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"In","values":["\u003cx\u003e"]}]}"#
        );
        assert_eq!(to_go_json(&Value::Null), "null");
    }

    #[test]
    fn formats_selectors_for_tables() {
        assert_eq!(
            format_label_selector(&json!({"matchLabels": {"b": "2", "a": "1"}})),
            json!("a=1,b=2")
        );
        assert_eq!(format_label_selector(&Value::Null), json!("<none>"));
        assert_eq!(
            format_label_selector(&json!({"matchExpressions": [{"key": "a", "operator": "Like"}]})),
            json!("<error>")
        );
        assert_eq!(format_labels(&json!({"b": "2", "a": ""})), json!("a=,b=2"));
        assert_eq!(format_labels(&Value::Null), json!("<none>"));
    }
}
