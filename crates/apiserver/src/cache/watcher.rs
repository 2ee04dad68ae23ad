//! A watcher of a watch cache: filter and queue.

use std::{
    collections::VecDeque,
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use k3_storage::Revision;
use parking_lot::Mutex;

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
    queue: Arc<WatchQueue>,
    /// Events that were taken from the queue, or happened before the watch started. They are delivered first.
    taken: VecDeque<Arc<EventDelivery>>,
    /// Events up to here are left out.
    after: Revision,
}

/// The sending end. Dropping it ends the queue; what is in it is still delivered.
pub(super) struct WatchSender {
    queue: Arc<WatchQueue>,
}

/// What the two ends share.
pub(super) struct WatchQueue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    /// What the watcher has not taken.
    events: VecDeque<Arc<EventDelivery>>,
    /// The task of the watcher, while it waits.
    reader: Option<Waker>,
    /// Whether the queue is among those whose readers are to be woken.
    is_due: bool,
    /// One of the ends is dropped.
    is_closed: bool,
    /// Set when events were lost for good: the oldest revision that a new watch can begin after.
    lost: Option<Revision>,
}

/// A queue for events after a revision, with a backlog.
pub(super) fn queue(backlog: Vec<Arc<EventDelivery>>, after: Revision) -> (WatchSender, CacheWatcher) {
    let queue = Arc::new(WatchQueue(Mutex::default()));
    let sender = WatchSender {
        queue: Arc::clone(&queue),
    };
    let watcher = CacheWatcher {
        queue,
        taken: backlog.into(),
        after,
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
        loop {
            // The events of the backlog are after that revision. Those of the queue may be before it, if the server lags behind
            // the one that the client comes from: the client has seen them.
            while let Some(delivery) = self.taken.pop_front() {
                if delivery.event.revision > self.after {
                    return Poll::Ready(Some(delivery));
                }
            }
            let mut state = self.queue.0.lock();
            if state.events.is_empty() {
                if state.is_closed {
                    return Poll::Ready(None);
                }
                match &mut state.reader {
                    Some(reader) => reader.clone_from(context.waker()),
                    None => state.reader = Some(context.waker().clone()),
                }
                return Poll::Pending;
            }
            mem::swap(&mut state.events, &mut self.taken);
            drop(state);
        }
    }

    /// Whether the watch ended because events were lost: the oldest revision that a new watch can begin after. To be asked when
    /// there are no more events.
    pub(crate) fn lost_history(&self) -> Option<Revision> {
        self.queue.0.lock().lost
    }
}

impl Drop for CacheWatcher {
    fn drop(&mut self) {
        let mut state = self.queue.0.lock();
        state.is_closed = true;
        // The sender may hold the queue for as long as there is no event.
        state.events = VecDeque::new();
        state.reader = None;
    }
}

// --- WatchSender ---

impl WatchSender {
    /// Queues an event, without waking the watcher: its queue is added to `due`. `false`: the watcher is closed or too slow.
    pub(super) fn send(&self, delivery: &Arc<EventDelivery>, due: &mut Vec<Arc<WatchQueue>>) -> bool {
        let mut state = self.queue.0.lock();
        if state.is_closed || state.events.len() >= QUEUE {
            return false;
        }
        state.events.push_back(Arc::clone(delivery));
        if state.reader.is_some() && !state.is_due {
            state.is_due = true;
            due.push(Arc::clone(&self.queue));
        }
        true
    }

    /// Ends the watch, because events are missing from here on. What is in the queue is still delivered.
    pub(super) fn lose_history(self, oldest: Revision) {
        // Set before the queue ends, which is when the watcher looks.
        self.queue.0.lock().lost = Some(oldest);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue.0.lock().is_closed
    }
}

impl Drop for WatchSender {
    fn drop(&mut self) {
        let mut state = self.queue.0.lock();
        state.is_closed = true;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

// --- WatchQueue ---

impl WatchQueue {
    /// Wakes the watcher, unless it has read meanwhile.
    pub(super) fn wake(&self) {
        let mut state = self.0.lock();
        state.is_due = false;
        if state.events.is_empty() {
            return;
        }
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use bytes::Bytes;
    use k3_storage::{Change, Key};
    use tokio::time::Instant;

    use super::{
        super::{WatchCache, WatchStart},
        *,
    };

    /// Counts how often it is woken.
    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_watcher_is_woken_once_for_several_events() {
        let cache = WatchCache::new([].into(), Revision::ZERO);
        let watch = cache.watch(&WatchFilter::Everything, WatchStart::Now, Revision::ZERO);
        let mut watcher = watch.unwrap().0;
        let wakes = Arc::new(WakeCounter::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut read = || {
            let mut context = Context::from_waker(&waker);
            let mut count = 0;
            while watcher.poll(&mut context).is_ready() {
                count += 1;
            }
            count
        };
        assert_eq!(read(), 0);
        let key = Key::try_new("/registry/core/configmaps/default/a").unwrap();
        let mut revision = 0;
        let mut write = || {
            revision += 1;
            let change = Change::Updated(Bytes::from_static(b"{}"));
            cache.apply(&key, &change, Revision::new(revision), Instant::now());
        };
        write();
        write();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        cache.wake_watchers();
        cache.wake_watchers();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        write();
        // It is awake already.
        cache.wake_watchers();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(read(), 3);
        write();
        cache.wake_watchers();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
        assert_eq!(read(), 1);
    }
}
