//! What people are told about an object by events.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::events::{EventRecorder, EventType};

/// Something that people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventMessage {
    is_warning: bool,
    reason: Box<str>,
    message: Box<str>,
}

// --- News ---

impl EventMessage {
    /// What is as it should be.
    pub(crate) fn normal(reason: &str, message: impl fmt::Display) -> Self {
        EventMessage {
            is_warning: false,
            reason: reason.into(),
            message: message.to_string().into(),
        }
    }

    /// What is not.
    pub(crate) fn warning(reason: &str, message: impl fmt::Display) -> Self {
        EventMessage {
            is_warning: true,
            ..EventMessage::normal(reason, message)
        }
    }

    /// What it is, in a word.
    #[cfg(test)]
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// What it is, in words.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Tells it.
    pub(crate) fn record(&self, recorder: &EventRecorder, about: &ObjectReference) {
        let kind = if self.is_warning {
            EventType::Warning
        } else {
            EventType::Normal
        };
        recorder.event(about, kind, &self.reason, "", &*self.message);
    }
}
