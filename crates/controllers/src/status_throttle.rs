//! A pause between two writes of one object's status: what happens meanwhile is told by the second one.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kubecontroller::Key;
use tokio::time::Instant;

/// Many pods become ready in this time, and nobody minds to hear of the first of them so much later.
const PAUSE: Duration = Duration::from_millis(50);

/// When objects were last written.
#[derive(Debug, Default)]
pub(crate) struct StatusThrottle {
    written: Mutex<HashMap<Key, Instant>>,
}

// --- Calm ---

impl StatusThrottle {
    /// How long an object is left alone; `None` if it is not.
    pub(crate) fn left(&self, key: &Key) -> Option<Duration> {
        let mut written = self.written();
        let left = PAUSE.checked_sub(written.get(key)?.elapsed());
        let left = left.filter(|left| !left.is_zero());
        if left.is_none() {
            written.remove(key);
        }
        left
    }

    /// An object was written.
    pub(crate) fn wrote(&self, key: &Key) {
        self.written().insert(key.clone(), Instant::now());
    }

    /// An object is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.written().remove(key);
    }

    fn written(&self) -> MutexGuard<'_, HashMap<Key, Instant>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_object_is_left_alone_for_a_while_after_a_write() {
        let (status_throttle, key) = (StatusThrottle::default(), Key::new("shop", "web"));
        assert_eq!(status_throttle.left(&key), None);
        status_throttle.wrote(&key);
        advance(PAUSE / 2).await;
        assert_eq!(status_throttle.left(&key), Some(PAUSE / 2));
        advance(PAUSE / 2).await;
        assert_eq!(status_throttle.left(&key), None);
    }
}
