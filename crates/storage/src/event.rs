//! Events, as watchers receive them.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Key, Revision, WatchError};

/// One commit, as a watcher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The commit. No other event of the store has this revision.
    pub revision: Revision,
    /// The key it changed.
    pub key: Key,
    /// How.
    pub change: Change,
}

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was created with this value.
    Created(Bytes),
    /// It got this value.
    Updated(Bytes),
    /// It was deleted or has expired.
    Deleted,
}

/// Some events of a watch, and how far they reach.
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
    /// Waits for the next batch. Must lose nothing when the future is dropped before it is ready.
    async fn next(&mut self) -> Result<EventBatch, WatchError>;
}

// --- WatchStream ---

impl WatchStream {
    /// Wraps a backend's source.
    pub fn new(source: impl WatchSource + 'static) -> Self {
        Self(Box::new(source))
    }

    /// Waits for the next batch. An error is final: the watcher reads the range again and watches from
    /// there. Dropping the future before it is ready loses nothing.
    pub async fn next(&mut self) -> Result<EventBatch, WatchError> {
        self.0.next().await
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchStream")
    }
}
