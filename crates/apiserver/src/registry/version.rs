//! The version an object is stored in. Two resources are served in two versions of which one is stored: events, and
//! autoscalers.

use k3_api::{
    kinds::{Kind, builtin},
    rules::{Tree, TreeMut},
};
use serde_json::Value;

/// The fields of events that have another name in the newer group: core name, then the other.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// The kind that objects of a kind are stored as.
pub(super) fn stored(kind: &'static Kind) -> &'static Kind {
    let other = match (kind.group, kind.version, kind.kind) {
        ("events.k8s.io", _, "Event") => builtin().kind("", "v1", "Event"),
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => {
            builtin().kind("autoscaling", "v2", "HorizontalPodAutoscaler")
        }
        _ => None,
    };
    other.unwrap_or(kind)
}

/// An object of one kind as an object of another that is stored with it.
pub(super) fn convert(mut object: Value, from: &Kind, to: &Kind) -> Value {
    if std::ptr::eq(from, to) {
        return object;
    }
    if from.kind == "Event" {
        let old_first = from.group.is_empty();
        for (old, new) in EVENT_FIELDS {
            let (name, other) = if old_first { (old, new) } else { (new, old) };
            if let Some(value) = object.remove(name) {
                object.set(other, value);
            }
        }
        // Fields that the one kind always writes and the other leaves out when empty.
        let zero = to.ty.get().zero();
        for (name, value) in zero {
            object.fill(&name, value);
        }
        for (_, new) in EVENT_FIELDS.iter().filter(|_| old_first) {
            if object.at(new).as_object().is_some_and(serde_json::Map::is_empty) && *new == "deprecatedSource"
            {
                object.remove(new);
            }
        }
    }
    object.set("apiVersion", to.api_version());
    object
}
