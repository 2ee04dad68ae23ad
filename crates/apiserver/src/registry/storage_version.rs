//! The version an object is stored in. Two resources are served in two versions of which one is stored: events, and
//! autoscalers.

use bytes::Bytes;
use k3_api::{
    encode,
    kinds::{
        Kind, KindRef,
        autoscaling::conversion::{to_v1, to_v2},
        builtin,
        event::{from_core, to_core},
    },
};
use serde_json::Value;

/// The kind that objects of a kind are stored as.
pub(super) fn stored(kind: &KindRef) -> KindRef {
    stored_otherwise(kind).map_or_else(|| kind.clone(), KindRef::Builtin)
}

/// Whether objects of a kind are stored as those of another.
pub(super) fn is_stored_otherwise(kind: &Kind) -> bool {
    stored_otherwise(kind).is_some()
}

fn stored_otherwise(kind: &Kind) -> Option<&'static Kind> {
    match (&*kind.group, &*kind.version, &*kind.kind) {
        ("events.k8s.io", _, "Event") => builtin().kind("", "v1", "Event"),
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => {
            builtin().kind("autoscaling", "v2", "HorizontalPodAutoscaler")
        }
        _ => None,
    }
}

/// The kind whose rules validate objects of a kind: events are validated in the request version, autoscalers in the storage
/// version.
pub(super) fn validation_kind(kind: &Kind) -> &Kind {
    match stored_otherwise(kind) {
        Some(stored) if kind.kind == "HorizontalPodAutoscaler" => stored,
        _ => kind,
    }
}

/// The other kinds that objects of a kind are served as.
pub(crate) fn others(kind: &Kind) -> impl Iterator<Item = &'static Kind> + '_ {
    let is_served_twice = matches!(&*kind.kind, "HorizontalPodAutoscaler" | "Event");
    let all = if is_served_twice { builtin().all() } else { &[] };
    all.iter()
        .filter(move |other| other.kind == kind.kind && !is_same(other, kind))
}

/// Whether two kinds are of one group and version.
pub(super) fn is_same(one: &Kind, other: &Kind) -> bool {
    one.group == other.group && one.version == other.version
}

/// An object of one kind as it is stored. The bytes have no spare capacity: they live as long as the object.
pub(super) fn stored_bytes(object: &Value, kind: &Kind, stored: &Kind) -> Bytes {
    let converted;
    let object = if is_same(kind, stored) {
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
    if is_same(from, to) {
        return object;
    }
    match (&*to.group, &*to.version, &*to.kind) {
        ("autoscaling", "v1", _) => to_v1(&object),
        ("autoscaling", ..) => to_v2(&object),
        ("events.k8s.io", ..) => from_core(&object),
        (_, _, "Event") => to_core(&object),
        _ => object,
    }
}
