//! Numbers: integers stay integers.

use serde_json::{Number, Value};

/// A floating point number as JSON; `None` if it is not finite. Whole ones are written without a fraction, so
/// that `1.0` and `1` are the same.
pub(crate) fn float(number: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and within 53 bits, so exact"
        )]
        return Some(Value::from(number as i64));
    }
    Number::from_f64(number).map(Value::Number)
}

/// Any number; `None` if it is beyond what a double can hold.
pub(super) fn any(literal: &str) -> Option<Value> {
    if let Ok(whole) = literal.parse::<i64>() {
        return Some(Value::from(whole));
    }
    literal.parse().ok().and_then(float)
}
