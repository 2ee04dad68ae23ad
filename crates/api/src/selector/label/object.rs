//! LabelSelector objects: `matchLabels` and `matchExpressions`.

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go ValidateLabelSelector, ValidateLabelSelectorRequirement

use serde_json::Value;

use super::{Operator, Requirement, Selector, field_errors, joined};
use crate::{
    field::{Error, Path},
    go, name,
};

/// An object that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FromObjectError {
    /// A key or value is not valid, or there are too many or too few values.
    #[error("{0}")]
    Requirement(String),
    /// No such operator.
    #[error("{} is not a valid label selector operator", go::quote(.0))]
    Operator(String),
}

/// Whether values that can be no label are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidValues {
    /// They are errors.
    Refused,
    /// They are taken, because the old object has some.
    Taken,
}

/// Whether unknown operators are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownOperators {
    /// They are errors.
    Refused,
    /// They are accepted: other code validates them.
    Taken,
}

/// What is wrong with a selector object.
pub fn validate(
    at: &Path<'_>,
    selector: &Value,
    values: InvalidValues,
    operators: UnknownOperators,
) -> Vec<Error> {
    let mut errors = Vec::new();
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        errors.extend(name::validate_labels(&at.child("matchLabels"), labels));
    }
    for (i, expression) in expressions(selector).enumerate() {
        errors.extend(validate_requirement(
            &at.child("matchExpressions").index(i),
            expression,
            values,
            operators,
        ));
    }
    errors
}

/// The selector an object means: nothing if there is none, everything if it is empty.
pub fn from_object(selector: Option<&Value>) -> Result<Selector, FromObjectError> {
    let Some(selector) = selector.filter(|s| !s.is_null()) else {
        return Ok(Selector::NOTHING);
    };
    let mut requirements = Vec::new();
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        for (key, value) in labels {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(requirement(key, Operator::Equals, vec![value])?);
        }
    }
    for expression in expressions(selector) {
        let operator = text(expression, "operator");
        let operator = Operator::from_label_selector(operator)
            .ok_or_else(|| FromObjectError::Operator(operator.to_owned()))?;
        let values = values_of(expression).map(str::to_owned).collect();
        requirements.push(requirement(text(expression, "key"), operator, values)?);
    }
    Ok(Selector::new(requirements))
}

/// The selector a plain map of labels means, taken as valid: everything if there is none.
pub fn from_labels(labels: Option<&Value>) -> Selector {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    Selector::from_labels(labels.map(|(key, value)| (key, value.as_str().unwrap_or_default())))
}

/// What is wrong with one of the `matchExpressions` of a selector object.
pub fn validate_requirement(
    at: &Path<'_>,
    expression: &Value,
    values: InvalidValues,
    operators: UnknownOperators,
) -> Vec<Error> {
    let mut errors = Vec::new();
    let operator = text(expression, "operator");
    let count = values_of(expression).count();
    match Operator::from_label_selector(operator) {
        Some(Operator::In | Operator::NotIn) if count == 0 => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(Error::required(&at.child("values"), detail));
        }
        Some(Operator::Exists | Operator::DoesNotExist) if count > 0 => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&at.child("values"), detail));
        }
        None if operators == UnknownOperators::Refused => {
            errors.push(Error::invalid(
                &at.child("operator"),
                operator,
                "not a valid selector operator",
            ));
        }
        _ => {}
    }
    let key = text(expression, "key");
    errors.extend(
        name::validate_label_key(key)
            .into_iter()
            .map(|message| Error::invalid(&at.child("key"), key, message)),
    );
    if values == InvalidValues::Refused {
        let values_at = at.child("values");
        for (i, value) in values_of(expression).enumerate() {
            let messages = name::validate_label_value(value).into_iter();
            errors.extend(messages.map(|message| Error::invalid(&values_at.index(i), value, message)));
        }
    }
    errors
}

fn requirement(key: &str, operator: Operator, values: Vec<String>) -> Result<Requirement, FromObjectError> {
    Requirement::try_new(key, operator, values)
        .map_err(|invalid| FromObjectError::Requirement(joined(&field_errors(&invalid, &Path::NIL))))
}

fn expressions(selector: &Value) -> impl Iterator<Item = &Value> {
    selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn values_of(expression: &Value) -> impl Iterator<Item = &str> {
    expression
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn text<'v>(expression: &'v Value, name: &str) -> &'v str {
    expression.get(name).and_then(Value::as_str).unwrap_or_default()
}
