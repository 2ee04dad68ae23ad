//! Compares answers with what is expected of them.

use serde_json::{Map, Value};

use crate::script::Exactness;

/// A value that any value matches, and a part of a text that any text matches.
const ANY: &str = "<any>";

/// The value of fields that must be absent.
const ABSENT: &str = "<absent>";

/// The first item of a list of which each other item must be somewhere in the answer's list.
const CONTAINS: &str = "<contains>";

/// Whether a part of a text has the form of its placeholder.
type Check = fn(&str) -> bool;

/// Parts of texts that differ from run to run, and what must be in their place.
const PLACEHOLDERS: [(&str, Check); 4] = [
    (ANY, |_| true),
    ("<uid>", is_uid),
    ("<rv>", |text| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
    }),
    ("<time>", is_time),
];

/// Where an answer differs, a line each.
pub(crate) fn differences(expected: &Value, actual: &Value, exactness: Exactness) -> Vec<String> {
    let mut found = Vec::new();
    compare(expected, Some(actual), exactness, "", &mut found);
    found
}

fn compare(
    expected: &Value,
    actual: Option<&Value>,
    exactness: Exactness,
    path: &str,
    found: &mut Vec<String>,
) {
    if expected == ABSENT {
        if let Some(actual) = actual {
            found.push(format!("{path}: must be absent, but is {actual}"));
        }
        return;
    }
    let Some(actual) = actual else {
        found.push(format!("{path}: missing; expected {expected}"));
        return;
    };
    match (expected, actual) {
        (Value::String(pattern), _) if pattern == ANY => {}
        (Value::String(pattern), Value::String(text)) if matches_text(pattern, text) => {}
        (Value::Object(expected), Value::Object(actual)) => {
            compare_objects(expected, actual, exactness, path, found);
        }
        (Value::Array(expected), Value::Array(actual)) => {
            compare_lists(expected, actual, exactness, path, found);
        }
        _ if expected == actual => {}
        _ => found.push(format!("{path}: expected {expected}, but it is {actual}")),
    }
}

fn compare_objects(
    expected: &Map<String, Value>,
    actual: &Map<String, Value>,
    exactness: Exactness,
    path: &str,
    found: &mut Vec<String>,
) {
    for (name, value) in expected {
        compare(
            value,
            actual.get(name),
            exactness,
            &format!("{path}.{name}"),
            found,
        );
    }
    if exactness == Exactness::Exact {
        for (name, value) in actual {
            if !expected.contains_key(name) {
                found.push(format!("{path}.{name}: not expected, but is {value}"));
            }
        }
    }
}

fn compare_lists(
    expected: &[Value],
    actual: &[Value],
    exactness: Exactness,
    path: &str,
    found: &mut Vec<String>,
) {
    if let [first, wanted @ ..] = expected
        && first == CONTAINS
    {
        for item in wanted {
            if !actual
                .iter()
                .any(|actual| differences(item, actual, exactness).is_empty())
            {
                found.push(format!("{path}: no item is {item}"));
            }
        }
        return;
    }
    if expected.len() != actual.len() {
        let actual = Value::Array(actual.to_vec());
        found.push(format!("{path}: expected {} items: {actual}", expected.len()));
        return;
    }
    for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        compare(
            expected,
            Some(actual),
            exactness,
            &format!("{path}[{index}]"),
            found,
        );
    }
}

/// Whether a text matches a pattern with placeholders.
pub(crate) fn matches_text(pattern: &str, text: &str) -> bool {
    let first = PLACEHOLDERS
        .iter()
        .filter_map(|(name, allows)| Some((pattern.find(name)?, *name, *allows)))
        .min_by_key(|(at, ..)| *at);
    let Some((at, name, allows)) = first else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(&pattern[..at]) else {
        return false;
    };
    let rest = &pattern[at + name.len()..];
    (0..=text.len())
        .filter(|end| text.is_char_boundary(*end))
        .any(|end| allows(&text[..end]) && matches_text(rest, &text[end..]))
}

fn is_uid(text: &str) -> bool {
    has_shape(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
}

fn is_time(text: &str) -> bool {
    let Some(text) = text.strip_suffix('Z') else {
        return false;
    };
    let seconds = text.split('.').next().unwrap_or_default();
    let fraction = text[seconds.len()..].trim_start_matches('.');
    has_shape(seconds, "dddd-dd-ddTdd:dd:dd") && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text has digits where the shape has `d`, hexadecimal ones where it has `x`, and else the same characters.
fn has_shape(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text
            .chars()
            .zip(shape.chars())
            .all(|(character, shape)| match shape {
                'd' => character.is_ascii_digit(),
                'x' => character.is_ascii_hexdigit(),
                _ => character == shape,
            })
}

/// An answer as an update writes it: with placeholders for what differs from run to run, and without managedFields.
pub(crate) fn with_placeholders(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "managedFields")
            .map(|(name, value)| match value {
                Value::String(_) if name == "resourceVersion" => (name.clone(), Value::from("<rv>")),
                _ => (name.clone(), with_placeholders(value)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(with_placeholders).collect(),
        Value::String(text) if is_uid(text) => Value::from("<uid>"),
        Value::String(text) if is_time(text) => Value::from("<time>"),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subset(expected: &Value, actual: &Value) -> Vec<String> {
        differences(expected, actual, Exactness::Subset)
    }

    #[test]
    fn reports_each_difference_with_its_path() {
        let expected = json!({"a": {"b": [1, {"c": "x"}]}, "d": "<absent>", "e": 1});
        let actual = json!({"a": {"b": [1, {"c": "y"}], "more": 1}, "d": null});
        assert_eq!(
            subset(&expected, &actual),
            [
                ".a.b[1].c: expected \"x\", but it is \"y\"",
                ".d: must be absent, but is null",
                ".e: missing; expected 1",
            ]
        );
        assert!(subset(&json!({"a": {}}), &actual).is_empty());
        let exact = differences(
            &json!({"a": {"b": "<any>"}, "d": null}),
            &actual,
            Exactness::Exact,
        );
        assert_eq!(exact, [".a.more: not expected, but is 1"]);
    }

    #[test]
    fn lists_have_the_expected_length_or_contain_items() {
        let actual = json!([{"n": 1, "m": 1}, {"n": 2}]);
        assert_eq!(subset(&json!([{"n": 1}]), &actual).len(), 1);
        assert!(subset(&json!([{"n": 1}, {}]), &actual).is_empty());
        assert!(subset(&json!(["<contains>", {"n": 2}, {"m": 1}]), &actual).is_empty());
        assert_eq!(
            subset(&json!(["<contains>", {"n": 3}]), &actual),
            [": no item is {\"n\":3}"]
        );
    }

    #[test]
    fn placeholders_stand_for_texts_of_their_kind() {
        for (pattern, text, expected) in [
            ("a <any> c", "a b c", true),
            ("a <any> c", "a b", false),
            ("<rv>", "12", true),
            ("<rv>", "", false),
            ("<rv>", "1a", false),
            ("UID: <uid>.", "UID: 01234567-89ab-cdef-0123-456789abcdef.", true),
            ("UID: <uid>.", "UID: 01234567-89ab-cdef-0123-456789abcdeg.", false),
            ("<time>", "2026-01-02T03:04:05Z", true),
            ("<time>", "2026-01-02T03:04:05.000006Z", true),
            ("<time>", "2026-01-02 03:04:05Z", false),
            ("plain", "plain", true),
            ("plain", "plainer", false),
        ] {
            assert_eq!(matches_text(pattern, text), expected, "{pattern} {text}");
        }
        assert!(subset(&json!("<any>"), &json!({"a": 1})).is_empty());
        assert_eq!(subset(&json!("<rv>"), &json!(12)).len(), 1);
    }

    #[test]
    fn updates_write_placeholders() {
        let answer = json!({
            "metadata": {"uid": "01234567-89ab-cdef-0123-456789abcdef", "resourceVersion": "7", "managedFields": []},
            "times": ["2026-01-02T03:04:05Z"],
        });
        let expected = json!({"metadata": {"uid": "<uid>", "resourceVersion": "<rv>"}, "times": ["<time>"]});
        assert_eq!(with_placeholders(&answer), expected);
    }
}
