//! Patches: JSON patch, JSON merge patch and strategic merge patch.
//!
//! Promises: the results and the answers are those clients of the API know; no patch makes an object grow
//! without bounds, and none takes more than n log n in the sizes of patch and object.

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

use crate::status::Status;

/// The body of a patch, decoded; whatever its type, it must be JSON.
pub fn read(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body).map_err(|_| bad_patch())
}

/// A patch that is no patch at all.
fn bad_patch() -> Status {
    Status::bad_request("invalid JSON patch")
}

/// What Go calls a JSON value that it cannot put where it should.
fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Fields that are null mean that there is no such field. Items of lists stay: they have a position.
fn without_nulls(mut value: Value) -> Value {
    remove_nulls(&mut value);
    value
}

/// Changes the value in place: to build it again costs as much as to read it.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.values().any(Value::is_null) {
                map.retain(|_, value| !value.is_null());
            }
            map.values_mut().for_each(remove_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
