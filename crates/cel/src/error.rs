//! Why an expression gives no value.

// upstream: vendor/github.com/google/cel-go/common/types/err.go Err, NewErr

use std::{borrow::Cow, fmt};

/// Why an expression gave no value. Shown with the messages that clients know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError {
    kind: ErrorKind,
    message: Cow<'static, str>,
}

/// What sort of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// What was asked of the values cannot be done.
    Failed,
    /// A function was called with values that it is not for.
    NoSuchOverload,
    /// It would have cost more than a call may.
    CostLimit,
}

impl EvalError {
    /// A failure with a message.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        let kind = if message.starts_with("no such overload") {
            ErrorKind::NoSuchOverload
        } else {
            ErrorKind::Failed
        };
        EvalError { kind, message }
    }

    pub(crate) fn no_such_overload() -> Self {
        EvalError::new("no such overload")
    }

    pub(crate) fn cost_limit() -> Self {
        EvalError {
            kind: ErrorKind::CostLimit,
            message: "operation cancelled: actual cost limit exceeded".into(),
        }
    }

    /// What sort of failure it was.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvalError {}
