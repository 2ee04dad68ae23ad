//! One validation error of a field (`field.Error`), and the text of many.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go Error, ErrorType, ErrorBody, ToAggregate

use std::{collections::HashSet, fmt};

use serde_json::Value;

use super::Path;
use crate::{
    go,
    limits::{self, BoundedJson, MAX_MESSAGE_BYTES, MAX_PATH_BYTES, MAX_VALUE_BYTES},
};

/// Something that is wrong with a field. Its texts are bounded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    /// What sort of error it is.
    pub kind: ErrorKind,
    /// The location of the field.
    pub field: String,
    /// The value found there.
    pub value: BadValue,
    /// What to do about it; may be empty.
    pub detail: String,
}

/// The sorts of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A value that is looked up does not exist.
    NotFound,
    /// A value must be given.
    Required,
    /// A value must be there once only.
    Duplicate,
    /// A value is malformed or out of bounds.
    Invalid,
    /// A value is none of those that may stand here.
    NotSupported,
    /// A value may not stand here under these circumstances.
    Forbidden,
    /// A text is too long.
    TooLong,
    /// A text is too short.
    TooShort,
    /// A list has too many items.
    TooMany,
    /// A list has too few items.
    TooFew,
    /// A value is of another type than the schema asks for.
    TypeInvalid,
    /// Not caused by the object.
    Internal,
}

/// A value as an error shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BadValue {
    /// Left out of the text, with the colon before it.
    Omitted,
    /// A string, in quotes.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Anything else, as JSON with sorted keys.
    Json(Value),
    /// Printed already, where the order of the keys matters.
    Printed(String),
}

/// The text of a list of errors: one alone as it is, several in brackets, repeated ones once. `None` if the list
/// is empty.
pub fn aggregate<'e>(errors: impl IntoIterator<Item = &'e Error>) -> Option<String> {
    aggregate_with_omitted(errors, 0)
}

/// The same where some errors were not kept. Beyond [`MAX_MESSAGE_BYTES`] bytes errors are only counted.
pub(crate) fn aggregate_with_omitted<'e>(
    errors: impl IntoIterator<Item = &'e Error>,
    mut omitted: usize,
) -> Option<String> {
    let mut seen = HashSet::new();
    let mut texts = Vec::new();
    let mut bytes = 0;
    for error in errors {
        if bytes > MAX_MESSAGE_BYTES {
            omitted += 1;
            continue;
        }
        let text = error.to_string();
        if seen.contains(&text) {
            continue;
        }
        bytes += limits::encoded_length(&text);
        if bytes > MAX_MESSAGE_BYTES && !texts.is_empty() {
            omitted += 1;
            continue;
        }
        seen.insert(text.clone());
        texts.push(limits::cut_encoded(&text, MAX_MESSAGE_BYTES).into_owned());
    }
    if omitted > 0 {
        texts.push(format!("and {omitted} more errors"));
    }
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

/// `supported values: "a", "b"`; empty if there are none.
pub fn supported_values<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> String {
    let quoted: Vec<_> = values.into_iter().map(|v| go::quote(v.as_ref())).collect();
    if quoted.is_empty() {
        String::new()
    } else {
        format!("supported values: {}", quoted.join(", "))
    }
}

// --- Error ---

impl Error {
    /// A value that is malformed or out of bounds.
    pub fn invalid(at: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, at, value, detail)
    }

    /// A value of another type than the schema asks for.
    pub fn type_invalid(at: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::TypeInvalid, at, value, detail)
    }

    /// A value that must be given.
    pub fn required(at: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, at, "", detail)
    }

    /// A value that may stand in a list once only.
    pub fn duplicate(at: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorKind::Duplicate, at, value, "")
    }

    /// A value that is looked up and does not exist.
    pub fn not_found(at: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorKind::NotFound, at, value, "")
    }

    /// A value that is none of those that may stand here.
    pub fn not_supported<S: AsRef<str>>(
        at: &Path<'_>,
        value: impl Into<BadValue>,
        supported: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::new(ErrorKind::NotSupported, at, value, supported_values(supported))
    }

    /// A value that may not stand here under these circumstances.
    pub fn forbidden(at: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, at, "", detail)
    }

    /// A text of more bytes than allowed.
    pub fn too_long(at: &Path<'_>, bytes: usize) -> Self {
        let detail = format!("may not be more than {}", counted(bytes, "byte"));
        Self::new(ErrorKind::TooLong, at, "<value omitted>", detail)
    }

    /// A text of more characters than allowed.
    pub fn too_long_characters(at: &Path<'_>, characters: usize) -> Self {
        let detail = format!("may not be more than {}", counted(characters, "character"));
        Self::new(ErrorKind::TooLong, at, "<value omitted>", detail)
    }

    /// A text of fewer characters than asked for.
    pub fn too_short(at: &Path<'_>, value: impl Into<BadValue>, characters: usize) -> Self {
        let detail = format!("must be at least {}", counted(characters, "character"));
        Self::new(ErrorKind::TooShort, at, value, detail)
    }

    /// A list of more items than allowed. Without the number of items there are, none is shown.
    pub fn too_many(at: &Path<'_>, actual: Option<usize>, max: usize) -> Self {
        let detail = format!("must have at most {}", counted(max, "item"));
        Self::new(
            ErrorKind::TooMany,
            at,
            actual.map_or(BadValue::Omitted, BadValue::from),
            detail,
        )
    }

    /// A list of fewer items than asked for.
    pub fn too_few(at: &Path<'_>, actual: usize, min: usize) -> Self {
        let detail = format!("must have at least {}", counted(min, "item"));
        Self::new(ErrorKind::TooFew, at, actual, detail)
    }

    /// An error that the object did not cause.
    pub fn internal(at: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, at, "", detail)
    }

    /// The text without the location.
    pub fn body(&self) -> String {
        let mut text = self.kind.label().to_owned();
        if self.kind.shows_value()
            && let Some(value) = self.value.text()
        {
            text.push_str(": ");
            text.push_str(&value);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    fn new(kind: ErrorKind, at: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Error {
            kind,
            field: limits::display(at, MAX_PATH_BYTES),
            value: value.into().bounded(),
            detail: limits::cut_owned(detail.into(), MAX_VALUE_BYTES),
        }
    }

    /// About how many bytes its text takes.
    pub(crate) fn size(&self) -> usize {
        // The text around the value.
        const FRAME: usize = 32;
        FRAME + self.field.len() + self.value.size() + self.detail.len()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for Error {}

// --- ErrorKind ---

impl ErrorKind {
    /// The word programs look for, in the causes of a status.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooShort => "FieldValueTooShort",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TooFew => "FieldValueTooFew",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::Internal => "InternalError",
        }
    }

    fn label(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooShort => "Too short",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TooFew => "Too few",
            ErrorKind::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            ErrorKind::Required
                | ErrorKind::Forbidden
                | ErrorKind::TooLong
                | ErrorKind::TooShort
                | ErrorKind::Internal
        )
    }
}

// --- BadValue ---

impl BadValue {
    /// The same value if its text is short enough, else its beginning.
    fn bounded(self) -> Self {
        match self {
            BadValue::Text(text) if text.len() > MAX_VALUE_BYTES => {
                let end = text.floor_char_boundary(MAX_VALUE_BYTES);
                let shown = go::quote(&text[..end]);
                BadValue::Printed(format!("{shown}... ({} more bytes)", text.len() - end))
            }
            BadValue::Printed(text) => BadValue::Printed(limits::cut_owned(text, MAX_VALUE_BYTES)),
            BadValue::Json(Value::String(text)) => BadValue::Text(text).bounded(),
            BadValue::Json(value @ (Value::Array(_) | Value::Object(_))) => {
                match limits::json(&value, MAX_VALUE_BYTES) {
                    BoundedJson::Whole(_) => BadValue::Json(value),
                    BoundedJson::Cut(begin) => BadValue::Printed(begin),
                }
            }
            other => other,
        }
    }

    /// About how many bytes its text takes.
    pub(crate) fn size(&self) -> usize {
        match self {
            BadValue::Omitted => 0,
            BadValue::Text(text) | BadValue::Printed(text) => text.len(),
            BadValue::Integer(_) => 8,
            BadValue::Json(value) => json_size(value),
        }
    }

    fn text(&self) -> Option<String> {
        match self {
            BadValue::Omitted => None,
            // Top-level strings and floats are printed, not encoded: no escapes of markup, exponents as %v.
            BadValue::Text(text) | BadValue::Json(Value::String(text)) => Some(go::quote(text)),
            BadValue::Integer(number) => Some(number.to_string()),
            BadValue::Json(value @ Value::Number(_)) => Some(go::plain(value)),
            BadValue::Json(value) => Some(go::json(value)),
            BadValue::Printed(text) => Some(text.clone()),
        }
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        BadValue::Text(text.to_owned())
    }
}

impl From<&String> for BadValue {
    fn from(text: &String) -> Self {
        BadValue::Text(text.clone())
    }
}

impl From<String> for BadValue {
    fn from(text: String) -> Self {
        BadValue::Text(text)
    }
}

impl From<i64> for BadValue {
    fn from(number: i64) -> Self {
        BadValue::Integer(number)
    }
}

impl From<i32> for BadValue {
    fn from(number: i32) -> Self {
        BadValue::Integer(number.into())
    }
}

impl From<usize> for BadValue {
    fn from(number: usize) -> Self {
        BadValue::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<Value> for BadValue {
    fn from(value: Value) -> Self {
        BadValue::Json(value)
    }
}

impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        // A long list may be shown by an error of each of its items: it is not copied.
        match (value, limits::json(value, MAX_VALUE_BYTES)) {
            (Value::Array(_) | Value::Object(_), BoundedJson::Cut(begin)) => BadValue::Printed(begin),
            _ => BadValue::Json(value.clone()),
        }
    }
}

/// About how many bytes a value takes as JSON.
fn json_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(json_size).sum::<usize>() + 2,
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| key.len() + 4 + json_size(value))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
mod tests;
