//! A change of one key, with what the writer expects to be there.

use std::time::Duration;

use bytes::Bytes;

use crate::{CommitError, Key, Revision};

/// The largest value a store takes: 1.5 MiB.
pub const MAX_VALUE_BYTES: usize = 1_572_864;

/// A compare-and-put or compare-and-delete of one key.
///
/// One key per write is enough for Kubernetes, and makes every revision one event: nothing a watcher
/// could see half of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key to change.
    pub key: Key,
    /// What must be there for the write to happen.
    pub precondition: Precondition,
    /// What to do.
    pub operation: Operation,
}

/// What a writer expects to be under the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    Absent,
    /// An entry written by this commit.
    At(Revision),
}

/// What a write does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Stores the value.
    Put {
        /// The bytes to store.
        value: Bytes,
        /// How long the entry lives; `None` for ever. Rounded up to whole seconds. A later put
        /// without it makes the entry permanent.
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

    /// The same write, of an entry that deletes itself after `ttl`. Has no effect on a delete.
    #[must_use]
    pub fn expiring(mut self, time: Duration) -> Self {
        if let Operation::Put { ttl, .. } = &mut self.operation {
            *ttl = Some(time);
        }
        self
    }

    /// Refuses what no backend may be asked to do.
    pub(crate) fn check(&self) -> Result<(), CommitError> {
        match &self.operation {
            Operation::Put { value, .. } if value.len() > MAX_VALUE_BYTES => Err(CommitError::TooLarge {
                key: self.key.clone(),
                bytes: value.len(),
            }),
            // A delete of nothing can only be an error: it would change nothing and still be reported "done".
            Operation::Delete if self.precondition == Precondition::Absent => {
                Err(CommitError::Conflict(None))
            }
            _ => Ok(()),
        }
    }
}
