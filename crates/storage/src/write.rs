//! Conditional writes of one key.

use std::time::Duration;

use bytes::Bytes;

use crate::{CommitError, Key, Revision};

/// Maximum size of a value: 1.5 MiB.
pub const MAX_VALUE_BYTES: usize = 1_572_864;

/// A compare-and-put or compare-and-delete of one key.
///
/// One key per write is sufficient for Kubernetes, and every revision is exactly one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key to change.
    pub key: Key,
    /// The precondition.
    pub precondition: Precondition,
    /// The change.
    pub operation: Operation,
}

/// The precondition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The key does not exist.
    Absent,
    /// The entry has this revision.
    At(Revision),
}

/// The change of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Stores the value.
    Put {
        /// The bytes to store.
        value: Bytes,
        /// Time to live, rounded up to whole seconds; `None` for no expiry. A later put without it makes the entry permanent.
        ttl: Option<Duration>,
    },
    /// Removes the entry.
    Delete,
}

// --- Write ---

impl Write {
    /// Stores a value under a key that must not exist.
    pub fn create(key: Key, value: impl Into<Bytes>) -> Self {
        Self {
            key,
            precondition: Precondition::Absent,
            operation: Operation::Put {
                value: value.into(),
                ttl: None,
            },
        }
    }

    /// Replaces the entry that was written at `revision`.
    pub fn update(key: Key, revision: Revision, value: impl Into<Bytes>) -> Self {
        Self {
            key,
            precondition: Precondition::At(revision),
            operation: Operation::Put {
                value: value.into(),
                ttl: None,
            },
        }
    }

    /// Removes the entry that was written at `revision`.
    pub fn delete(key: Key, revision: Revision) -> Self {
        Self {
            key,
            precondition: Precondition::At(revision),
            operation: Operation::Delete,
        }
    }

    /// Sets the time to live of the entry. No effect on a delete.
    #[must_use]
    pub fn expiring(mut self, time: Duration) -> Self {
        if let Operation::Put { ttl, .. } = &mut self.operation {
            *ttl = Some(time);
        }
        self
    }

    /// Rejects writes that no backend accepts.
    pub(crate) fn check(&self) -> Result<(), CommitError> {
        match &self.operation {
            Operation::Put { value, .. } if value.len() > MAX_VALUE_BYTES => Err(CommitError::TooLarge {
                key: self.key.clone(),
                bytes: value.len(),
            }),
            // A delete that requires a missing key would succeed without a change: it is a bug of the caller.
            Operation::Delete if self.precondition == Precondition::Absent => {
                Err(CommitError::Conflict(None))
            }
            _ => Ok(()),
        }
    }
}
