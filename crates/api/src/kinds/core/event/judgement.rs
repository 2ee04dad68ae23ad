//! What is wrong with an event.

use serde_json::Value;

use super::form::{Form, field, text};
use crate::{
    field::{BadValue, Error, Path},
    kinds::{field_checks::push_invalid, go_values},
    name,
    strategy::{ErrorList, Tree},
};

const MAX_NOTE: usize = 1024;
const MAX_WORD: usize = 128;

/// What is asked of the events of both groups.
pub(super) fn loosely(errors: &mut ErrorList, event: &Value, form: Form) {
    let namespace = event.at("metadata").text("namespace");
    let about = field(event, "involvedObject").text("namespace");
    let is_new = event.has("eventTime");
    let fits = match (about, is_new) {
        ("", false) => matches!(namespace, "" | "default"),
        (about, false) => namespace == about,
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (_, true) => true,
    };
    if !fits {
        let root = Path::new("involvedObject");
        let detail = "does not match event.namespace";
        errors.push(Error::invalid(&root.child("namespace"), about, detail));
    }
    if !is_new {
        return;
    }
    let field_path = match form {
        Form::Core => Path::new("reportingComponent"),
        Form::Events => Path::new("reportingController"),
    };
    let reporter = text(event, "reportingComponent");
    if reporter.is_empty() {
        errors.push(Error::required(&field_path, ""));
    }
    push_invalid(reporter, name::validate_label_key(reporter), &field_path, errors);
    for name in ["reportingInstance", "action", "reason"] {
        let value = event.text(name);
        if value.is_empty() {
            errors.push(Error::required(&Path::new(name), ""));
        }
        too_long(errors, name, value, MAX_WORD);
    }
    too_long(errors, "message", text(event, "message"), MAX_NOTE);
}

/// What is asked of new events of `events.k8s.io` beside that.
pub(super) fn strictly(errors: &mut ErrorList, event: &Value) {
    series(errors, event);
    if !event.has("eventTime") {
        errors.push(Error::required(&Path::new("eventTime"), ""));
    }
    let ty = event.text("type");
    if !matches!(ty, "Normal" | "Warning") {
        let detail = format!("has invalid value: {ty}");
        errors.push(Error::invalid(&Path::new("type"), "", detail));
    }
    let source = field(event, "source");
    let set = [
        ("firstTimestamp", !field(event, "firstTimestamp").is_null()),
        ("lastTimestamp", !field(event, "lastTimestamp").is_null()),
        ("count", field(event, "count").as_i64().unwrap_or_default() != 0),
        (
            "source",
            !source.text("component").is_empty() || !source.text("host").is_empty(),
        ),
    ];
    for (name, set) in set {
        if set {
            errors.push(Error::invalid(&Path::new(name), "", "needs to be unset"));
        }
    }
}

/// What may not change in events of `events.k8s.io`.
pub(super) fn unchanged(errors: &mut ErrorList, new: &Value, old: &Value) {
    if new.at("series") != old.at("series") {
        series(errors, new);
    }
    for name in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        let after = field(new, name);
        let before = field(old, name);
        if !same(after, before) {
            let field_path = if name == "reportingComponent" {
                "reportingController"
            } else {
                name
            };
            let shown = shown(name, after);
            errors.push(Error::invalid(
                &Path::new(field_path),
                shown,
                "field is immutable",
            ));
        }
    }
}

fn too_long(errors: &mut ErrorList, name: &str, value: &str, most: usize) {
    if value.len() > most {
        let detail = format!("can have at most {most} characters");
        errors.push(Error::invalid(&Path::new(name), "", detail));
    }
}

fn series(errors: &mut ErrorList, event: &Value) {
    let series = event.at("series");
    if series.is_null() {
        return;
    }
    if series.int("count").unwrap_or_default() < 2 {
        errors.push(Error::invalid(
            &Path::new("series.count"),
            "",
            "should be at least 2",
        ));
    }
    if !series.has("lastObservedTime") {
        errors.push(Error::required(&Path::new("series.lastObservedTime"), ""));
    }
}

/// Whether two values mean the same: nothing is the same as something empty.
fn same(a: &Value, b: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    a == b || (empty(a) && empty(b))
}

fn shown(name: &str, value: &Value) -> BadValue {
    match (name, value) {
        ("involvedObject", _) | ("related", Value::Object(_)) => {
            BadValue::Printed(go_values::internal_json("core", "ObjectReference", value))
        }
        ("source", _) => BadValue::Printed(go_values::internal_json("core", "EventSource", value)),
        ("count", _) => BadValue::Integer(value.as_i64().unwrap_or_default()),
        ("related" | "firstTimestamp" | "lastTimestamp" | "eventTime", _) => go_values::json_value(value),
        _ => BadValue::Text(value.as_str().unwrap_or_default().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(judge: impl Fn(&mut ErrorList)) -> Vec<String> {
        let mut errors = ErrorList::new();
        judge(&mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_old_event_is_of_the_namespace_it_is_about() {
        let event = |namespace: &str, about: &str| json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": about}});
        for (namespace, about, count) in [("default", "", 0), ("a", "a", 0), ("a", "", 1), ("a", "b", 1)] {
            let event = event(namespace, about);
            assert_eq!(
                messages(|errors| loosely(errors, &event, Form::Core)).len(),
                count
            );
        }
    }

    #[test]
    fn a_new_event_says_who_and_why() {
        let event = json!({"metadata": {"namespace": "default"}, "eventTime": "2020-01-01T00:00:00.000000Z"});
        let places = |form| -> Vec<String> {
            let mut errors = ErrorList::new();
            loosely(&mut errors, &event, form);
            let mut places: Vec<_> = errors.into_iter().map(|error| error.field).collect();
            places.dedup();
            places
        };
        let rest = ["reportingInstance", "action", "reason"];
        assert_eq!(places(Form::Core), [&["reportingComponent"][..], &rest].concat());
        assert_eq!(
            places(Form::Events),
            [&["reportingController"][..], &rest].concat()
        );
    }

    #[test]
    fn changes_are_told_under_the_names_of_the_core_group() {
        let old = json!({"note": "a", "regarding": {"kind": "Pod"}, "deprecatedCount": 0});
        let new = json!({"note": "b", "regarding": {"kind": "Node"}, "series": {"count": 1}});
        assert_eq!(
            messages(|errors| unchanged(errors, &new, &old)),
            [
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "involvedObject: Invalid value: {\"Kind\":\"Node\",\"Namespace\":\"\",\"Name\":\"\",\"UID\":\"\",\
                 \"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
                "message: Invalid value: \"b\": field is immutable",
            ]
        );
    }
}
