//! How far this process has told its watchers, and who may tell them more.
//!
//! Two tell: the writer its own commits, at once, and the follower everything. Both go through here,
//! where what was told already is dropped and what does not follow on it is refused.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, UNIX_EPOCH},
};

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::row::Logged;
use crate::{Event, Expiry, Key, Revision, expiry::Deadlines, feed::Feed};

/// How long after a commit others are expected.
const BUSY: Duration = Duration::from_secs(10);

/// What was told last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Everything up to here has been told.
    pub(super) revision: Revision,
    /// The group of that commit; `None` when this process did not see it happen.
    pub(super) nonce: Option<u64>,
}

/// Whether commits could be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    Taken,
    /// Some commits before them have not been told.
    Gap,
}

/// The end of the log, as far as this process has followed it.
pub(super) struct Tail {
    pub(super) feed: Arc<Feed>,
    pub(super) deadlines: Arc<Deadlines>,
    state: Mutex<State>,
    /// A copy of `State::told`, for those who wait for it.
    position: watch::Sender<Revision>,
    /// Makes the follower look at once.
    poke: Notify,
}

struct State {
    told: Told,
    /// When the store last moved, by anybody's commit. `None` before the first.
    moved: Option<Instant>,
}

// --- Tail ---

impl Tail {
    /// A tail whose next commit comes after `position`.
    pub(super) fn new(position: Revision) -> Self {
        Self {
            feed: Arc::new(Feed::new(position)),
            deadlines: Arc::default(),
            state: Mutex::new(State {
                told: Told {
                    revision: position,
                    nonce: None,
                },
                moved: None,
            }),
            position: watch::Sender::new(position),
            poke: Notify::new(),
        }
    }

    pub(super) fn told(&self) -> Told {
        self.lock().told
    }

    /// Whether anybody committed a short while ago.
    pub(super) fn busy(&self) -> bool {
        self.lock().busy()
    }

    /// Tells watchers of commits, in order and without gap among themselves. `now_ms` is the
    /// database's clock, not after now.
    pub(super) fn offer(&self, commits: Vec<Logged>, now_ms: u64) -> Offer {
        let mut state = self.lock();
        let told = state.told.revision;
        let mut new = commits
            .into_iter()
            .skip_while(|commit| commit.revision <= told)
            .peekable();
        let Some(first) = new.peek() else {
            return Offer::Taken;
        };
        if first.revision != told.next() {
            return Offer::Gap;
        }
        let mut events: Vec<Event> = Vec::new();
        for commit in new {
            state.told = Told {
                revision: commit.revision,
                nonce: Some(commit.nonce),
            };
            self.expect(&commit.key, commit.revision, commit.expiry, now_ms);
            events.push(commit.into_event());
        }
        if !state.busy() {
            // The follower sleeps long when nothing happens; now peers may answer.
            self.poke.notify_one();
        }
        state.moved = Some(Instant::now());
        // Under the lock, so that events are published in the order of their revisions.
        self.feed.publish(&events);
        self.position.send_replace(state.told.revision);
        Offer::Taken
    }

    /// Goes on at `to`, which was not reached by events, unless it lies behind. Watchers that have
    /// not seen everything up to it are told that what they need is compacted.
    pub(super) fn jump(&self, to: Revision) {
        let mut state = self.lock();
        if to < state.told.revision {
            return;
        }
        state.told = Told {
            revision: to,
            nonce: None,
        };
        state.moved = Some(Instant::now());
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

    /// Waits until everything up to `revision` has been told.
    pub(super) async fn reach(&self, revision: Revision) {
        let mut position = self.position.subscribe();
        if *position.borrow_and_update() >= revision {
            return;
        }
        self.poke.notify_one();
        position
            .wait_for(|position| *position >= revision)
            .await
            .expect("the tail owns the sender");
    }

    /// Makes the follower look at the database now.
    pub(super) fn poke(&self) {
        self.poke.notify_one();
    }

    /// Waits for [`Tail::poke`].
    pub(super) async fn poked(&self) {
        self.poke.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the tail")
    }
}

// --- State ---

impl State {
    fn busy(&self) -> bool {
        self.moved.is_some_and(|moved| moved.elapsed() < BUSY)
    }
}
