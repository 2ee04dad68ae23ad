//! `IntOrString` fields that count pods: a number, or a percentage such as `25%`.

use serde_json::Value;

use super::counts::NOT_NEGATIVE;
use crate::{
    field::{Error, Path},
    name,
    strategy::ErrorList,
};

// upstream: pkg/apis/apps/validation/validation.go ValidatePositiveIntOrPercent
pub(super) fn validate_positive_int_or_percent(amount: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match amount {
        Value::String(text) => errors.extend(
            name::validate_percent(text)
                .into_iter()
                .map(|msg| Error::invalid(at, amount, msg)),
        ),
        _ => {
            if let Some(number) = amount.as_i64().filter(|number| *number < 0) {
                errors.push(Error::invalid(at, number, NOT_NEGATIVE));
            }
        }
    }
}

// upstream: pkg/apis/apps/validation/validation.go IsNotMoreThan100Percent
pub(super) fn validate_not_more_than_100_percent(amount: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if get_percent_value(amount).is_some_and(|share| share > 100) {
        errors.push(Error::invalid(at, amount, "must not be greater than 100%"));
    }
}

/// The number of pods or of percents; 0 if it is neither.
// upstream: pkg/apis/apps/validation/validation.go getIntOrPercentValue
pub(super) fn get_int_or_percent_value(amount: &Value) -> i64 {
    match amount {
        Value::String(text) => get_percent_value(amount).unwrap_or_else(|| text.parse().unwrap_or_default()),
        _ => amount.as_i64().unwrap_or_default(),
    }
}

// upstream: pkg/apis/apps/validation/validation.go getPercentValue
fn get_percent_value(amount: &Value) -> Option<i64> {
    let digits = amount.as_str()?.strip_suffix('%')?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejects_negative_numbers_and_excessive_percentages() {
        let messages = |amount: Value| {
            let mut errors = ErrorList::new();
            validate_positive_int_or_percent(&amount, &Path::new("a"), &mut errors);
            validate_not_more_than_100_percent(&amount, &Path::new("a"), &mut errors);
            errors.first().map(ToString::to_string).unwrap_or_default()
        };
        assert_eq!(messages(json!(1000)), "");
        assert_eq!(messages(json!("100%")), "");
        assert_eq!(
            messages(json!(-1)),
            "a: Invalid value: -1: must be greater than or equal to 0"
        );
        assert_eq!(
            messages(json!("101%")),
            "a: Invalid value: \"101%\": must not be greater than 100%"
        );
        assert!(messages(json!("5")).starts_with("a: Invalid value: \"5\": a valid percent string must be"));
    }

    #[test]
    fn reads_the_number_of_a_percentage() {
        let numbers = [json!(3), json!("4%"), json!("5"), json!("x"), Value::Null]
            .map(|v| get_int_or_percent_value(&v));
        assert_eq!(numbers, [3, 4, 5, 0, 0]);
    }
}
