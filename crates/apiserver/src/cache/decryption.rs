//! Reads objects again that could not be decrypted, until they can be.
//!
//! This happens without a request. Policies, webhooks and namespace labels are missing until they are decrypted; admission
//! rejects affected requests meanwhile.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k3_storage::{Key, ReadError, Revision};
use k3_task::Backoff;
use tokio::sync::Notify;

use super::{CachedObject, Snapshot, WatchCache, WatchCaches};

/// The pause before objects are read again, at first and after many attempts in vain.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(15));
/// How many objects of a resource may fail before the others wait for the next attempt.
const MAX_FAILURES: usize = 16;

/// Whether there may be objects that are not decrypted.
#[derive(Default)]
pub(super) struct UndecryptedTracker {
    /// Counts undecrypted objects.
    seen: AtomicU64,
    /// The count when there was none the last time.
    settled: AtomicU64,
    /// Notified when one is added.
    added: Notify,
}

// --- UndecryptedTracker ---

impl UndecryptedTracker {
    /// Takes note of one. To be called before it is in a cache.
    pub(super) fn note(&self) {
        self.seen.fetch_add(1, Ordering::AcqRel);
        self.added.notify_one();
    }

    fn may_exist(&self) -> bool {
        self.seen.load(Ordering::Acquire) != self.settled.load(Ordering::Acquire)
    }
}

// --- WatchCaches ---

impl WatchCaches {
    /// Whether an object in the caches may be undecrypted. Costs next to nothing.
    pub(crate) fn may_have_undecrypted(&self) -> bool {
        self.undecrypted.may_exist()
    }

    /// Reads objects that are not decrypted again, for as long as there are any.
    pub(super) async fn decrypt_in_time(&self) {
        let mut last = HashMap::new();
        loop {
            while !self.may_have_undecrypted() {
                self.undecrypted.added.notified().await;
            }
            let mut delays = BACKOFF.delays();
            loop {
                let seen = self.undecrypted.seen.load(Ordering::Acquire);
                let DecryptionAttempt { decrypted, left } = self.decrypt_again(&mut last).await;
                if left == 0 {
                    self.undecrypted.settled.store(seen, Ordering::Release);
                    break;
                }
                if decrypted > 0 {
                    delays.reset();
                }
                tokio::time::sleep(delays.next_delay()).await;
            }
        }
    }

    /// Tries once. `last` has the key of each resource that was tried last.
    async fn decrypt_again(&self, last: &mut HashMap<Box<str>, Key>) -> DecryptionAttempt {
        let mut round = DecryptionAttempt::default();
        for (prefix, cache) in self.all() {
            let objects = cache.snapshot(Revision::ZERO).undecrypted();
            let mut failures = 0;
            // Those that were not tried before come first.
            let from = last
                .get(&prefix)
                .map_or(0, |last| objects.partition_point(|object| object.key <= *last));
            for object in objects[from..].iter().chain(&objects[..from]) {
                if failures == MAX_FAILURES {
                    round.left += 1;
                    continue;
                }
                last.insert(prefix.clone(), object.key.clone());
                match self.read_again(object).await {
                    Ok(Some(again)) => {
                        round.decrypted += 1;
                        self.put_decrypted(&cache, &again);
                    }
                    Ok(None) => {
                        round.left += 1;
                        failures += 1;
                    }
                    // The store or a plugin does not answer: neither will it for the next one.
                    Err(_) => {
                        round.left += 1;
                        failures = MAX_FAILURES;
                    }
                }
            }
        }
        round
    }

    /// The same state of an object, decrypted; `None` if it cannot be decrypted, or is there no more.
    async fn read_again(&self, object: &CachedObject) -> Result<Option<Arc<CachedObject>>, ReadError> {
        let entry = self.store().get(&object.key).await?;
        let entry = entry.filter(|entry| entry.revision == object.revision);
        let again = entry.map(|entry| CachedObject::new(entry.key, entry.value, object.revision));
        Ok(again.filter(|again| again.undecrypted().is_none()).map(Arc::new))
    }

    /// Puts an object that was decrypted in the place of the same state that was not, and lets those know who follow it.
    pub(crate) fn put_decrypted(&self, cache: &WatchCache, object: &Arc<CachedObject>) {
        if cache.replace_undecrypted(object) {
            self.follow_decrypted(cache, &object.key);
        }
    }
}

/// The result of an attempt.
#[derive(Default)]
struct DecryptionAttempt {
    decrypted: usize,
    left: usize,
}

// --- Snapshot ---

impl Snapshot {
    /// The objects that are not decrypted, by key.
    pub(crate) fn undecrypted(&self) -> Vec<Arc<CachedObject>> {
        let objects = self.objects.values();
        objects
            .filter(|object| object.undecrypted().is_some())
            .cloned()
            .collect()
    }
}
