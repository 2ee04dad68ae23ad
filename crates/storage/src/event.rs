//! Watch events.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Key, Revision, WatchError};

/// A commit as a watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision of the commit, unique among the events of the store.
    pub revision: Revision,
    /// The changed key.
    pub key: Key,
    /// The kind of change.
    pub change: Change,
}

/// The kind of change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key was created with this value.
    Created(Bytes),
    /// The value was replaced.
    Updated(Bytes),
    /// The key was deleted or has expired.
    Deleted,
}

/// Events of a watch, and the revision up to which they are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    /// Events in the order of their revisions. May be empty: then the batch is a bookmark. Shared by
    /// all watchers of one prefix.
    pub events: Arc<[Event]>,
    /// Everything up to here has been delivered; a new watch after it continues without gap or
    /// duplicate. Not lower than the last event's revision, nor than the batch before.
    pub revision: Revision,
}

/// A running watch. Dropping it ends it.
pub struct WatchStream(Box<dyn WatchSource>);

/// What a backend provides behind [`WatchStream`].
#[async_trait]
pub trait WatchSource: Send {
    /// Waits for the next batch. Must be cancel safe.
    async fn next(&mut self) -> Result<EventBatch, WatchError>;
}

// --- WatchStream ---

impl WatchStream {
    /// Wraps a backend's source.
    pub fn new(source: impl WatchSource + 'static) -> Self {
        Self(Box::new(source))
    }

    /// Waits for the next batch. An error is final: list the range again and watch from there. Cancel safe.
    pub async fn next(&mut self) -> Result<EventBatch, WatchError> {
        self.0.next().await
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchStream")
    }
}
