//! What may be absent.

// upstream: vendor/github.com/google/cel-go/common/types/optional.go Optional
// upstream: vendor/github.com/google/cel-go/cel/library.go OptionalTypes

use std::sync::Arc;

use super::{Implementation, no_overload};
use crate::{
    error::EvalError,
    value::{Result, Value},
};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "optional.of" => |_, args| Ok(Value::Optional(Some(Arc::new(args[0].clone())))),
        "optional.ofNonZeroValue" => |_, args| {
            Ok(Value::optional(if args[0].is_zero() {
                None
            } else {
                Some(args[0].clone())
            }))
        },
        "optional.none" => |_, _| Ok(Value::Optional(None)),
        "optional.unwrap" | "unwrapOpt" => unwrap,
        "value" => value,
        "hasValue" => |name, args| match &args[0] {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            _ => no_overload(name, args),
        },
        "first" => |name, args| end(name, args, |_| 0),
        "last" => |name, args| end(name, args, |length| length - 1),
        _ => return None,
    })
}

fn unwrap<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list)] = args else {
        return no_overload(name, args);
    };
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => values.push(Value::clone(&value)),
            Value::Optional(None) => {}
            other => return Err(EvalError::new(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::list(values))
}

fn value<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match &args[0] {
        Value::Optional(Some(value)) => Ok(Value::clone(value)),
        Value::Optional(None) => Err(EvalError::new("optional.none() dereference")),
        _ => no_overload(name, args),
    }
}

fn end<'a>(name: &str, args: &[Value<'a>], which: impl Fn(usize) -> usize) -> Result<'a> {
    match &args[0] {
        Value::List(list) if list.is_empty() => Ok(Value::Optional(None)),
        Value::List(list) => Ok(Value::optional(list.get(which(list.len())).transpose()?)),
        _ => no_overload(name, args),
    }
}
