//! How values are written into a patch.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// A count, which is not written at all if it is zero.
pub fn count(count: i32) -> Value {
    if count == 0 { Value::Null } else { count.into() }
}

/// A list, which is not written at all if it is empty.
pub fn list<T: Serialize>(items: &[T]) -> Value {
    if items.is_empty() {
        Value::Null
    } else {
        serde_json::to_value(items).unwrap_or_default()
    }
}

/// A moment as objects have it: in whole seconds.
pub fn second(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}
