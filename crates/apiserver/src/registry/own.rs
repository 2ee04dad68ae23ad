//! Objects of the server's own making that need nobody's judgement.

use bytes::Bytes;
use k3_api::{encode, rules::TreeMut, time::Time};
use serde_json::Value;

use super::{Resource, answer, create::random_uid, manage, version};

/// An object as it is stored, complete with what every new object has.
pub(crate) fn own_object(resource: &Resource, object: &Value, manager: &str, now: Time) -> Bytes {
    let kind = &resource.kind;
    let mut object = answer::normal(object, &kind.ty);
    resource.rules().default(&mut object);
    manage::with_subject(kind, resource.rules(), "", |subject| {
        subject.track(None, &mut object, manager, now);
    });
    let metadata = object.make("metadata");
    metadata.set("uid", random_uid());
    metadata.set("creationTimestamp", now.truncated().to_string());
    let stored = version::convert(object, kind, &resource.stored);
    Bytes::from(encode::encode_stored(
        stored.as_object().expect("an object is one"),
    ))
}

/// An object of which the server changes a part by itself, as it is stored.
pub(crate) fn own_change(
    resource: &Resource,
    old: &Value,
    mut new: Value,
    part: &str,
    manager: &str,
    now: Time,
) -> Bytes {
    manage::with_subject(&resource.kind, resource.rules(), part, |subject| {
        subject.track(Some(old), &mut new, manager, now);
    });
    version::stored_bytes(&new, &resource.kind, &resource.stored)
}
