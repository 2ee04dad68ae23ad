//! Events that a state machine records about its objects.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::events::{EventRecorder, EventType};

/// An event about an object of a state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseEvent {
    /// Whether the event is of type `Warning` instead of `Normal`.
    pub warning: bool,
    /// One of the constants of [`reason`].
    pub reason: &'static str,
    /// A human-readable description.
    pub note: String,
}

/// The reasons of [`PhaseEvent`]s.
pub mod reason {
    /// The object moved to another phase.
    pub const CHANGED: &str = "PhaseChanged";
    /// The phase failed fatally.
    pub const FAILED: &str = "PhaseFailed";
    /// A try failed and will be retried.
    pub const RETRY: &str = "PhaseRetry";
    /// The phase exceeded its timeout.
    pub const TIMED_OUT: &str = "PhaseTimedOut";
    /// The phase used up its tries.
    pub const EXHAUSTED: &str = "PhaseTriesExhausted";
    /// The handler of the phase returned a warning.
    pub const WARNED: &str = "PhaseWarning";
    /// The phase waits for approval.
    pub const APPROVAL: &str = "PhaseApprovalNeeded";
    /// A user rejected the phase.
    pub const REJECTED: &str = "PhaseRejected";
    /// The clean-up of a terminating object failed and will be retried.
    pub const CLEANUP: &str = "CleanupFailed";
}

/// Receives the events of a state machine: an [`EventRecorder`], or a list in a test. The machine calls it after it has
/// written the status, so no event reports a transition that was not stored.
pub trait PhaseEventSink: Send + Sync + 'static {
    /// Records an event about an object. Must not block.
    fn record(&self, about: &ObjectReference, event: &PhaseEvent);
}

impl<F: Fn(&ObjectReference, &PhaseEvent) + Send + Sync + 'static> PhaseEventSink for F {
    fn record(&self, about: &ObjectReference, event: &PhaseEvent) {
        self(about, event);
    }
}

impl PhaseEventSink for EventRecorder {
    fn record(&self, about: &ObjectReference, event: &PhaseEvent) {
        let kind = if event.warning {
            EventType::Warning
        } else {
            EventType::Normal
        };
        self.event(about, kind, event.reason, "RunPhase", &event.note);
    }
}

// --- PhaseEvent ---

impl PhaseEvent {
    pub(super) fn normal(reason: &'static str, note: String) -> Self {
        PhaseEvent {
            warning: false,
            reason,
            note,
        }
    }

    pub(super) fn warning(reason: &'static str, note: String) -> Self {
        PhaseEvent {
            warning: true,
            reason,
            note,
        }
    }
}
