//! Operators.

// upstream: vendor/github.com/google/cel-go/common/stdlib/standard.go Functions

use std::cmp::Ordering;

use super::Implementation;
use crate::{
    error::EvalError,
    value::{Result, Value, compare, equal, is_ordered},
};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "-_" => negate,
        "!_" => not,
        "_<_" | "_<=_" | "_>_" | "_>=_" => order,
        "@in" => within,
        "size" => size,
        "cel.@mapInsert" => insert,
        _ => return None,
    })
}

const INT: &str = "integer overflow";
const UINT: &str = "unsigned integer overflow";
const DURATION: &str = "duration overflow";
const TIMESTAMP: &str = "timestamp overflow";

fn or<'a, T>(result: Option<T>, make: impl FnOnce(T) -> Value<'a>, message: &'static str) -> Result<'a> {
    result.map(make).ok_or_else(|| EvalError::new(message))
}

/// The error of an operator whose operands it is not for: upstream's dispatcher names the operator if no overload begins
/// with the left operand, and the overload's own code does not.
fn mismatch<'a>(name: &str, left: &Value<'a>, has_operator: impl FnOnce(&Value<'a>) -> bool) -> Result<'a> {
    if has_operator(left) {
        Err(EvalError::no_such_overload())
    } else {
        no_operator(name)
    }
}

fn no_operator<'a>(name: &str) -> Result<'a> {
    Err(EvalError::new(format!("no such overload: {name}")))
}

fn add<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(a), Value::Int(b)) => or(a.checked_add(*b), Value::Int, INT),
        (Value::Uint(a), Value::Uint(b)) => or(a.checked_add(*b), Value::Uint, UINT),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => Ok(Value::text(format!("{}{}", &**a, &**b))),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes([&**a, &**b].concat().into())),
        (Value::List(a), Value::List(b)) => Ok(Value::List(a.clone().join(b)?)),
        (Value::Duration(a), Value::Duration(b)) => or(a.checked_add(*b), Value::Duration, DURATION),
        (Value::Timestamp(time), Value::Duration(nanos))
        | (Value::Duration(nanos), Value::Timestamp(time)) => {
            or(time.plus(i128::from(*nanos)), Value::Timestamp, TIMESTAMP)
        }
        (left, _) => mismatch(name, left, |left| {
            is_ordered(left) && !matches!(left, Value::Bool(_)) || matches!(left, Value::List(_))
        }),
    }
}

fn subtract<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(a), Value::Int(b)) => or(a.checked_sub(*b), Value::Int, INT),
        (Value::Uint(a), Value::Uint(b)) => or(a.checked_sub(*b), Value::Uint, UINT),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => or(a.checked_sub(*b), Value::Duration, DURATION),
        (Value::Timestamp(time), Value::Duration(nanos)) => {
            or(time.plus(-i128::from(*nanos)), Value::Timestamp, TIMESTAMP)
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => or(a.since(*b), Value::Duration, DURATION),
        (left, _) => mismatch(name, left, |left| {
            number(left) || matches!(left, Value::Duration(_) | Value::Timestamp(_))
        }),
    }
}

fn number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

fn multiply<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(a), Value::Int(b)) => or(a.checked_mul(*b), Value::Int, INT),
        (Value::Uint(a), Value::Uint(b)) => or(a.checked_mul(*b), Value::Uint, UINT),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        (left, _) => mismatch(name, left, number),
    }
}

fn divide<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(EvalError::new("division by zero"))
        }
        (Value::Int(a), Value::Int(b)) => or(a.checked_div(*b), Value::Int, INT),
        (Value::Uint(a), Value::Uint(b)) => or(a.checked_div(*b), Value::Uint, UINT),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        (left, _) => mismatch(name, left, number),
    }
}

fn modulo<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(EvalError::new("modulus by zero"))
        }
        (Value::Int(a), Value::Int(b)) => or(a.checked_rem(*b), Value::Int, INT),
        (Value::Uint(a), Value::Uint(b)) => or(a.checked_rem(*b), Value::Uint, UINT),
        (left, _) => mismatch(name, left, |left| matches!(left, Value::Int(_) | Value::Uint(_))),
    }
}

fn negate<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match &args[0] {
        Value::Int(number) => or(number.checked_neg(), Value::Int, INT),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(nanos) => or(nanos.checked_neg(), Value::Duration, DURATION),
        Value::Bool(_) => Err(EvalError::no_such_overload()),
        _ => no_operator(name),
    }
}

fn not<'a>(_: &str, args: &[Value<'a>]) -> Result<'a> {
    match &args[0] {
        Value::Bool(truth) => Ok(Value::Bool(!truth)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn order<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    if !is_ordered(&args[0]) {
        return no_operator(name);
    }
    let order = compare(&args[0], &args[1])?;
    Ok(Value::Bool(match name {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn within<'a>(_: &str, args: &[Value<'a>]) -> Result<'a> {
    match &args[1] {
        Value::List(list) => super::lists::contains(list, &args[0]).map(Value::Bool),
        Value::Map(map) => Ok(Value::Bool(map.find(&args[0]).transpose()?.is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn size<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match args[0].size() {
        Some(size) => Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
        None => no_operator(name),
    }
}

fn insert<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match args {
        [Value::Map(map), key, value] => Ok(Value::Map(map.clone().insert(key.clone(), value.clone())?)),
        [Value::Map(map), Value::Map(more)] => {
            let mut map = map.clone();
            for key in more.keys() {
                if let Some(value) = more.find(&key) {
                    map = map.insert(key, value?)?;
                }
            }
            Ok(Value::Map(map))
        }
        _ => super::no_overload(name, args),
    }
}

/// Whether two values are equal; what cannot be compared is not.
pub(super) fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    equal(a, b).unwrap_or(false)
}
