//! Recent errors of a controller, and the event for keys that keep failing.

use std::{collections::VecDeque, sync::Arc};

use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use parking_lot::Mutex;

use super::ErrorClass;
use crate::{
    Key,
    events::{EventRecorder, EventType},
};

/// How many errors are kept.
const MAX_LAST_ERRORS: usize = 16;

/// An error of a controller.
#[derive(Clone, Debug)]
pub struct LastError {
    /// The key whose reconcile failed.
    pub key: Key,
    /// The class of the error; `None` for panics and timeouts.
    pub class: Option<ErrorClass>,
    /// The message.
    pub message: String,
    /// Failures in a row, including this one.
    pub failures: u32,
    /// When it happened.
    pub at: Timestamp,
}

/// The last errors of a controller, newest first.
#[derive(Debug, Default)]
pub(super) struct LastErrors {
    errors: Mutex<VecDeque<LastError>>,
}

/// Records an event for a key that failed several times in a row.
pub(super) struct FailureReporter {
    pub(super) recorder: EventRecorder,
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// Returns the uid of an object, if it exists.
pub(super) type UidLookup = Arc<dyn Fn(&Key) -> Option<String> + Send + Sync>;

// --- FailureReporter ---

impl FailureReporter {
    pub(super) fn report(&self, key: &Key, uid: Option<String>, failures: u32, message: &str) {
        let object = ObjectReference {
            api_version: Some(self.api_version.clone()),
            kind: Some(self.kind.clone()),
            namespace: Some(key.namespace().to_owned()).filter(|namespace| !namespace.is_empty()),
            name: Some(key.name().to_owned()),
            uid,
            ..ObjectReference::default()
        };
        let note = format!("failed {failures} times in a row, still retrying: {message}");
        self.recorder
            .event(&object, EventType::Warning, "ReconcileFailed", "Reconcile", note);
    }
}

// --- LastErrors ---

impl LastErrors {
    pub(super) fn push(&self, error: LastError) {
        let mut errors = self.errors.lock();
        errors.truncate(MAX_LAST_ERRORS - 1);
        errors.push_front(error);
    }

    pub(super) fn all(&self) -> Vec<LastError> {
        let errors = self.errors.lock();
        errors.iter().cloned().collect()
    }
}
