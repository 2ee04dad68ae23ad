//! Strategic merge patch: lists are merged by merge key where their type declares one, and directives (`$patch`,
//! `$retainKeys`, `$setElementOrder/..`, `$deleteFromPrimitiveList/..`) control the merge.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go StrategicMergeMapPatchUsingLookupPatchMeta, mergeMap

mod cost;
mod error;
mod list;
mod order;

use std::collections::HashSet;

use serde_json::{Map, Value};

use self::cost::PatchCost;
pub use self::error::Error;
use super::{json_kind, without_nulls};
use crate::type_schema::{Patch, Shape, TypeSchema};

type Object = Map<String, Value>;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// The object with the patch merged in, by the plan of its type.
pub fn apply(object: Value, patch: Value, typed: &dyn TypeSchema) -> Result<Value, Error> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Ok(object),
        other => {
            let kind = json_kind(&other);
            let message =
                format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
            return Err(Error::Malformed(message));
        }
    };
    let object = match object {
        Value::Object(object) => object,
        _ => Object::new(),
    };
    let cost = PatchCost::new(&object, &patch);
    merge(object, patch, typed.shape(), &cost).map(Value::Object)
}

/// Merges a patch into an object of some type.
fn merge(mut object: Object, mut patch: Object, shape: Shape<'_>, cost: &PatchCost) -> Result<Object, Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(Error::unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut object, &mut patch, cost)?;
    order::apply(&mut object, &mut patch, shape, cost)?;
    for (key, value) in patch {
        merge_field(&mut object, key, value, shape, cost)?;
    }
    Ok(object)
}

fn merge_field(
    object: &mut Object,
    key: String,
    value: Value,
    shape: Shape<'_>,
    cost: &PatchCost,
) -> Result<(), Error> {
    let deletes = key.starts_with(DELETE_FROM_LIST);
    let key = if deletes {
        let name = key
            .strip_prefix(DELETE_FROM_LIST)
            .and_then(|rest| rest.strip_prefix('/'));
        name.ok_or(Error::PrimitiveList)?.to_owned()
    } else {
        key
    };
    if value.is_null() {
        object.remove(&key);
        return Ok(());
    }
    let Some(current) = object.get_mut(&key).filter(|current| same_type(current, &value)) else {
        if !deletes {
            match without_directives(without_nulls(value)) {
                Some(value) => object.insert(key, value),
                None => object.remove(&key),
            };
        }
        return Ok(());
    };
    *current = match (current.take(), value) {
        (Value::Object(current), Value::Object(value)) => {
            let (shape, plan) = field_of(shape, &key)?;
            Value::Object(if plan.replace {
                value
            } else {
                merge(current, value, shape, cost)?
            })
        }
        (Value::Array(current), Value::Array(value)) => {
            let (items, plan) = items_of(shape, &key)?;
            let merged = match (plan.merge, deletes) {
                (_, true) => list::delete(current, &value, items, plan, cost)?,
                (true, false) => list::merge(current, value, items, plan, cost)?,
                (false, false) => value,
            };
            Value::Array(merged)
        }
        (_, value) => value,
    };
    Ok(())
}

/// Removes fields the directive does not name, if there is one. The patch may only set fields it names.
fn retain_keys(object: &mut Object, patch: &mut Object, cost: &PatchCost) -> Result<(), Error> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = keys else {
        return Err(Error::RetainKeys);
    };
    let keys: HashSet<_> = keys.iter().filter_map(Value::as_str).collect();
    let exempt = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    if patch
        .iter()
        .any(|(key, value)| !value.is_null() && !exempt(key) && !keys.contains(key.as_str()))
    {
        return Err(Error::RetainKeys);
    }
    cost.take(object.len())?;
    object.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// The type of a field that holds an object, and the plan for it.
fn field_of<'s>(shape: Shape<'s>, key: &str) -> Result<(Shape<'s>, Patch<'s>), Error> {
    match shape {
        Shape::Struct(fields) => match fields.field(key) {
            Some(field) => Ok((field.shape(), fields.patch(key))),
            None if fields.keeps_unknown() => Ok((Shape::Unknown, Patch::default())),
            None => Err(Error::no_such_field(fields.name(), key)),
        },
        Shape::Unknown => Ok((Shape::Unknown, Patch::default())),
        Shape::Scalar => Err(Error::no_such_field("", key)),
        Shape::Map { .. } => Err(Error::NotAStruct("map")),
        Shape::List { .. } => Err(Error::NotAStruct("slice")),
    }
}

/// The type of the items of a field that holds a list, and the plan for the list.
fn items_of<'s>(shape: Shape<'s>, key: &str) -> Result<(Shape<'s>, Patch<'s>), Error> {
    match field_of(shape, key)? {
        (Shape::List { items, .. }, plan) => match items.shape() {
            Shape::List { .. } => Err(Error::ListOfListTypes),
            shape => Ok((shape, plan)),
        },
        (Shape::Unknown, plan) => Ok((Shape::Unknown, plan)),
        _ => Err(Error::NotAList),
    }
}

/// Whether two values decode to the same Go type: whole numbers and others are two.
fn same_type(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.is_f64() == b.is_f64(),
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// Objects that carry a directive have nothing to be merged with, and go.
fn without_directives(mut value: Value) -> Option<Value> {
    if carries_directive(&value) {
        return None;
    }
    remove_directives(&mut value);
    Some(value)
}

/// Changes the value in place: to build it again costs as much as to read it.
fn remove_directives(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.values().any(carries_directive) {
                map.retain(|_, value| !carries_directive(value));
            }
            map.values_mut().for_each(remove_directives);
        }
        Value::Array(list) => {
            list.retain(|item| !carries_directive(item));
            list.iter_mut().for_each(remove_directives);
        }
        _ => {}
    }
}

fn carries_directive(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.contains_key(DIRECTIVE))
}

#[cfg(test)]
mod tests;
