//! The handle of a controller.

use std::{fmt, sync::Arc, time::Duration};

use super::{LastError, Source, SourceId, runner::ControllerShared};
use crate::{
    Key,
    workqueue::{WorkQueue, WorkQueueStats},
};

/// Inspects a controller and changes its sources, whether it is running or not. Clones are handles of the same controller.
#[derive(Clone)]
pub struct ControllerHandle {
    shared: Arc<ControllerShared>,
}

// --- ControllerHandle ---

impl ControllerHandle {
    pub(super) fn new(shared: Arc<ControllerShared>) -> Self {
        ControllerHandle { shared }
    }

    /// The name of the controller.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The work queue. Keys that are added to it are reconciled. Each run of the controller has its own queue.
    pub fn queue(&self) -> WorkQueue<Key> {
        self.shared.queue()
    }

    /// The statistics of the work queue.
    pub fn stats(&self) -> WorkQueueStats {
        self.queue().stats()
    }

    /// The keys that are being reconciled, and for how long.
    pub fn processing(&self) -> Vec<(Key, Duration)> {
        self.queue().processing()
    }

    /// The last errors, newest first.
    pub fn last_errors(&self) -> Vec<LastError> {
        self.shared.errors.all()
    }

    /// Whether the controller is running and its workers have started.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Waits until the initial keys of all sources are in the queue. Returns at once if the controller is not running.
    pub async fn wait_for_sync(&self) {
        self.shared.wait_for_sync().await;
    }

    /// Adds a source. Its initial objects are reconciled too. If the controller is not running, the source starts with it.
    pub fn add_source(&self, source: impl Source) -> SourceId {
        self.shared.add_source(Arc::new(source))
    }

    /// Removes a source. Keys that it has added stay in the queue. Returns whether the source existed.
    pub fn remove_source(&self, id: SourceId) -> bool {
        self.shared.remove_source(id)
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle")
            .field("name", &self.name())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
