//! Reading one's own writes.
//!
//! A reconciler that creates something and is run again before its informer has seen that would create it twice. So it says
//! what it wrote, and its key waits.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hashbrown::HashMap;
use tokio::time::Instant;

use crate::Key;

/// For how long a key waits for an informer. One whose selector does not match the object sees the version only with a later
/// bookmark, and a key must not stand still for so long.
const LONGEST: Duration = Duration::from_secs(10);
/// The first look comes after this; the next ones after twice as long each. The event that brings the version runs the key too.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// No two looks are further apart.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// What was written and not seen yet, by key.
#[derive(Default)]
pub(super) struct OwnWrites {
    /// How many keys wait: mostly none, and then nobody takes the lock.
    count: AtomicUsize,
    keys: Mutex<HashMap<Key, Waits>>,
}

struct Waits {
    seen: Vec<Box<dyn Fn() -> bool + Send>>,
    until: Instant,
    next: Duration,
}

// --- OwnWrites ---

impl OwnWrites {
    pub(super) fn note(&self, key: &Key, is_seen: impl Fn() -> bool + Send + 'static) {
        let mut keys = self.keys();
        let waits = keys.entry(key.clone()).or_insert_with(|| Waits {
            seen: Vec::new(),
            until: Instant::now(),
            next: FIRST_LOOK,
        });
        waits.until = Instant::now() + LONGEST;
        waits.next = FIRST_LOOK;
        waits.seen.push(Box::new(is_seen));
        self.count.store(keys.len(), Ordering::Release);
    }

    /// How long a key has to wait before somebody looks again; `None` if it has not.
    pub(super) fn wait(&self, key: &Key) -> Option<Duration> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut keys = self.keys();
        let waits = keys.get_mut(key)?;
        waits.seen.retain(|is_seen| !is_seen());
        let is_late = Instant::now() >= waits.until;
        if waits.seen.is_empty() || is_late {
            if is_late {
                tracing::debug!(%key, "the informer has not seen what was written; going on");
            }
            keys.remove(key);
            self.count.store(keys.len(), Ordering::Release);
            return None;
        }
        let next = waits.next;
        waits.next = (next * 2).min(LAST_LOOK);
        Some(next)
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, Waits>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use tokio::time::advance;

    use super::{FIRST_LOOK, LONGEST, OwnWrites};
    use crate::Key;

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_until_all_it_wrote_is_seen() {
        let written = OwnWrites::default();
        let seen: [Arc<AtomicBool>; 2] = Default::default();
        let (web, other) = (Key::new("shop", "web"), Key::new("shop", "other"));
        for seen in &seen {
            let seen = Arc::clone(seen);
            written.note(&web, move || seen.load(Ordering::Relaxed));
        }
        assert_eq!(written.wait(&web), Some(FIRST_LOOK));
        assert_eq!(written.wait(&other), None);
        seen[0].store(true, Ordering::Relaxed);
        assert_eq!(written.wait(&web), Some(FIRST_LOOK * 2));
        seen[1].store(true, Ordering::Relaxed);
        assert_eq!(written.wait(&web), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_does_not_wait_for_ever() {
        let written = OwnWrites::default();
        let key = Key::new("shop", "web");
        written.note(&key, || false);
        advance(LONGEST / 2).await;
        assert!(written.wait(&key).is_some());
        advance(LONGEST / 2).await;
        assert_eq!(written.wait(&key), None);
    }
}
