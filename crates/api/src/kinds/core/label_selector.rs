//! Label selectors as errors show them.

use serde_json::Value;

use crate::{field::Shown, go, rules::Tree};

/// A selector as errors show it, its fields in the order upstream declares; `null` if it is not there.
pub(crate) fn shown(selector: &Value) -> Shown {
    Shown::Printed(printed(selector))
}

/// The text of such a selector.
pub(crate) fn printed(selector: &Value) -> String {
    if selector.is_null() {
        return "null".to_owned();
    }
    let mut fields = Vec::new();
    if selector.has("matchLabels") {
        fields.push(format!(
            "\"matchLabels\":{}",
            go::json(selector.at("matchLabels"))
        ));
    }
    let terms: Vec<_> = selector
        .items("matchExpressions")
        .iter()
        .map(printed_term)
        .collect();
    if !terms.is_empty() {
        fields.push(format!("\"matchExpressions\":[{}]", terms.join(",")));
    }
    format!("{{{}}}", fields.join(","))
}

fn printed_term(term: &Value) -> String {
    let values = if term.items("values").is_empty() {
        String::new()
    } else {
        format!(",\"values\":{}", go::json(term.at("values")))
    };
    format!(
        "{{\"key\":{},\"operator\":{}{values}}}",
        go::json_string(term.text("key")),
        go::json_string(term.text("operator")),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_come_in_the_order_of_their_type() {
        let selector = json!({
            "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
            "matchLabels": {"b": "c", "a": "b"},
        });
        assert_eq!(
            printed(&selector),
            r#"{"matchLabels":{"a":"b","b":"c"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}"#
        );
        assert_eq!(printed(&Value::Null), "null");
    }
}
