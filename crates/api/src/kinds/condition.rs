//! Validation of `metav1.Condition` lists: type, status, reason, message, lastTransitionTime.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    field::{Error, Path},
    name,
    strategy::{ErrorList, Tree},
};

const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
    alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or \
    'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
    '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Validates a list of conditions; each type may occur once.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go ValidateConditions
pub(super) fn validate_conditions(conditions: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let field_path = at.index(index);
        let kind = condition.text("type");
        if !seen.insert(kind) {
            errors.push(Error::duplicate(&field_path, kind));
        }
        validate_condition(condition, &field_path, errors);
    }
}

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go ValidateCondition
fn validate_condition(condition: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("type");
    match condition.text("type") {
        "" => errors.push(Error::required(&field_path, "is required")),
        kind => errors.extend(
            name::validate_label_key(kind)
                .into_iter()
                .map(|msg| Error::invalid(&field_path, kind, msg)),
        ),
    }
    match condition.text("status") {
        "" => errors.push(Error::required(&at.child("status"), "")),
        "True" | "False" | "Unknown" => {}
        other => errors.push(Error::not_supported(
            &at.child("status"),
            other,
            ["False", "True", "Unknown"],
        )),
    }
    if let Some(generation) = condition.int("observedGeneration").filter(|one| *one < 0) {
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
    let field_path = at.child("reason");
    match condition.text("reason") {
        "" => errors.push(Error::required(&field_path, "")),
        reason => {
            if !is_reason(reason.as_bytes()) {
                errors.push(Error::invalid(&field_path, reason, REASON));
            }
            if reason.len() > MAX_REASON {
                errors.push(Error::too_long(&field_path, MAX_REASON));
            }
        }
    }
    if condition.text("message").len() > MAX_MESSAGE {
        errors.push(Error::too_long(&at.child("message"), MAX_MESSAGE));
    }
}

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go IsValidConditionReason
fn is_reason(text: &[u8]) -> bool {
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    text.first().is_some_and(u8::is_ascii_alphabetic)
        && text.last().is_some_and(word)
        && text.iter().all(|b| word(b) || matches!(b, b',' | b':'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejects_incomplete_and_duplicate_conditions() {
        let good = json!({"type": "a.b/C", "status": "True", "reason": "A_b", "lastTransitionTime": "t"});
        let bad = json!({"type": "a.b/C", "status": "yes", "reason": "1", "observedGeneration": -1});
        let mut errors = ErrorList::new();
        validate_conditions(std::slice::from_ref(&good), &Path::new("c"), &mut errors);
        assert_eq!(errors, ErrorList::new());
        validate_conditions(&[good, bad, json!({})], &Path::new("c"), &mut errors);
        let messages: Vec<_> = errors
            .iter()
            .map(|e| e.to_string().chars().take(60).collect::<String>())
            .collect();
        assert_eq!(
            messages,
            [
                "c[1]: Duplicate value: \"a.b/C\"",
                "c[1].status: Unsupported value: \"yes\": supported values: \"Fa",
                "c[1].observedGeneration: Invalid value: -1: must be greater ",
                "c[1].lastTransitionTime: Required value",
                "c[1].reason: Invalid value: \"1\": a condition reason must sta",
                "c[2].type: Required value: is required",
                "c[2].status: Required value",
                "c[2].lastTransitionTime: Required value",
                "c[2].reason: Required value",
            ]
        );
    }
}
