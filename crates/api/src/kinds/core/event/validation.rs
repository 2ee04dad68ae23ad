//! Validation of events.

use serde_json::Value;

use super::conversion::{EventGroup, field, text};
use crate::{
    field::{BadValue, Error, Path},
    kinds::{field_checks::push_invalid, go_values},
    name,
    strategy::{ErrorList, Tree},
};

const MAX_NOTE_LENGTH: usize = 1024;
const MAX_NAME_LENGTH: usize = 128;

/// The rules of both groups.
// upstream: pkg/apis/core/validation/events.go legacyValidateEvent
pub(super) fn validate_legacy_event(errors: &mut ErrorList, event: &Value, group: EventGroup) {
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
    let field_path = match group {
        EventGroup::Core => Path::new("reportingComponent"),
        EventGroup::Events => Path::new("reportingController"),
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
        too_long(errors, name, value, MAX_NAME_LENGTH);
    }
    too_long(errors, "message", text(event, "message"), MAX_NOTE_LENGTH);
}

/// The additional rules for new events of `events.k8s.io`.
// upstream: pkg/apis/core/validation/events.go ValidateEventCreate
pub(super) fn validate_event_create(errors: &mut ErrorList, event: &Value) {
    validate_series(errors, event);
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

/// The immutable fields of events of `events.k8s.io`.
// upstream: pkg/apis/core/validation/events.go ValidateEventUpdate
pub(super) fn validate_event_update(errors: &mut ErrorList, new: &Value, old: &Value) {
    if new.at("series") != old.at("series") {
        validate_series(errors, new);
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
        if !is_equal_or_empty(after, before) {
            let field_path = if name == "reportingComponent" {
                "reportingController"
            } else {
                name
            };
            let value = error_value(name, after);
            errors.push(Error::invalid(
                &Path::new(field_path),
                value,
                "field is immutable",
            ));
        }
    }
}

fn too_long(errors: &mut ErrorList, name: &str, value: &str, max: usize) {
    if value.len() > max {
        let detail = format!("can have at most {max} characters");
        errors.push(Error::invalid(&Path::new(name), "", detail));
    }
}

// upstream: pkg/apis/core/validation/events.go validateV1EventSeries
fn validate_series(errors: &mut ErrorList, event: &Value) {
    let series = event.at("series");
    if series.is_null() {
        return;
    }
    if series.int_or_zero("count") < 2 {
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

/// Whether two values are equal; absent and empty are.
fn is_equal_or_empty(a: &Value, b: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    a == b || (empty(a) && empty(b))
}

fn error_value(name: &str, value: &Value) -> BadValue {
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

    fn messages(validate: impl Fn(&mut ErrorList)) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate(&mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_events_in_another_namespace() {
        let event = |namespace: &str, about: &str| json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": about}});
        for (namespace, about, count) in [("default", "", 0), ("a", "a", 0), ("a", "", 1), ("a", "b", 1)] {
            let event = event(namespace, about);
            assert_eq!(
                messages(|errors| validate_legacy_event(errors, &event, EventGroup::Core)).len(),
                count
            );
        }
    }

    #[test]
    fn requires_reporter_and_reason() {
        let event = json!({"metadata": {"namespace": "default"}, "eventTime": "2020-01-01T00:00:00.000000Z"});
        let fields = |group| -> Vec<String> {
            let mut errors = ErrorList::new();
            validate_legacy_event(&mut errors, &event, group);
            let mut fields: Vec<_> = errors.into_iter().map(|error| error.field).collect();
            fields.dedup();
            fields
        };
        let rest = ["reportingInstance", "action", "reason"];
        assert_eq!(
            fields(EventGroup::Core),
            [&["reportingComponent"][..], &rest].concat()
        );
        assert_eq!(
            fields(EventGroup::Events),
            [&["reportingController"][..], &rest].concat()
        );
    }

    #[test]
    fn reports_changes_by_core_field_names() {
        let old = json!({"note": "a", "regarding": {"kind": "Pod"}, "deprecatedCount": 0});
        let new = json!({"note": "b", "regarding": {"kind": "Node"}, "series": {"count": 1}});
        assert_eq!(
            messages(|errors| validate_event_update(errors, &new, &old)),
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
