//! A controller, looked at and changed from outside.

use std::{fmt, sync::Arc, time::Duration};

use super::{LastError, Source, SourceId, runner::Shared};
use crate::{
    Key,
    workqueue::{WorkQueue, WorkQueueStats},
};

/// A handle of a controller, whether it runs or not. Clones are the same.
#[derive(Clone)]
pub struct ControllerHandle {
    shared: Arc<Shared>,
}

// --- ControllerHandle ---

impl ControllerHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        ControllerHandle { shared }
    }

    /// The name of the controller.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its queue: keys that are added to it are reconciled. A controller that is run again has another one then.
    pub fn queue(&self) -> WorkQueue<Key> {
        self.shared.queue()
    }

    /// What there is in its queue, and was.
    pub fn stats(&self) -> WorkQueueStats {
        self.queue().stats()
    }

    /// The keys that are reconciled at this moment, and for how long.
    pub fn processing(&self) -> Vec<(Key, Duration)> {
        self.queue().processing()
    }

    /// The last errors, the newest first.
    pub fn last_errors(&self) -> Vec<LastError> {
        self.shared.errors.all()
    }

    /// Whether it runs, and its workers have begun.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Waits until the keys of everything that was there when each of its sources was started are in the queue. A controller
    /// that does not run has no sources that could be waited for.
    pub async fn wait_for_sync(&self) {
        self.shared.synced().await;
    }

    /// Watches something more. What is there already is reconciled too. A controller that does not run watches it when it
    /// does.
    pub fn add_source(&self, source: impl Source) -> SourceId {
        self.shared.add_source(Arc::new(source))
    }

    /// Watches something no longer. Enqueuer that it has added stay. Says whether there was such a source.
    pub fn remove_source(&self, id: SourceId) -> bool {
        self.shared.remove_source(id)
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle")
            .field("name", &self.name())
            .field("figures", &self.stats())
            .finish_non_exhaustive()
    }
}
