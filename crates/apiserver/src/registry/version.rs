//! The version an object is stored in. Two resources are served in two versions of which one is stored: events, and
//! autoscalers.

use bytes::Bytes;
use k3_api::{
    encode,
    kinds::{
        Kind,
        autoscaling::conversion::{to_v1, to_v2},
        builtin,
        event::{from_core, to_core},
    },
};
use serde_json::Value;

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

/// The kind whose rules judge objects of a kind: events are judged as what they came as, autoscalers as what is stored.
pub(super) fn judged(kind: &'static Kind) -> &'static Kind {
    if kind.kind == "HorizontalPodAutoscaler" {
        stored(kind)
    } else {
        kind
    }
}

/// The other kinds that objects of a kind are served as.
pub(crate) fn others(kind: &Kind) -> impl Iterator<Item = &'static Kind> {
    let (group, version, name) = (kind.group, kind.version, kind.kind);
    let is_served_twice = matches!(name, "HorizontalPodAutoscaler" | "Event");
    let all = if is_served_twice { builtin().all() } else { &[] };
    all.iter()
        .filter(move |other| other.kind == name && (other.group, other.version) != (group, version))
}

/// An object of one kind as it is stored. The bytes have no room to grow: they stay as long as the object does.
pub(super) fn stored_bytes(object: &Value, kind: &Kind, stored: &Kind) -> Bytes {
    let converted;
    let object = if (kind.group, kind.version) == (stored.group, stored.version) {
        object
    } else {
        converted = convert(object.clone(), kind, stored);
        &converted
    };
    let bytes = encode::encode_stored(object.as_object().expect("an object is one"));
    bytes.into_boxed_slice().into()
}

/// An object of one kind as an object of another that is stored with it.
pub(crate) fn convert(object: Value, from: &Kind, to: &Kind) -> Value {
    if (from.group, from.version) == (to.group, to.version) {
        return object;
    }
    match (to.group, to.version, to.kind) {
        ("autoscaling", "v1", _) => to_v1(&object),
        ("autoscaling", ..) => to_v2(&object),
        ("events.k8s.io", ..) => from_core(&object),
        (_, _, "Event") => to_core(&object),
        _ => object,
    }
}
