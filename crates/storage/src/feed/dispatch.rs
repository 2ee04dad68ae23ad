//! Hands each commit to the watchers of the prefixes its key lies under.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::mpsc;

use crate::{Event, EventBatch, Prefix, Revision};

/// Batches a watcher may have waiting before it is sent back to the history.
const QUEUE: usize = 256;

/// The commits of a store, in order, for any number of watchers.
pub(crate) struct EventFeed {
    state: Mutex<FeedState>,
}

/// A watcher's location in the feed.
pub(crate) struct FeedSubscription {
    /// The batches that follow `position`. Ends when the watcher fell behind, or the feed closed.
    pub(crate) batches: mpsc::Receiver<EventBatch>,
    /// Everything up to here was published before the subscription began.
    pub(crate) position: Revision,
}

/// The feed has ended, because its store was closed.
pub(crate) struct FeedClosed;

struct FeedState {
    /// Everything up to here has been handed out.
    published: Revision,
    /// Who listens, by prefix. No list is empty.
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

    /// Hands out events, which must follow on what was published before.
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

    /// Moves the feed on to a revision up to which nothing more happened that a watcher could see.
    pub(crate) fn advance(&self, to: Revision) {
        let mut state = self.lock();
        state.published = state.published.max(to);
    }

    /// Sends every watcher the position of the feed, so that those whose prefix is quiet know too.
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

    /// Everything up to here has been handed out.
    pub(crate) fn position(&self) -> Revision {
        self.lock().published
    }

    /// Begins to listen.
    pub(crate) fn subscribe(&self, prefix: &Prefix) -> Result<FeedSubscription, FeedClosed> {
        let mut state = self.lock();
        if state.ended {
            return Err(FeedClosed);
        }
        let (queue, batches) = mpsc::channel(QUEUE);
        let position = state.published;
        let list = state.subscribers.entry(prefix.clone()).or_default();
        // Watchers that disconnected are noticed here too: a quiet prefix must not collect them.
        list.retain(|subscriber| !subscriber.queue.is_closed());
        list.push(FeedSubscriber {
            queue,
            notified: position,
        });
        Ok(FeedSubscription { batches, position })
    }

    /// Moves the feed to a revision that was not reached by events, and sends every watcher back to
    /// the history, which no longer has what they need.
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
        self.state.lock().expect("nothing panics while it holds the feed")
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
    /// Queues a batch; false when the watcher was dropped or has fallen behind, and is to be dropped.
    fn notify(&mut self, batch: EventBatch) -> bool {
        self.notified = batch.revision;
        self.queue.try_send(batch).is_ok()
    }
}
