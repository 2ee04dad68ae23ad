//! Read-your-own-writes for reconcilers.
//!
//! A reconciler that creates an object and runs again before its informer has received that object would create it twice.
//! Therefore it records the write, and its key is not reconciled again until the informer has caught up.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::{Backoff, BackoffDelays, Key};

/// How long a key waits at most. An informer whose selector does not match the written object sees its version only with a
/// bookmark, about a minute later, which is too long to delay a key.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The delay of the first check; it doubles after each. There is no need to check often: the event that brings the version usually
/// enqueues the key as well.
const CHECK_BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(2), Duration::from_millis(500));

/// Writes that the informers have not received yet, by key.
#[derive(Default)]
pub(super) struct OwnWrites {
    /// The number of keys with pending writes. It is usually zero, and then no worker takes the lock.
    count: AtomicUsize,
    keys: Mutex<HashMap<Key, PendingWrites>>,
}

struct PendingWrites {
    is_seen: Vec<Box<dyn Fn() -> bool + Send>>,
    deadline: Instant,
    delays: BackoffDelays,
}

// --- OwnWrites ---

impl OwnWrites {
    /// Records a write. `is_seen` returns whether the informer has received it.
    pub(super) fn record(&self, key: &Key, is_seen: impl Fn() -> bool + Send + 'static) {
        let mut keys = self.keys();
        let pending = keys.entry(key.clone()).or_insert_with(|| PendingWrites {
            is_seen: Vec::new(),
            deadline: Instant::now(),
            delays: CHECK_BACKOFF.delays(),
        });
        pending.deadline = Instant::now() + MAX_WAIT;
        pending.delays.reset();
        pending.is_seen.push(Box::new(is_seen));
        self.count.store(keys.len(), Ordering::Release);
    }

    /// The delay before the key is checked again; `None` if it can be reconciled now.
    pub(super) fn delay(&self, key: &Key) -> Option<Duration> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut keys = self.keys();
        let pending = keys.get_mut(key)?;
        pending.is_seen.retain(|is_seen| !is_seen());
        let is_late = Instant::now() >= pending.deadline;
        if pending.is_seen.is_empty() || is_late {
            if is_late {
                tracing::debug!(%key, "informer has not received own write in time, reconciling anyway");
            }
            keys.remove(key);
            self.count.store(keys.len(), Ordering::Release);
            return None;
        }
        Some(pending.delays.next_delay())
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, PendingWrites>> {
        self.keys.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use tokio::time::advance;

    use super::{CHECK_BACKOFF, MAX_WAIT, OwnWrites};
    use crate::Key;

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_until_all_its_writes_are_seen() {
        let writes = OwnWrites::default();
        let seen: [Arc<AtomicBool>; 2] = Default::default();
        let web = Key::new("shop", "web");
        let other = Key::new("shop", "other");
        for seen in &seen {
            let seen = Arc::clone(seen);
            writes.record(&web, move || seen.load(Ordering::Relaxed));
        }
        assert_eq!(writes.delay(&web), Some(CHECK_BACKOFF.base));
        assert_eq!(writes.delay(&other), None);
        seen[0].store(true, Ordering::Relaxed);
        assert_eq!(writes.delay(&web), Some(CHECK_BACKOFF.base * 2));
        seen[1].store(true, Ordering::Relaxed);
        assert_eq!(writes.delay(&web), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_at_most_ten_seconds() {
        let writes = OwnWrites::default();
        let key = Key::new("shop", "web");
        writes.record(&key, || false);
        advance(MAX_WAIT / 2).await;
        assert!(writes.delay(&key).is_some());
        advance(MAX_WAIT / 2).await;
        assert_eq!(writes.delay(&key), None);
    }
}
