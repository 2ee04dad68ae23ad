//! Conditions, as most kinds carry them in their status.

use serde_json::Value;

use super::faults;
use crate::{
    field::{Error, Path},
    name,
    rules::{Errors, Tree},
};

const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON_BYTES: usize = 1024;
const MESSAGE_BYTES: usize = 32 * 1024;

/// What is wrong with a list of conditions.
pub(crate) fn validate_all(conditions: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let kind = condition.text("type");
        if conditions[..index].iter().any(|other| other.text("type") == kind) {
            errors.push(Error::duplicate(&at, kind));
        }
        validate(condition, &at, errors);
    }
}

fn validate(condition: &Value, at: &Path<'_>, errors: &mut Errors) {
    match condition.text("type") {
        "" => errors.push(Error::required(&at.child("type"), "is required")),
        kind => faults::tell(kind, name::label_key(kind), &at.child("type"), errors),
    }
    match condition.text("status") {
        "" => errors.push(Error::required(&at.child("status"), "")),
        status if STATUSES.contains(&status) => {}
        status => errors.push(Error::not_supported(&at.child("status"), status, STATUSES)),
    }
    if let Some(generation) = condition.int("observedGeneration").filter(|number| *number < 0) {
        let detail = "must be greater than or equal to zero";
        errors.push(Error::invalid(
            &at.child("observedGeneration"),
            generation,
            detail,
        ));
    }
    if !condition.has("lastTransitionTime") {
        errors.push(Error::required(&at.child("lastTransitionTime"), ""));
    }
    let (reason, place) = (condition.text("reason"), at.child("reason"));
    if reason.is_empty() {
        errors.push(Error::required(&place, ""));
    } else {
        faults::tell(reason, name::condition_reason(reason), &place, errors);
        if reason.len() > REASON_BYTES {
            errors.push(Error::too_long(&place, REASON_BYTES));
        }
    }
    if condition.text("message").len() > MESSAGE_BYTES {
        errors.push(Error::too_long(&at.child("message"), MESSAGE_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_says_what_since_when_and_why() {
        let good = json!({"type": "a.io/B", "status": "True", "lastTransitionTime": "x", "reason": "A,b:C_"});
        let bad = json!({"type": "a.io/B", "status": "true", "observedGeneration": -1, "reason": "1"});
        let mut errors = Errors::new();
        validate_all(&[good], &Path::new("c"), &mut errors);
        assert_eq!(errors, []);
        validate_all(&[bad.clone(), bad], &Path::new("c"), &mut errors);
        let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told[..3],
            [
                "c[0].status: Unsupported value: \"true\": supported values: \"False\", \"True\", \"Unknown\"",
                "c[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
                "c[0].lastTransitionTime: Required value",
            ]
        );
        assert!(told[3].starts_with("c[0].reason: Invalid value: \"1\": a condition reason must start with"));
        assert_eq!(told[4], "c[1]: Duplicate value: \"a.io/B\"");
    }
}
