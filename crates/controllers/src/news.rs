//! What people are told about an object by events.

use std::fmt;

/// Something that people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Whether something is wrong.
    pub is_warning: bool,
    /// What it is, in a word.
    pub reason: Box<str>,
    /// What it is.
    pub message: Box<str>,
}

// --- News ---

impl News {
    /// What is as it should be.
    pub fn normal(reason: &str, message: impl fmt::Display) -> Self {
        News {
            is_warning: false,
            reason: reason.into(),
            message: message.to_string().into(),
        }
    }

    /// What is not.
    pub fn warning(reason: &str, message: impl fmt::Display) -> Self {
        News {
            is_warning: true,
            ..News::normal(reason, message)
        }
    }
}
