//! Validates numbers: range of the type, `minimum`, `maximum`, `multipleOf`.

use serde_json::{Number, Value};

use super::{
    super::node::{Bounds, Kind, Node, SchemaFlag},
    format::Format,
    schema_error::{SchemaError, ValidationResult},
    value_path::ValuePath,
};
use crate::{field::BadValue, go};

/// The largest whole number that a float holds with all below it.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// A number as programs hold it.
#[derive(Clone, Copy, Debug)]
enum NumberValue {
    Whole(i64),
    Float(f64),
}

/// Whether a number is whole although it is written as a fraction.
pub(super) fn is_whole(number: f64) -> bool {
    if !number.is_finite() || number.abs() > SAFE {
        return false;
    }
    let nearest = number.trunc();
    if number.fract() == 0.0 {
        return true;
    }
    let size = number.abs();
    let other = nearest.abs();
    other != 0.0 && (number - nearest).abs() / (size + other) < 1e-9
}

/// The name of the type of a number as programs hold it, and its format.
pub(super) fn type_of(number: &Number) -> (&'static str, &'static str) {
    if number.is_i64() {
        ("integer", "int64")
    } else {
        ("number", "float64")
    }
}

/// Validates a number.
// upstream: vendor/k8s.io/kube-openapi/pkg/validation/validate/validator.go Validate; numberValidator
pub(super) fn validate(number: &Number, node: &Node, path: &ValuePath<'_>) -> ValidationResult {
    let mut result = ValidationResult::passed(1);
    let number_value = NumberValue::of(number);
    let extras = node.extras();
    let format = extras
        .and_then(|extras| extras.format)
        .filter(|format| match node.kind {
            Kind::Integer => matches!(format, Format::Int32 | Format::Int64),
            Kind::Number => matches!(format, Format::Float | Format::Double),
            _ => false,
        });
    let range = Range {
        kind: node.kind,
        format,
    };
    let shown = Value::Number(number.clone());
    if let Some(text) = range.range_error(number_value, "Checked", path) {
        result.add(SchemaError::without_path(text));
    }
    let Some(bounds) = extras.and_then(|extras| extras.bounds.as_deref()) else {
        return result;
    };
    multiple(number_value, bounds, &range, path, &mut result);
    let exclusive = node.has_flag(SchemaFlag::ExclusiveMinimum);
    if let Some(minimum) = bounds.minimum {
        let (below, bound) = range.bound(number_value, minimum, "Minimum boundary", path, &mut result);
        let wrong = below.is_lt() || (exclusive && below.is_eq());
        if wrong {
            let message = if exclusive {
                "greater than"
            } else {
                "greater than or equal to"
            };
            let message = format!("should be {message} {bound}");
            result.add(SchemaError::invalid(path, &shown, &message));
        }
    }
    let exclusive = node.has_flag(SchemaFlag::ExclusiveMaximum);
    if let Some(maximum) = bounds.maximum {
        let (above, bound) = range.bound(number_value, maximum, "Maximum boundary", path, &mut result);
        let wrong = above.is_gt() || (exclusive && above.is_eq());
        if wrong {
            let message = if exclusive {
                "less than"
            } else {
                "less than or equal to"
            };
            let message = format!("should be {message} {bound}");
            result.add(SchemaError::invalid(path, &shown, &message));
        }
    }
    result
}

fn multiple(
    number_value: NumberValue,
    bounds: &Bounds,
    range: &Range,
    path: &ValuePath<'_>,
    result: &mut ValidationResult,
) {
    let Some(factor) = bounds.multiple_of else {
        return;
    };
    let fits = range.range_error(NumberValue::Float(factor), "MultipleOf", path);
    let whole = match (number_value, fits) {
        (NumberValue::Whole(number), None) => Some((number, truncated(factor))),
        (_, None) => None,
        (_, Some(text)) => {
            result.add(SchemaError::without_path(text));
            None
        }
    };
    let (good, shown, value) = match whole {
        Some((_, divisor)) if divisor <= 0 => {
            let text = format!("factor MultipleOf declared for {path} must be positive: {divisor}");
            result.add(SchemaError::with_text(path, divisor, text));
            return;
        }
        Some((number, divisor)) => (
            number % divisor == 0,
            divisor.to_string(),
            BadValue::Integer(number),
        ),
        None if factor <= 0.0 => {
            let shown = go::float(factor);
            let text = format!("factor MultipleOf declared for {path} must be positive: {shown}");
            result.add(SchemaError::with_text(path, Value::from(factor), text));
            return;
        }
        None => {
            let number = number_value.float();
            let times = if factor < 1.0 {
                1.0 / factor * number
            } else {
                number / factor
            };
            (
                is_whole(times),
                go::float(factor),
                BadValue::Json(Value::from(number)),
            )
        }
    };
    if !good {
        result.add(SchemaError::invalid(
            path,
            value,
            &format!("should be a multiple of {shown}"),
        ));
    }
}

/// What a type and its format can hold.
struct Range {
    kind: Kind,
    format: Option<Format>,
}

impl Range {
    /// Why a number does not fit, if it does not.
    fn range_error(&self, number_value: NumberValue, what: &str, path: &ValuePath<'_>) -> Option<String> {
        let fits = match (self.kind, self.format) {
            (Kind::Integer, Some(Format::Int32)) => number_value
                .whole()
                .is_some_and(|number| i32::try_from(number).is_ok()),
            (Kind::Integer, _) => number_value.whole().is_some(),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "that it becomes infinite is what is asked"
            )]
            (_, Some(Format::Float)) => (number_value.float() as f32).is_finite(),
            _ => true,
        };
        if fits {
            return None;
        }
        let kind = self.kind.name();
        Some(match self.format {
            Some(format) => format!(
                "{what} value must be of type {kind} with format {} in {path}",
                format.name()
            ),
            None => format!("{what} value must be of type {kind} (default format) in {path}"),
        })
    }

    /// How a number compares to a bound, and the bound as it is reported.
    fn bound(
        &self,
        number_value: NumberValue,
        bound: f64,
        what: &str,
        path: &ValuePath<'_>,
        result: &mut ValidationResult,
    ) -> (std::cmp::Ordering, String) {
        let error = self.range_error(NumberValue::Float(bound), what, path);
        if let (NumberValue::Whole(number), None) = (number_value, &error) {
            let bound = truncated(bound);
            return (number.cmp(&bound), bound.to_string());
        }
        if let Some(text) = error {
            result.add(SchemaError::without_path(text));
        }
        let order = number_value
            .float()
            .partial_cmp(&bound)
            .unwrap_or(std::cmp::Ordering::Equal);
        (order, go::float(bound))
    }
}

// --- Held ---

impl NumberValue {
    fn of(number: &Number) -> NumberValue {
        match number.as_i64() {
            Some(whole) => NumberValue::Whole(whole),
            None => NumberValue::Float(number.as_f64().unwrap_or_default()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "bounds are floats for everybody")]
    fn float(self) -> f64 {
        match self {
            NumberValue::Whole(number) => number as f64,
            NumberValue::Float(number) => number,
        }
    }

    /// The number, if it is whole and fits into 64 bits.
    fn whole(self) -> Option<i64> {
        match self {
            NumberValue::Whole(number) => Some(number),
            NumberValue::Float(number) => {
                (number.fract() == 0.0 && number.abs() < 9.3e18).then(|| truncated(number))
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "what does not fit becomes the nearest that does"
)]
fn truncated(number: f64) -> i64 {
    number as i64
}
