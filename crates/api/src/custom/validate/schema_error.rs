//! Errors of schema validation, and their conversion to field errors.

use serde_json::Value;

use super::value_path::ValuePath;
use crate::{
    field::{BadValue, Error, ErrorKind, Path},
    go,
    limits::{self, MAX_PATH_BYTES, MAX_VALUE_BYTES},
    strategy::ErrorList,
};

/// More errors than that are not collected: an object could have a million.
const MAX_ERRORS: usize = 1000;

/// Something that is wrong with a value.
#[derive(Clone, Debug)]
pub(super) struct SchemaError {
    /// Where; `None` if only the text has it.
    path: Option<String>,
    kind: SchemaErrorKind,
    value: BadValue,
    /// The message of the schema.
    text: String,
}

/// How an error is reported.
#[derive(Clone, Debug)]
enum SchemaErrorKind {
    Type,
    Required,
    Options(Vec<String>),
    TooLong(usize),
    TooMany(usize),
    Invalid,
}

/// The result of validating a value.
// upstream: vendor/k8s.io/kube-openapi/pkg/validation/validate/result.go Result
#[derive(Clone, Debug, Default)]
pub(super) struct ValidationResult {
    pub(super) errors: Vec<SchemaError>,
    /// How many checks were passed: of several schemas that do not fit, the one that is nearest explains why.
    pub(super) passed: usize,
}

// --- ValidationResult ---

impl ValidationResult {
    pub(super) fn passed(passed: usize) -> Self {
        ValidationResult {
            errors: Vec::new(),
            passed,
        }
    }

    pub(super) fn is_good(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn merge(&mut self, other: ValidationResult) {
        self.passed += other.passed;
        for error in other.errors {
            self.add(error);
        }
    }

    /// Whether another error would not be kept.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    pub(super) fn add(&mut self, error: SchemaError) {
        if !self.is_full() {
            self.errors.push(error);
        }
    }

    /// The errors of the fields, each once. `at`: where the value stands that was validated.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/validation.go kubeOpenAPIResultToFieldErrors
    pub(super) fn into_errors(self, at: &Path<'_>, errors: &mut ErrorList) {
        let mut reported = std::collections::HashSet::new();
        for error in self.errors {
            if reported.insert(error.text.clone()) {
                errors.push(error.into_error(at));
            }
        }
    }
}

// --- SchemaError ---

impl SchemaError {
    /// About how many bytes its texts take.
    pub(super) fn size(&self) -> usize {
        self.text.len() + self.value.size()
    }

    /// A value of another type.
    pub(super) fn wrong_type(path: &ValuePath<'_>, wanted: &str, found: &str) -> Self {
        let path = limits::display(path, MAX_PATH_BYTES);
        SchemaError {
            text: format!("{path} in body must be of type {wanted}: {}", go::quote(found)),
            path: Some(path),
            kind: SchemaErrorKind::Type,
            value: BadValue::from(found),
        }
    }

    /// A field that must be there.
    pub(super) fn required(path: &ValuePath<'_>) -> Self {
        let path = limits::display(path, MAX_PATH_BYTES);
        SchemaError {
            text: format!("{path} in body is required"),
            path: Some(path),
            kind: SchemaErrorKind::Required,
            value: BadValue::Omitted,
        }
    }

    /// A value that is none of those that may be.
    pub(super) fn not_an_option(path: &ValuePath<'_>, value: &Value, options: &[Value]) -> Self {
        let path = limits::display(path, MAX_PATH_BYTES);
        let mut names = Vec::new();
        let mut bytes = 0;
        for option in options {
            let name = match option {
                Value::String(text) => text.clone(),
                other => go::json(other),
            };
            bytes += name.len();
            names.push(name);
            if bytes > MAX_VALUE_BYTES {
                break;
            }
        }
        SchemaError {
            text: format!(
                "{path} in body should be one of {}",
                go::plain_list(&options[..names.len()])
            ),
            path: Some(path),
            kind: SchemaErrorKind::Options(names),
            value: BadValue::from(value),
        }
    }

    /// A text of too many characters.
    pub(super) fn too_long(path: &ValuePath<'_>, max: i64) -> Self {
        let path = limits::display(path, MAX_PATH_BYTES);
        SchemaError {
            text: format!("{path} in body should be at most {max} chars long"),
            path: Some(path),
            kind: SchemaErrorKind::TooLong(usize::try_from(max).unwrap_or_default()),
            value: BadValue::Omitted,
        }
    }

    /// A list or an object of too many parts.
    pub(super) fn too_many(path: &ValuePath<'_>, what: &str, actual: usize, max: i64) -> Self {
        let path = limits::display(path, MAX_PATH_BYTES);
        SchemaError {
            text: format!("{path} in body should have at most {max} {what}"),
            path: Some(path),
            kind: SchemaErrorKind::TooMany(usize::try_from(max).unwrap_or_default()),
            value: BadValue::from(actual),
        }
    }

    /// Anything else: what is wrong, after the location and ` in body `.
    pub(super) fn invalid(path: &ValuePath<'_>, value: impl Into<BadValue>, message: &str) -> Self {
        let path = limits::display(path, MAX_PATH_BYTES);
        SchemaError {
            text: format!("{path} in body {message}"),
            path: Some(path),
            kind: SchemaErrorKind::Invalid,
            value: value.into(),
        }
    }

    /// The same with a message that contains the path itself.
    pub(super) fn with_text(path: &ValuePath<'_>, value: impl Into<BadValue>, text: String) -> Self {
        SchemaError {
            path: Some(limits::display(path, MAX_PATH_BYTES)),
            kind: SchemaErrorKind::Invalid,
            value: value.into(),
            text,
        }
    }

    /// An error that no field is named for.
    pub(super) fn without_path(text: String) -> Self {
        SchemaError {
            path: None,
            kind: SchemaErrorKind::Invalid,
            value: BadValue::from(""),
            text,
        }
    }

    fn into_error(self, at: &Path<'_>) -> Error {
        let field = self.field(at);
        let mut error = Error::invalid(at, self.value, self.text);
        error.field = field;
        match self.kind {
            SchemaErrorKind::Invalid => {}
            SchemaErrorKind::Type => error.kind = ErrorKind::TypeInvalid,
            SchemaErrorKind::Required => {
                error.kind = ErrorKind::Required;
                error.detail.clear();
                error.value = BadValue::from("");
            }
            SchemaErrorKind::Options(options) => {
                let value = error.value;
                let mut supported = Error::not_supported(at, value, options);
                supported.field = error.field;
                return supported;
            }
            SchemaErrorKind::TooLong(max) => {
                let mut long = Error::too_long(at, max);
                long.field = error.field;
                return long;
            }
            SchemaErrorKind::TooMany(max) => {
                let mut many = Error::too_many(at, None, max);
                many.value = error.value;
                many.field = error.field;
                return many;
            }
        }
        error
    }

    fn field(&self, at: &Path<'_>) -> String {
        let path = self.path.as_deref().unwrap_or_default();
        let path = path.strip_prefix('.').unwrap_or(path);
        if path.is_empty() {
            limits::display(at, MAX_PATH_BYTES)
        } else {
            limits::display(&at.child(path), MAX_PATH_BYTES)
        }
    }
}
