//! Deletes expired entries for backends without native expiry.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, task::JoinHandle, time::Instant};

use crate::{CommitError, Key, Revision, Store, Write};

/// Delay before a failed delete is retried.
const RETRY: Duration = Duration::from_secs(1);

/// Delay while the store is still being opened.
const NOT_YET: Duration = Duration::from_millis(1);

/// The expiry deadlines of entries, on the monotonic clock, so that a jump of the wall clock has no effect.
#[derive(Default)]
pub(crate) struct Deadlines {
    state: Mutex<DeadlineState>,
    /// Notified when the earliest deadline may have changed.
    nearer: Notify,
}

#[derive(Default)]
struct DeadlineState {
    /// Each expiring key once, with its newest entry's deadline and revision.
    by_key: HashMap<Key, (Instant, Revision)>,
    /// The same keys, ordered by deadline.
    by_time: BTreeSet<(Instant, Key)>,
}

/// Deletes expired entries. Stops when it is dropped.
pub(crate) struct ExpirySweeper(JoinHandle<()>);

// --- Deadlines ---

impl Deadlines {
    /// Records that the entry written at `revision` is to be deleted at `at`.
    pub(crate) fn set(&self, key: Key, revision: Revision, at: Instant) {
        let mut state = self.lock();
        state.remove(&key);
        let earliest = state.by_time.first().is_none_or(|(first, _)| at < *first);
        state.by_time.insert((at, key.clone()));
        state.by_key.insert(key, (at, revision));
        if earliest {
            self.nearer.notify_one();
        }
    }

    /// Removes the deadline of a key.
    pub(crate) fn clear(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// Returns the keys that are due, or the time when the next one is.
    fn due(&self) -> DueDeadline {
        let state = self.lock();
        let Some((at, key)) = state.by_time.first() else {
            return DueDeadline::Never;
        };
        if *at > Instant::now() {
            return DueDeadline::At(*at);
        }
        let (_, revision) = state.by_key[key];
        DueDeadline::Now(key.clone(), revision)
    }

    /// Whether `revision` is still the newest known revision of the key.
    fn knows(&self, key: &Key, revision: Revision) -> bool {
        self.lock()
            .by_key
            .get(key)
            .is_some_and(|(_, known)| *known == revision)
    }

    fn lock(&self) -> MutexGuard<'_, DeadlineState> {
        self.state.lock()
    }
}

enum DueDeadline {
    Now(Key, Revision),
    At(Instant),
    Never,
}

impl DeadlineState {
    fn remove(&mut self, key: &Key) {
        if let Some((at, _)) = self.by_key.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }
}

// --- ExpirySweeper ---

impl ExpirySweeper {
    /// Starts to delete expired entries.
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept, and aborts the task on drop"
    )]
    pub(crate) fn start<S: Store>(deadlines: Arc<Deadlines>, store: Weak<S>) -> Self {
        Self(tokio::spawn(sweep(deadlines, store)))
    }
}

impl Drop for ExpirySweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs until the sweeper is dropped.
async fn sweep<S: Store>(deadlines: Arc<Deadlines>, store: Weak<S>) {
    loop {
        match deadlines.due() {
            DueDeadline::Never => deadlines.nearer.notified().await,
            DueDeadline::At(at) => tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = deadlines.nearer.notified() => {}
            },
            DueDeadline::Now(key, revision) => {
                if let Some(store) = store.upgrade() {
                    expire(&deadlines, &*store, key, revision).await;
                } else {
                    // The store is still being opened: entries may be due before its `Arc` exists. Stopping here would leave
                    // all expired entries undeleted. A dropped store drops the sweeper too.
                    tokio::time::sleep(NOT_YET).await;
                }
            }
        }
    }
}

async fn expire(deadlines: &Deadlines, store: &impl Store, key: Key, revision: Revision) {
    let answer = store.commit(Write::delete(key.clone(), revision)).await;
    if !deadlines.knows(&key, revision) {
        return; // the last writer has recorded it, this delete or a writer that was faster
    }
    match answer {
        Ok(_) | Err(CommitError::Conflict(_)) => deadlines.clear(&key),
        Err(error) => {
            tracing::warn!(%key, %error, "cannot delete an expired entry, will try again in {RETRY:?}");
            deadlines.set(key, revision, Instant::now() + RETRY);
        }
    }
}
