//! What is told of failures.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};

use super::ErrorClass;
use crate::{
    Key,
    events::{EventRecorder, EventType},
};

/// So many errors are kept.
const KEPT: usize = 16;

/// An error of a controller.
#[derive(Clone, Debug)]
pub struct LastError {
    /// Which object failed.
    pub key: Key,
    /// What is done about it; `None` for panics and time-outs.
    pub class: Option<ErrorClass>,
    /// What was said.
    pub message: String,
    /// How often it has failed in a row.
    pub failures: u32,
    /// When.
    pub at: Timestamp,
}

/// The last errors of a controller, the newest first.
#[derive(Debug, Default)]
pub(super) struct LastErrors {
    errors: Mutex<VecDeque<LastError>>,
}

/// Tells users of keys that fail again and again.
pub(super) struct Reporter {
    pub(super) recorder: EventRecorder,
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// The uid of an object, if it is there.
pub(super) type UidOf = Arc<dyn Fn(&Key) -> Option<String> + Send + Sync>;

// --- Reporter ---

impl Reporter {
    pub(super) fn stuck(&self, key: &Key, uid: Option<String>, failures: u32, message: &str) {
        let object = ObjectReference {
            api_version: Some(self.api_version.clone()),
            kind: Some(self.kind.clone()),
            namespace: Some(key.namespace().to_owned()).filter(|namespace| !namespace.is_empty()),
            name: Some(key.name().to_owned()),
            uid,
            ..ObjectReference::default()
        };
        let note = format!("failed {failures} times in a row, and is tried again: {message}");
        self.recorder
            .event(&object, EventType::Warning, "ReconcileFailed", "Reconcile", note);
    }
}

// --- LastErrors ---

impl LastErrors {
    pub(super) fn push(&self, error: LastError) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.truncate(KEPT - 1);
        errors.push_front(error);
    }

    pub(super) fn all(&self) -> Vec<LastError> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.iter().cloned().collect()
    }
}
