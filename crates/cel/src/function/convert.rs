//! From one type to another.

use std::sync::Arc;

use super::{Implementation, time};
use crate::{
    error::EvalError,
    types::Type,
    value::{OpaqueValue, Result, Value, type_name},
};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "type" => |_, args| Ok(Value::Type(Arc::new(args[0].ty()))),
        "dyn" => |_, args| Ok(args[0].clone()),
        "bool" => bool,
        "bytes" => bytes,
        "double" => double_of,
        "duration" => duration,
        "int" => int,
        "string" => string,
        "timestamp" => timestamp,
        "uint" => uint,
        _ => return None,
    })
}

/// Whether a function only converts: of a constant it is one.
pub(crate) fn is_conversion(name: &str) -> bool {
    implementation(name).is_some()
}

fn failed<'a>(value: &Value<'_>, to: &Type) -> Result<'a> {
    let message = format!(
        "type conversion error from '{}' to '{}'",
        value.type_name(),
        type_name(to)
    );
    Err(EvalError::new(message))
}

fn bool<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match &args[0] {
        Value::Bool(_) => Ok(args[0].clone()),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => failed(&args[0], &Type::Bool),
        },
        _ => super::no_overload(name, args),
    }
}

fn bytes<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match &args[0] {
        Value::Bytes(_) => Ok(args[0].clone()),
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => super::no_overload(name, args),
    }
}

#[expect(clippy::cast_precision_loss, reason = "that is what the conversion is")]
fn double_of<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match &args[0] {
        Value::Double(_) => Ok(args[0].clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => match parse_double(text) {
            Some(number) => Ok(Value::Double(number)),
            None => failed(&args[0], &Type::Double),
        },
        _ => super::no_overload(name, args),
    }
}

/// A number as Go reads it: without space, and not too large unless it says so.
fn parse_double(text: &str) -> Option<f64> {
    let named = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    let number: f64 = text.parse().ok()?;
    (number.is_finite() || matches!(named.as_str(), "inf" | "infinity" | "nan")).then_some(number)
}

fn duration<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match &args[0] {
        Value::Duration(_) => Ok(args[0].clone()),
        Value::String(text) => match time::parse_duration(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => failed(&args[0], &Type::Duration),
        },
        _ => super::no_overload(name, args),
    }
}

fn int<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let overflow = || EvalError::new("integer overflow");
    match &args[0] {
        Value::Int(_) => Ok(args[0].clone()),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        #[expect(clippy::cast_possible_truncation, reason = "it is looked at first")]
        Value::Double(number) if number.abs() < 9_223_372_036_854_775_807.0 => Ok(Value::Int(*number as i64)),
        Value::Double(_) => Err(overflow()),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(time) => Ok(Value::Int(time.seconds())),
        Value::String(text) => match text.parse() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => failed(&args[0], &Type::Int),
        },
        _ => super::no_overload(name, args),
    }
}

fn uint<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let overflow = || EvalError::new("unsigned integer overflow");
    match &args[0] {
        Value::Uint(_) => Ok(args[0].clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is looked at first"
        )]
        Value::Double(number) if *number >= 0.0 && *number < 18_446_744_073_709_551_615.0 => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(overflow()),
        Value::String(text) => match text.parse() {
            Ok(number) if !text.starts_with('+') => Ok(Value::Uint(number)),
            _ => failed(&args[0], &Type::Uint),
        },
        _ => super::no_overload(name, args),
    }
}

fn string<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match text(&args[0])? {
        Some(text) => Ok(text),
        None => super::no_overload(name, args),
    }
}

/// A value as text, if it has one.
pub(super) fn text<'a>(value: &Value<'a>) -> std::result::Result<Option<Value<'a>>, EvalError> {
    Ok(Some(match value {
        Value::String(_) => value.clone(),
        Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Duration(_)
        | Value::Timestamp(_) => Value::text(value.to_string()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => return Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Opaque(thing @ (OpaqueValue::Ip(_) | OpaqueValue::Cidr(..))) => match thing.text() {
            Some(text) => Value::text(text),
            None => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

fn timestamp<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    match &args[0] {
        Value::Timestamp(_) => Ok(args[0].clone()),
        Value::Int(seconds) => match time::from_unix(*seconds) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => Err(EvalError::new("timestamp overflow")),
        },
        Value::String(text) => match time::parse_timestamp(text) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => failed(&args[0], &Type::Timestamp),
        },
        _ => super::no_overload(name, args),
    }
}

/// A number as Go's `%g` writes it.
pub(crate) fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("it is written with an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
