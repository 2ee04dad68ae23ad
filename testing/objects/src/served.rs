//! Such objects in an API in memory.

use k3_api::encode::encode_stored;
use k3_api::kinds::{Kind, Persistence, builtin};
use kube::core::ApiResource;
use kubecontroller::testing::FakeApi;
use serde_json::Value;

use crate::null_objects;

/// The kinds whose objects are stored.
pub fn served_kinds() -> impl Iterator<Item = &'static Kind> {
    let kinds = builtin().all().iter();
    kinds.filter(|kind| kind.persistence == Persistence::Stored)
}

/// Where a server stores an object, and as what.
pub fn stored(kind: &Kind, object: &Value) -> (String, Vec<u8>) {
    let metadata = &object["metadata"];
    let group = if kind.group.is_empty() {
        "core"
    } else {
        &kind.group
    };
    let mut key = format!("/registry/{group}/{}/", kind.plural);
    for part in ["namespace", "name"] {
        if let Some(text) = metadata[part].as_str() {
            key.push_str(text);
            if part == "namespace" {
                key.push('/');
            }
        }
    }
    let object = object.as_object().expect("an object is an object in JSON");
    (key, encode_stored(object))
}

/// Stores the objects of [`null_objects`] of all kinds. Returns their number.
pub fn put_null_objects(api: &FakeApi) -> usize {
    let mut count = 0;
    for kind in served_kinds() {
        let resource = ApiResource {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        };
        for object in null_objects(kind) {
            api.put_value(&resource, object);
            count += 1;
        }
    }
    count
}
