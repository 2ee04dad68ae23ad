//! How values are written into a patch.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

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
pub fn truncate_to_second(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

/// Labels or annotations that take the place of others: what there was and is not wanted any more is taken away.
pub fn replacing_map(old: &BTreeMap<Box<str>, Box<str>>, new: &BTreeMap<Box<str>, Box<str>>) -> Value {
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let gone = gone.map(|name| (name.to_string(), Value::Null));
    let kept = new
        .iter()
        .map(|(name, value)| (name.to_string(), (&**value).into()));
    gone.chain(kept).collect::<Map<_, _>>().into()
}
