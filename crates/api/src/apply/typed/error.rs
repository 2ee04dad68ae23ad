//! Errors of values that do not fit their type.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/helpers.go ValidationError, ValidationErrors

use std::fmt;

use crate::apply::PathElement;

/// One validation error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// Where, in the form of field paths; empty for the whole value.
    pub path: String,
    /// What.
    pub message: String,
}

/// All that is wrong with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeErrors(pub Vec<TypeError>);

// --- TypeError ---

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

// --- TypeErrors ---

impl TypeErrors {
    /// One error of the value itself.
    pub(super) fn of(message: String) -> Self {
        Self(vec![TypeError {
            path: String::new(),
            message,
        }])
    }

    /// The errors of a part as errors of the whole.
    pub(super) fn below(mut self, element: &PathElement<'_>) -> Self {
        for error in &mut self.0 {
            error.path.insert_str(0, &element.to_string());
        }
        self
    }
}

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for TypeErrors {}
