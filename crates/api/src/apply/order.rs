//! Order of JSON values.
//!
//! Field sets sort the items of lists by value. Integers and floats are compared as numbers: a key that was
//! read back from a record is the same key whether it was written as `80` or as `80.0`.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/value/value.go Compare, Equals

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// The order of two values: numbers, strings, booleans, lists, objects, null.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => compare_lists(left, right),
        (Value::Object(left), Value::Object(right)) => compare_objects(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Whether two values are the same to a user: like `==`, but `1` is `1.0`.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || compare_numbers(left, right) == Ordering::Equal
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return left.cmp(&right);
    }
    if let (Some(left), Some(right)) = (left.as_u64(), right.as_u64()) {
        return left.cmp(&right);
    }
    let left = left.as_f64().unwrap_or(0.0);
    let right = right.as_f64().unwrap_or(0.0);
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

fn compare_lists(left: &[Value], right: &[Value]) -> Ordering {
    let differing = left
        .iter()
        .zip(right)
        .map(|(left, right)| compare(left, right))
        .find(|order| order.is_ne());
    differing.unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn compare_objects(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let left = sorted(left);
    let right = sorted(right);
    let differing = left
        .iter()
        .zip(&right)
        .map(|(left, right)| left.0.cmp(right.0).then_with(|| compare(left.1, right.1)))
        .find(|order| order.is_ne());
    differing.unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn sorted(object: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_unstable_by_key(|field| field.0);
    fields
}
