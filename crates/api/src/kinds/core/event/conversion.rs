//! Conversion of events between the core group and `events.k8s.io`, which name some fields differently.
// upstream: pkg/apis/events/v1/conversion.go Convert_v1_Event_To_core_Event, Convert_core_Event_To_v1_Event

use serde_json::{Map, Value};

use crate::{kinds::builtin, strategy::Tree};

/// The API group of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds) enum EventGroup {
    /// The core group.
    Core,
    /// `events.k8s.io`.
    Events,
}

/// Fields with different names: in the core group and in `events.k8s.io`.
const RENAMED_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts from `events.k8s.io` to the core group. A value that is no object is returned as it is.
pub fn to_core(event: &Value) -> Value {
    convert_names(event, "", |name| {
        RENAMED_FIELDS
            .iter()
            .find(|names| names.1 == name)
            .map(|names| names.0)
    })
}

/// Converts from the core group to `events.k8s.io`. A value that is no object is returned as it is.
pub fn from_core(event: &Value) -> Value {
    convert_names(event, "events.k8s.io", |name| {
        RENAMED_FIELDS
            .iter()
            .find(|names| names.0 == name)
            .map(|names| names.1)
    })
}

fn convert_names(event: &Value, group: &str, rename: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else {
        return event.clone();
    };
    let kind = builtin()
        .kind(group, "v1", "Event")
        .expect("both groups have events");
    let fields = fields.iter().map(|(name, value)| {
        let value = match name.as_str() {
            "apiVersion" => Value::String(kind.api_version()),
            _ => value.clone(),
        };
        (rename(name).map_or_else(|| name.clone(), str::to_owned), value)
    });
    let convert_names = Value::Object(fields.collect::<Map<_, _>>());
    // Fields that are written even if empty differ between the groups.
    kind.ty
        .normalize(&convert_names)
        .map_or(convert_names, |decoded| decoded.value)
}

/// A field by its name in the core group, in an event of either group.
pub(super) fn field<'v>(event: &'v Value, name: &str) -> &'v Value {
    let other = RENAMED_FIELDS
        .iter()
        .find(|names| names.0 == name)
        .map(|names| names.1);
    match (event.at(name), other) {
        (Value::Null, Some(other)) => event.at(other),
        (value, _) => value,
    }
}

pub(super) fn text<'v>(event: &'v Value, name: &str) -> &'v str {
    field(event, name).as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn converts_events_between_groups() {
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "x", "namespace": "default"},
            "eventTime": "2020-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i",
            "regarding": {"kind": "Pod", "name": "p"}, "note": "n", "type": "Normal",
        });
        let core = to_core(&event);
        assert_eq!(core["apiVersion"], "v1");
        assert_eq!(core["involvedObject"], json!({"kind": "Pod", "name": "p"}));
        assert_eq!(
            (&core["message"], &core["reportingComponent"]),
            (&json!("n"), &json!("c"))
        );
        assert!(!core.has("note") && !core.has("regarding"));
        let back = from_core(&core);
        assert_eq!(from_core(&to_core(&back)), back);
        assert_eq!(
            (&back["note"], &back["regarding"]["name"]),
            (&json!("n"), &json!("p"))
        );
        assert_eq!(text(&back, "message"), text(&core, "message"));
    }
}
