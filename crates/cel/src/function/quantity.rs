//! Amounts.

use std::{cmp::Ordering, sync::Arc};

use k3_quantity::{Format, Quantity};

use super::{Implementation, no_overload};
use crate::{
    error::EvalError,
    value::{OpaqueValue, Result, Value},
};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "quantity" => |name, args| match args {
            [Value::String(text)] => text
                .parse()
                .map(Value::quantity)
                .map_err(|error: k3_quantity::ParseError| EvalError::new(error.to_string())),
            _ => no_overload(name, args),
        },
        "isQuantity" => |name, args| match args {
            [Value::String(text)] => Ok(Value::Bool(text.parse::<Quantity>().is_ok())),
            _ => no_overload(name, args),
        },
        "sign" | "asApproximateFloat" | "asInteger" | "isInteger" => one,
        "isGreaterThan" | "isLessThan" | "compareTo" => order,
        "add" | "sub" => sum,
        _ => return None,
    })
}

fn one<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::Opaque(OpaqueValue::Quantity(quantity))] = args else {
        return no_overload(name, args);
    };
    Ok(match name {
        "sign" => Value::Int(quantity.sign() as i64),
        "asApproximateFloat" => Value::Double(quantity.to_f64()),
        "isInteger" => Value::Bool(quantity.to_i64().is_some()),
        _ => match quantity.to_i64() {
            Some(number) => Value::Int(number),
            None => return Err(EvalError::new("cannot convert value to integer")),
        },
    })
}

/// Amounts and versions have these in common.
fn order<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let order = match args {
        [
            Value::Opaque(OpaqueValue::Quantity(a)),
            Value::Opaque(OpaqueValue::Quantity(b)),
        ] => a.cmp(b),
        [
            Value::Opaque(OpaqueValue::Semver(a)),
            Value::Opaque(OpaqueValue::Semver(b)),
        ] => a.cmp(b),
        _ => return no_overload(name, args),
    };
    Ok(match name {
        "isGreaterThan" => Value::Bool(order == Ordering::Greater),
        "isLessThan" => Value::Bool(order == Ordering::Less),
        _ => Value::Int(order as i64),
    })
}

fn sum<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let (quantity, other) = match args {
        [
            Value::Opaque(OpaqueValue::Quantity(a)),
            Value::Opaque(OpaqueValue::Quantity(b)),
        ] => (a, Arc::clone(b)),
        [Value::Opaque(OpaqueValue::Quantity(a)), Value::Int(b)] => {
            (a, Arc::new(Quantity::new(*b, Format::DecimalExponent)))
        }
        _ => return no_overload(name, args),
    };
    let mut total = Quantity::clone(quantity);
    if name == "add" {
        total.add(&other);
    } else {
        total.sub(&other);
    }
    Ok(Value::quantity(total))
}
