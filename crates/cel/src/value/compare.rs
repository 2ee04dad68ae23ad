//! Which values are equal, and which is first.

// upstream: vendor/github.com/google/cel-go/common/types/compare.go compareDoubleInt, compareIntUint
// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go unstructuredMapList, unstructuredSetList

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
};

use super::{List, Map, Value};
use crate::{
    decl::{ListKind, Shape},
    error::EvalError,
    escape,
};

/// Whether two values are equal. Numbers are by amount, whatever their types.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, EvalError> {
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => numbers(a, b) == Some(Ordering::Equal),
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => super::type_name(a) == super::type_name(b),
        (Value::List(a), Value::List(b)) => lists(a, b)?,
        // What is declared is compared with its like alone.
        (Value::List(List::Json { decl, .. }), _) if !matches!(decl.shape, Shape::Dyn) => {
            return Err(EvalError::no_such_overload());
        }
        (Value::Map(a), Value::Map(b)) => maps(a, b)?,
        (Value::Message(a, fields), Value::Message(b, others)) => {
            if a != b || fields.len() != others.len() {
                return Ok(false);
            }
            for (name, value) in fields.iter() {
                match others.iter().find(|(other, _)| other == name) {
                    Some((_, other)) if equal(value, other)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => equal(a, b)?,
            _ => false,
        },
        (Value::Opaque(a), Value::Opaque(b)) => a.equals(b)?,
        (Value::Map(Map::Object { .. }) | Value::Opaque(_), _) => return Err(EvalError::no_such_overload()),
        _ => false,
    })
}

fn lists(a: &List<'_>, b: &List<'_>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.kind() {
        ListKind::Atomic => {
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(&a?, &b?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListKind::Set => {
            let ours = a
                .iter()
                .map(|item| mark(&item?))
                .collect::<Result<HashSet<_>, _>>()?;
            let theirs = b
                .iter()
                .map(|item| mark(&item?))
                .collect::<Result<HashSet<_>, _>>()?;
            Ok(ours == theirs)
        }
        ListKind::Map(keys) => {
            let ours = by_keys(a, &keys)?;
            let mut seen = HashSet::new();
            for item in b.iter() {
                let item = item?;
                let key = marks(&item, &keys)?;
                match ours.get(&key) {
                    Some(at) if equal(&a.get(*at).expect("there is as much as was counted")?, &item)? => {}
                    _ => return Ok(false),
                }
                seen.insert(key);
            }
            Ok(seen.len() == ours.len())
        }
    }
}

fn by_keys(list: &List<'_>, keys: &[String]) -> Result<HashMap<Vec<String>, usize>, EvalError> {
    list.iter()
        .enumerate()
        .map(|(at, item)| Ok((marks(&item?, keys)?, at)))
        .collect()
}

/// The identity of an item of a set.
fn mark(value: &Value<'_>) -> Result<String, EvalError> {
    match value {
        Value::List(_) | Value::Map(_) => Err(EvalError::new(
            "listSet operations are only supported on lists of scalar values",
        )),
        Value::Bytes(bytes) => Ok(format!("{bytes:?}")),
        other => Ok(format!("{}:{other}", other.type_name())),
    }
}

/// The identity of an object of a list.
fn marks(value: &Value<'_>, keys: &[String]) -> Result<Vec<String>, EvalError> {
    let Value::Map(map) = value else {
        return Err(EvalError::new(
            "unexpected data format for element of array with x-kubernetes-list-type=map",
        ));
    };
    keys.iter()
        .map(|key| {
            let field = escape::escape(key);
            match map.get(field.as_deref().unwrap_or(key)) {
                Some(value) => mark(&value?),
                None => Ok(String::new()),
            }
        })
        .collect()
}

pub(super) fn add_to_set<'a>(items: &mut Vec<Value<'a>>, other: &List<'a>) -> Result<(), EvalError> {
    let mut seen = items.iter().map(mark).collect::<Result<HashSet<_>, _>>()?;
    for item in other.iter() {
        let item = item?;
        if seen.insert(mark(&item)?) {
            items.push(item);
        }
    }
    Ok(())
}

pub(super) fn add_to_map<'a>(
    items: &mut Vec<Value<'a>>,
    other: &List<'a>,
    keys: &[String],
) -> Result<(), EvalError> {
    let mut positions = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        positions.insert(marks(item, keys)?, at);
    }
    for item in other.iter() {
        let item = item?;
        match positions.get(&marks(&item, keys)?) {
            Some(at) => items[*at] = item,
            None => items.push(item),
        }
    }
    Ok(())
}

fn maps(a: &Map<'_>, b: &Map<'_>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for key in a.keys() {
        match (a.find(&key), b.find(&key)) {
            (Some(ours), Some(theirs)) => {
                if !equal(&ours?, &theirs?)? {
                    return Ok(false);
                }
            }
            (None, None) => {}
            _ => return Ok(false),
        }
    }
    // Properties that are not declared are compared as they are.
    if let (Map::Object { entries: ours, decl }, Map::Object { entries: theirs, .. }) = (a, b) {
        for (name, value) in ours.iter().filter(|(name, _)| decl.of_property(name).is_none()) {
            if theirs.get(name).is_some_and(|other| other != value) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Which of two values is first.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, EvalError> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => numbers(a, b).ok_or_else(|| EvalError::new("NaN values cannot be ordered"))?,
        (Value::String(a), Value::String(b)) => (**a).cmp(&**b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        _ => return Err(EvalError::no_such_overload()),
    })
}

/// Whether values of its type have an order.
pub(crate) fn is_ordered(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)
    )
}

fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => double(*a, whole(b)?),
        (a, Value::Double(b)) => double(*b, whole(a)?).map(Ordering::reverse),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

/// A number against a whole one, exactly.
fn double(a: f64, b: i128) -> Option<Ordering> {
    if a.is_nan() {
        return None;
    }
    if a.abs() >= 1e20 {
        return a.partial_cmp(&0.0);
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is far smaller than what fits")]
    let floor = a.floor() as i128;
    Some(floor.cmp(&b).then(if a > a.floor() {
        Ordering::Greater
    } else {
        Ordering::Equal
    }))
}
