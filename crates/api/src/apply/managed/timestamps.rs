//! Keeps the timestamps in `managedFields` if a write changes nothing.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go IgnoreManagedFieldsTimestampsTransformer

use serde_json::Value;

use super::record;
use crate::apply::{
    order::same,
    typed::{MANAGED_FIELDS, SkippedPath, skip_below},
};

/// Takes back new times in the record if nothing else of the object changed, so that it need not be stored:
/// a controller that applies the same value every second would notify all watchers every second.
///
/// To be called with the object as it would be stored, after defaults and admission.
pub fn ignore_managed_fields_timestamps(live: &Value, new: &mut Value) {
    let (Some(Value::Array(old)), Some(Value::Array(now))) = (record::raw(live), record::raw(new)) else {
        return;
    };
    let unchanged = old.len() == now.len()
        && old
            .iter()
            .zip(now)
            .all(|(old, now)| same_but(old, now, &["time"]))
        && same_but_record(live, new);
    if unchanged {
        let old = Value::Array(old.clone());
        record::set(new, Some(old));
    }
}

/// Whether two objects are the same, whatever their records say.
pub(super) fn same_but_record(left: &Value, right: &Value) -> bool {
    same_but(left, right, MANAGED_FIELDS)
}

fn same_but(left: &Value, right: &Value, skip: SkippedPath) -> bool {
    let (Value::Object(left), Value::Object(right)) = (left, right) else {
        return same(left, right);
    };
    let there = |object: &serde_json::Map<String, Value>| {
        object
            .keys()
            .filter(|name| skip_below(skip, name).is_some())
            .count()
    };
    there(left) == there(right)
        && left.iter().all(|(name, left)| match skip_below(skip, name) {
            None => true,
            Some(&[]) => right.get(name).is_some_and(|right| same(left, right)),
            Some(rest) => right.get(name).is_some_and(|right| same_but(left, right, rest)),
        })
}
