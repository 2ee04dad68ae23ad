//! What is told of failures.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use k8s_openapi::jiff::Timestamp;

use super::Class;
use crate::Key;

/// So many errors are kept.
const KEPT: usize = 16;

/// An error of a controller.
#[derive(Clone, Debug)]
pub struct LastError {
    /// Which object failed.
    pub key: Key,
    /// What is done about it; `None` for panics and time-outs.
    pub class: Option<Class>,
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
