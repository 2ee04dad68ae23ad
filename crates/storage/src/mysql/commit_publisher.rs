//! The newest commit published to the watchers of this process.
//!
//! Two tasks publish: the writer its own commits, at once, and the follower everything. Both go through here,
//! where commits already published are dropped and what does not follow on it is refused.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::row::LogRow;
use crate::{Event, Expiry, Key, Revision, expiry::Deadlines, feed::EventFeed};

/// How long after a commit others are expected.
const BUSY: Duration = Duration::from_secs(10);

/// The commit published last.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedPosition {
    /// Everything up to here has been published.
    pub(super) revision: Revision,
    /// The group of that commit; `None` when this process did not see it happen.
    pub(super) nonce: Option<u64>,
}

/// Result of publishing commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublishResult {
    Published,
    /// Some commits before them have not been published.
    Gap,
}

/// The end of the log, as far as this process has followed it.
pub(super) struct CommitPublisher {
    pub(super) feed: Arc<EventFeed>,
    pub(super) deadlines: Arc<Deadlines>,
    state: Mutex<PublisherState>,
    /// A copy of `PublisherState::published` for waiting tasks.
    position: watch::Sender<Revision>,
    /// Wakes the follower.
    poll_now: Notify,
}

struct PublisherState {
    published: PublishedPosition,
    /// The time of the last commit of any process. `None` before the first.
    last_commit_at: Option<Instant>,
}

// --- CommitPublisher ---

impl CommitPublisher {
    /// A publisher whose next commit follows `position`.
    pub(super) fn new(position: Revision) -> Self {
        Self {
            feed: Arc::new(EventFeed::new(position)),
            deadlines: Arc::default(),
            state: Mutex::new(PublisherState {
                published: PublishedPosition {
                    revision: position,
                    nonce: None,
                },
                last_commit_at: None,
            }),
            position: watch::Sender::new(position),
            poll_now: Notify::new(),
        }
    }

    pub(super) fn published(&self) -> PublishedPosition {
        self.lock().published
    }

    /// Whether any process committed recently.
    pub(super) fn busy(&self) -> bool {
        self.lock().busy()
    }

    /// Publishes commits, which must be in order and without gaps. `now_ms` is the
    /// database's clock, not after now.
    pub(super) fn publish(&self, commits: Vec<LogRow>, now_ms: u64) -> PublishResult {
        let mut state = self.lock();
        let published = state.published.revision;
        let mut new = commits
            .into_iter()
            .skip_while(|commit| commit.revision <= published)
            .peekable();
        let Some(first) = new.peek() else {
            return PublishResult::Published;
        };
        if first.revision != published.next() {
            return PublishResult::Gap;
        }
        let mut events: Vec<Event> = Vec::new();
        for commit in new {
            state.published = PublishedPosition {
                revision: commit.revision,
                nonce: Some(commit.nonce),
            };
            self.expect(&commit.key, commit.revision, commit.expiry, now_ms);
            events.push(commit.into_event());
        }
        if !state.busy() {
            // The follower sleeps long when nothing happens; now peers may answer.
            self.poll_now.notify_one();
        }
        state.last_commit_at = Some(Instant::now());
        // Under the lock, so that events are published in the order of their revisions.
        self.feed.publish(&events);
        self.position.send_replace(state.published.revision);
        PublishResult::Published
    }

    /// Continues at `to`, which was not reached by events, unless it is behind. Watchers that have
    /// not seen everything up to it are notified that what they need is compacted.
    pub(super) fn jump(&self, to: Revision) {
        let mut state = self.lock();
        if to < state.published.revision {
            return;
        }
        state.published = PublishedPosition {
            revision: to,
            nonce: None,
        };
        state.last_commit_at = Some(Instant::now());
        self.feed.jump(to);
        self.position.send_replace(to);
    }

    /// Records when an entry expires, or that it does not.
    pub(super) fn expect(&self, key: &Key, revision: Revision, expiry: Option<Expiry>, now_ms: u64) {
        match expiry {
            Some(expiry) => {
                let left = expiry.left(UNIX_EPOCH + Duration::from_millis(now_ms));
                self.deadlines.set(key.clone(), revision, Instant::now() + left);
            }
            None => self.deadlines.clear(key),
        }
    }

    /// Waits until everything up to `revision` has been published.
    pub(super) async fn reach(&self, revision: Revision) {
        let mut position = self.position.subscribe();
        if *position.borrow_and_update() >= revision {
            return;
        }
        self.poll_now.notify_one();
        position
            .wait_for(|position| *position >= revision)
            .await
            .expect("the tail owns the sender");
    }

    /// Makes the follower poll immediately.
    pub(super) fn poll_now(&self) {
        self.poll_now.notify_one();
    }

    /// Waits for [`CommitPublisher::poll_now`].
    pub(super) async fn poked(&self) {
        self.poll_now.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, PublisherState> {
        self.state.lock()
    }
}

// --- PublisherState ---

impl PublisherState {
    fn busy(&self) -> bool {
        self.last_commit_at
            .is_some_and(|last_commit_at| last_commit_at.elapsed() < BUSY)
    }
}
