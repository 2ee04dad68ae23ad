//! Label selectors in requests and objects: the engine is `k3-labels`, here are the errors of the API.

// upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go NewRequirement, Parse

mod object;

use k3_labels::InvalidRequirement;
pub use k3_labels::{Labels, Operator, Requirement, Selector};
use serde_json::Value;

pub use self::object::{
    FromObjectError, InvalidValues, UnknownOperators, from_labels, from_object, validate,
    validate_requirement,
};
use crate::field::{self, Error, Path};

/// A text that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A word stands where another should.
    #[error("{0}")]
    Unexpected(String),
    /// A requirement cannot be read, or its key or values are not valid.
    #[error("unable to parse requirement: {0}")]
    Requirement(String),
}

/// Reads a selector. Errors name no location; see [`parse_at`].
pub fn parse(text: &str) -> Result<Selector, ParseError> {
    parse_at(text, &Path::NIL)
}

/// Reads a selector that stands in a field.
pub fn parse_at(text: &str, at: &Path<'_>) -> Result<Selector, ParseError> {
    text.parse().map_err(|error| match error {
        k3_labels::ParseError::Unexpected(word) => ParseError::Unexpected(word.to_string()),
        k3_labels::ParseError::Requirement(word) => ParseError::Requirement(word.to_string()),
        k3_labels::ParseError::Key { key, messages } => {
            ParseError::Requirement(Error::invalid(at, &key, messages.join("; ")).to_string())
        }
        k3_labels::ParseError::Invalid(invalid) => {
            ParseError::Requirement(joined(&field_errors(&invalid, at)))
        }
    })
}

/// The errors of a requirement that stands in a field.
fn field_errors(invalid: &InvalidRequirement, at: &Path<'_>) -> Vec<Error> {
    let InvalidRequirement { key, values, errors } = invalid;
    let values_at = at.child("values");
    let errors = errors.iter().map(|error| match error {
        k3_labels::RequirementError::Key(messages) => {
            Error::invalid(&at.child("key"), key, messages.join("; "))
        }
        k3_labels::RequirementError::ValueCount(detail) => {
            Error::invalid(&values_at, Value::from(values.clone()), *detail)
        }
        k3_labels::RequirementError::NotInteger(position, detail) => {
            Error::invalid(&values_at.index(*position), &values[*position], *detail)
        }
        k3_labels::RequirementError::Value(position, messages) => Error::invalid(
            &values_at.index(*position).key(key),
            &values[*position],
            messages.join("; "),
        ),
    });
    errors.collect()
}

/// The text of the errors of one requirement.
fn joined(errors: &[Error]) -> String {
    field::aggregate(errors).unwrap_or_default()
}

#[cfg(test)]
mod tests;
