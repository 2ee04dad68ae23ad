//! Values for patches.

use std::collections::BTreeMap;

use k3_workloads::StringMap;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

/// A count; null if it is zero, so that the field is removed.
pub fn count(count: i32) -> Value {
    if count == 0 { Value::Null } else { count.into() }
}

/// A list; null if it is empty.
pub fn list<T: Serialize>(items: &[T]) -> Value {
    if items.is_empty() {
        Value::Null
    } else {
        // As null it would remove the stored list.
        serde_json::to_value(items).expect("items of API objects have string keys")
    }
}

/// Truncates a time to seconds, the resolution of API objects.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go MarshalJSON
pub fn truncate_to_second(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

/// A merge patch that replaces labels or annotations: missing keys become null.
pub fn replacing_map(old: &StringMap, new: &BTreeMap<Box<str>, Box<str>>) -> Value {
    let deleted = old.iter().filter(|(name, _)| !new.contains_key(*name));
    let deleted = deleted.map(|(name, _)| (name.to_owned(), Value::Null));
    let kept = new
        .iter()
        .map(|(name, value)| (name.to_string(), (&**value).into()));
    deleted.chain(kept).collect::<Map<_, _>>().into()
}
