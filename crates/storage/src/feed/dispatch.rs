//! Dispatches each commit to the watchers of the prefixes of its key.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use crate::{Event, EventBatch, Prefix, Revision};

/// Maximum number of queued batches of a watcher. A slower watcher falls back to reading the history.
const QUEUE: usize = 256;

/// The commits of a store, in order, for any number of watchers.
pub(crate) struct EventFeed {
    state: Mutex<FeedState>,
}

/// The subscription of a watcher.
pub(crate) struct FeedSubscription {
    /// The batches that follow `position`. Ends when the watcher fell behind, or the feed closed.
    pub(crate) batches: mpsc::Receiver<EventBatch>,
    /// Everything up to here was published before the subscription began.
    pub(crate) position: Revision,
}

/// Error: the feed ended because the store was closed.
pub(crate) struct FeedClosed;

struct FeedState {
    /// The revision up to which all events were dispatched.
    published: Revision,
    /// The subscribers by prefix. No list is empty.
    subscribers: HashMap<Prefix, Vec<FeedSubscriber>>,
    /// Set once, by `close`.
    ended: bool,
}

struct FeedSubscriber {
    queue: mpsc::Sender<EventBatch>,
    /// How far the batches in the queue reach. Never above `FeedState::published`.
    notified: Revision,
}

// --- EventFeed ---

impl EventFeed {
    /// A feed whose next event follows `published`.
    pub(crate) fn new(published: Revision) -> Self {
        let state = FeedState {
            published,
            subscribers: HashMap::new(),
            ended: false,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    /// Dispatches events, which must directly follow the published ones.
    pub(crate) fn publish(&self, events: &[Event]) {
        let Some(last) = events.last() else { return };
        let mut state = self.lock();
        debug_assert!(
            state.published < events[0].revision,
            "events are published once, in order"
        );
        state.published = last.revision;
        if !state.subscribers.is_empty() {
            state.dispatch(events);
        }
    }

    /// Advances the feed to a revision without further visible events up to it.
    pub(crate) fn advance(&self, to: Revision) {
        let mut state = self.lock();
        state.published = state.published.max(to);
    }

    /// Sends a bookmark to every watcher, for prefixes without events.
    pub(crate) fn announce(&self) {
        let mut state = self.lock();
        let revision = state.published;
        let nothing: Arc<[Event]> = Arc::new([]);
        state.subscribers.retain(|_, list| {
            list.retain_mut(|subscriber| {
                subscriber.notified >= revision
                    || subscriber.notify(EventBatch {
                        events: Arc::clone(&nothing),
                        revision,
                    })
            });
            !list.is_empty()
        });
    }

    /// The revision up to which all events were dispatched.
    pub(crate) fn position(&self) -> Revision {
        self.lock().published
    }

    /// Subscribes to a prefix.
    pub(crate) fn subscribe(&self, prefix: &Prefix) -> Result<FeedSubscription, FeedClosed> {
        let mut state = self.lock();
        if state.ended {
            return Err(FeedClosed);
        }
        let (queue, batches) = mpsc::channel(QUEUE);
        let position = state.published;
        let list = state.subscribers.entry(prefix.clone()).or_default();
        // Remove disconnected watchers here too, because a prefix without events would accumulate them.
        list.retain(|subscriber| !subscriber.queue.is_closed());
        list.push(FeedSubscriber {
            queue,
            notified: position,
        });
        Ok(FeedSubscription { batches, position })
    }

    /// Moves the feed to a revision that was not reached by events, and makes every watcher read the history, which reports that
    /// the skipped events were compacted.
    pub(crate) fn jump(&self, to: Revision) {
        let mut state = self.lock();
        state.published = to;
        state.subscribers.clear();
    }

    /// Ends all watches, after the batches already queued.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.subscribers.clear();
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock()
    }
}

// --- FeedState ---

impl FeedState {
    fn dispatch(&mut self, events: &[Event]) {
        let revision = self.published;
        if let [event] = events {
            // The common case of a lone commit needs no sorting into prefixes.
            let events: Arc<[Event]> = Arc::new([event.clone()]);
            for prefix in event.key.prefixes() {
                self.notify(prefix, || EventBatch {
                    events: Arc::clone(&events),
                    revision,
                });
            }
            return;
        }
        let mut by_prefix: HashMap<&str, Vec<Event>> = HashMap::new();
        for event in events {
            for prefix in event.key.prefixes() {
                if self.subscribers.contains_key(prefix) {
                    by_prefix.entry(prefix).or_default().push(event.clone());
                }
            }
        }
        for (prefix, events) in by_prefix {
            let events: Arc<[Event]> = events.into();
            self.notify(prefix, || EventBatch {
                events: Arc::clone(&events),
                revision,
            });
        }
    }

    fn notify(&mut self, prefix: &str, batch: impl Fn() -> EventBatch) {
        let Some(list) = self.subscribers.get_mut(prefix) else {
            return;
        };
        list.retain_mut(|subscriber| subscriber.notify(batch()));
        if list.is_empty() {
            self.subscribers.remove(prefix);
        }
    }
}

// --- FeedSubscriber ---

impl FeedSubscriber {
    /// Queues a batch. Returns false if the watcher disconnected or fell behind and must be removed.
    fn notify(&mut self, batch: EventBatch) -> bool {
        self.notified = batch.revision;
        self.queue.try_send(batch).is_ok()
    }
}
