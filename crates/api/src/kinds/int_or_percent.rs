//! Amounts of pods: a number of them, or a share such as `25%`.

use serde_json::Value;

use super::count::NOT_NEGATIVE;
use crate::{
    field::{Error, Path},
    name,
    strategy::ErrorList,
};

/// An amount must be a number that is not negative, or a share.
pub(super) fn positive(amount: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match amount {
        Value::String(text) => errors.extend(
            name::validate_percent(text)
                .into_iter()
                .map(|fault| Error::invalid(at, amount, fault)),
        ),
        _ => {
            if let Some(number) = amount.as_i64().filter(|number| *number < 0) {
                errors.push(Error::invalid(at, number, NOT_NEGATIVE));
            }
        }
    }
}

/// A share may not be more than all.
pub(super) fn within_all(amount: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if share(amount).is_some_and(|share| share > 100) {
        errors.push(Error::invalid(at, amount, "must not be greater than 100%"));
    }
}

/// The number, be it of pods or of hundredths; nothing if it is neither.
pub(super) fn number(amount: &Value) -> i64 {
    match amount {
        Value::String(text) => share(amount).unwrap_or_else(|| text.parse().unwrap_or_default()),
        _ => amount.as_i64().unwrap_or_default(),
    }
}

fn share(amount: &Value) -> Option<i64> {
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
    fn an_amount_is_a_number_or_a_share() {
        let told = |amount: Value| {
            let mut errors = ErrorList::new();
            positive(&amount, &Path::new("a"), &mut errors);
            within_all(&amount, &Path::new("a"), &mut errors);
            errors.first().map(ToString::to_string).unwrap_or_default()
        };
        assert_eq!(told(json!(1000)), "");
        assert_eq!(told(json!("100%")), "");
        assert_eq!(
            told(json!(-1)),
            "a: Invalid value: -1: must be greater than or equal to 0"
        );
        assert_eq!(
            told(json!("101%")),
            "a: Invalid value: \"101%\": must not be greater than 100%"
        );
        assert!(told(json!("5")).starts_with("a: Invalid value: \"5\": a valid percent string must be"));
    }

    #[test]
    fn the_number_of_a_share_is_its_hundredths() {
        let numbers = [json!(3), json!("4%"), json!("5"), json!("x"), Value::Null].map(|v| number(&v));
        assert_eq!(numbers, [3, 4, 5, 0, 0]);
    }
}
