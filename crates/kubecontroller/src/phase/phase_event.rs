//! What a machine tells users.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::events::{EventRecorder, EventType};

/// Something that happened to an object, for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseEvent {
    /// Whether users should worry.
    pub warning: bool,
    /// One of the constants of [`reason`].
    pub reason: &'static str,
    /// What happened, in words.
    pub note: String,
}

/// Why there is a notice.
pub mod reason {
    /// The object went to another phase.
    pub const CHANGED: &str = "PhaseChanged";
    /// The phase failed for good.
    pub const FAILED: &str = "PhaseFailed";
    /// A try failed, another will follow.
    pub const RETRY: &str = "PhaseRetry";
    /// The phase took too long.
    pub const TIMED_OUT: &str = "PhaseTimedOut";
    /// The phase failed too often.
    pub const EXHAUSTED: &str = "PhaseTriesExhausted";
    /// The handler of the phase warned.
    pub const WARNED: &str = "PhaseWarning";
    /// The phase waits until somebody approves it.
    pub const APPROVAL: &str = "PhaseApprovalNeeded";
    /// Somebody rejected the phase.
    pub const REJECTED: &str = "PhaseRejected";
    /// The clean-up of a deleted object failed and will be tried again.
    pub const CLEANUP: &str = "CleanupFailed";
}

/// Who passes notices on: a recorder of events, a list in a test. Must not block. Told after the status was written, so
/// nothing is told that did not come to pass.
pub trait PhaseEventSink: Send + Sync + 'static {
    /// Passes a notice about an object on.
    fn tell(&self, about: &ObjectReference, notice: &PhaseEvent);
}

impl<F: Fn(&ObjectReference, &PhaseEvent) + Send + Sync + 'static> PhaseEventSink for F {
    fn tell(&self, about: &ObjectReference, notice: &PhaseEvent) {
        self(about, notice);
    }
}

impl PhaseEventSink for EventRecorder {
    fn tell(&self, about: &ObjectReference, notice: &PhaseEvent) {
        let kind = if notice.warning {
            EventType::Warning
        } else {
            EventType::Normal
        };
        self.event(about, kind, notice.reason, "RunPhase", &notice.note);
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
