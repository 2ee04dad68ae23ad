//! A watcher of a watch cache: filter and queue.

use std::{
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use k3_storage::Revision;
use tokio::sync::mpsc;

use super::{CachedObject, EventDelivery};

/// How many events may wait for a watcher. A client that is this far behind is better served by a new list.
const QUEUE: usize = 8192;

/// Which part of a resource a watcher looks at: what the cache sorts events by. What else a watcher selects by, it
/// looks at itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WatchFilter {
    /// All of it.
    Everything,
    /// What has a key with this beginning: a namespace.
    Under(String),
    /// The object with this key.
    Key(String),
    /// Objects with this value in the field at this position.
    Field(usize, String),
}

/// The receiving end. Dropping it ends the watch.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go cacheWatcher
pub(crate) struct CacheWatcher {
    queue: mpsc::Receiver<Arc<EventDelivery>>,
    /// Events from before the watch started, delivered first.
    backlog: std::vec::IntoIter<Arc<EventDelivery>>,
    /// Events up to here are left out.
    after: Revision,
    /// Set when events were lost for good: the oldest revision that a new watch can begin after.
    lost: Arc<OnceLock<Revision>>,
}

/// The sending end.
pub(super) struct WatchSender {
    queue: mpsc::Sender<Arc<EventDelivery>>,
    lost: Arc<OnceLock<Revision>>,
}

/// A queue for events after a revision, with a backlog.
pub(super) fn queue(backlog: Vec<Arc<EventDelivery>>, after: Revision) -> (WatchSender, CacheWatcher) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let lost = Arc::new(OnceLock::new());
    let sender = WatchSender {
        queue: sender,
        lost: Arc::clone(&lost),
    };
    let watcher = CacheWatcher {
        queue,
        backlog: backlog.into_iter(),
        after,
        lost,
    };
    (sender, watcher)
}

// --- WatchFilter ---

impl WatchFilter {
    /// Whether an object is within it. Fields are read by `field`.
    pub(super) fn concerns<'o>(
        &self,
        object: &'o CachedObject,
        field: impl Fn(&'o CachedObject, usize) -> &'o str,
    ) -> bool {
        match self {
            WatchFilter::Everything => true,
            WatchFilter::Under(prefix) => object.key.starts_with(prefix.as_str()),
            WatchFilter::Key(key) => *object.key == **key,
            WatchFilter::Field(position, value) => field(object, *position) == value,
        }
    }
}

// --- CacheWatcher ---

impl CacheWatcher {
    /// The next event. `None`: the watcher was too slow, the server ends, or the history is lost.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Arc<EventDelivery>>> {
        if let Some(delivery) = self.backlog.next() {
            return Poll::Ready(Some(delivery));
        }
        loop {
            match self.queue.poll_recv(context) {
                // The server lags behind the one that the client comes from: the client has seen it.
                Poll::Ready(Some(delivery)) if delivery.event.revision <= self.after => {}
                other => return other,
            }
        }
    }

    /// Whether the watch ended because events were lost: the oldest revision that a new watch can begin after. To be asked when
    /// there are no more events.
    pub(crate) fn lost_history(&self) -> Option<Revision> {
        self.lost.get().copied()
    }
}

// --- WatchSender ---

impl WatchSender {
    /// Queues an event. `false`: the watcher is closed or too slow.
    pub(super) fn send(&self, delivery: &Arc<EventDelivery>) -> bool {
        self.queue.try_send(Arc::clone(delivery)).is_ok()
    }

    /// Ends the watch, because events are missing from here on. What is in the queue is still delivered.
    pub(super) fn lose_history(self, oldest: Revision) {
        // Set before the queue ends, which is when the watcher looks.
        let _ = self.lost.set(oldest);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}
