//! Events about an object.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::events::{EventRecorder, EventType};

/// Type, reason and message of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventMessage {
    is_warning: bool,
    reason: Box<str>,
    message: Box<str>,
}

// --- EventMessage ---

impl EventMessage {
    /// An event of type Normal.
    pub(crate) fn normal(reason: &str, message: impl fmt::Display) -> Self {
        EventMessage {
            is_warning: false,
            reason: reason.into(),
            message: message.to_string().into(),
        }
    }

    /// An event of type Warning.
    pub(crate) fn warning(reason: &str, message: impl fmt::Display) -> Self {
        EventMessage {
            is_warning: true,
            ..EventMessage::normal(reason, message)
        }
    }

    #[cfg(test)]
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Records it.
    // upstream: staging/src/k8s.io/client-go/tools/record/event.go Event, makeEvent
    pub(crate) fn record(&self, recorder: &EventRecorder, about: &ObjectReference) {
        let kind = if self.is_warning {
            EventType::Warning
        } else {
            EventType::Normal
        };
        recorder.event(about, kind, &self.reason, "", &*self.message);
    }
}
