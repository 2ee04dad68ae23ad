//! The two sets of names under which events tell what they tell.

use serde_json::{Map, Value};

use crate::{kinds::builtin, strategy::Tree};

/// Under which names an event tells what it tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds) enum Form {
    /// Those of the core group.
    Core,
    /// Those of `events.k8s.io`.
    Events,
}

/// The names that differ, in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An event of `events.k8s.io` as one of the core group. What is no object is given back as it is.
pub fn to_core(event: &Value) -> Value {
    renamed(event, "", |name| {
        NAMES.iter().find(|names| names.1 == name).map(|names| names.0)
    })
}

/// An event of the core group as one of `events.k8s.io`. What is no object is given back as it is.
pub fn from_core(event: &Value) -> Value {
    renamed(event, "events.k8s.io", |name| {
        NAMES.iter().find(|names| names.0 == name).map(|names| names.1)
    })
}

fn renamed(event: &Value, group: &str, rename: impl Fn(&str) -> Option<&'static str>) -> Value {
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
    let renamed = Value::Object(fields.collect::<Map<_, _>>());
    // What is written though it is empty differs between the groups.
    kind.ty
        .normalize(&renamed)
        .map_or(renamed, |decoded| decoded.value)
}

/// A field by its name in the core group, in an event of either group.
pub(super) fn field<'v>(event: &'v Value, name: &str) -> &'v Value {
    let other = NAMES.iter().find(|names| names.0 == name).map(|names| names.1);
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
    fn an_event_is_the_same_thing_in_both_groups() {
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
