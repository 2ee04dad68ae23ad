//! The pods to sync.

use std::sync::Arc;

use kubecontroller::workqueue::{WorkItem, WorkQueue, WorkQueueOptions};

use super::store::PodStore;

/// UIDs of the pods to sync. Clones share state.
#[derive(Clone)]
pub(super) struct PodQueue {
    store: Arc<PodStore>,
    queue: WorkQueue<String>,
}

// --- PodQueue ---

impl PodQueue {
    pub(super) fn new(store: Arc<PodStore>) -> Self {
        PodQueue {
            store,
            queue: WorkQueue::new(WorkQueueOptions::default()),
        }
    }

    /// Triggers a sync of a pod. Unknown pods are ignored.
    pub(super) fn enqueue(&self, uid: &str) {
        if self.store.lock().contains_key(uid) {
            self.queue.add(uid.to_owned());
        }
    }

    /// Triggers a sync of all pods.
    pub(super) fn enqueue_all(&self) {
        let all: Vec<_> = self.store.lock().keys().cloned().collect();
        for uid in all {
            self.queue.add(uid);
        }
    }

    /// The next pod that is due; `None` after shutdown.
    pub(super) async fn next(&self) -> Option<WorkItem<String>> {
        self.queue.next().await
    }
}
