//! A pause between two status writes of an object, so that many changes are written at once.

use std::{collections::HashMap, time::Duration};

use kubecontroller::Key;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Many pods become ready within this time; the delay is not noticeable.
const PAUSE: Duration = Duration::from_millis(50);

/// When the status of each object was last written.
// upstream: pkg/controller/replicaset/replica_set_utils.go updateReplicaSetStatus; upstream writes every change, the pause between writes is k3's own
#[derive(Debug, Default)]
pub(crate) struct StatusThrottle {
    written: Mutex<HashMap<Key, Instant>>,
}

// --- StatusThrottle ---

impl StatusThrottle {
    /// Remaining pause of an object; `None` if it may be written.
    pub(crate) fn left(&self, key: &Key) -> Option<Duration> {
        let mut written = self.written();
        let left = PAUSE.checked_sub(written.get(key)?.elapsed());
        let left = left.filter(|left| !left.is_zero());
        if left.is_none() {
            written.remove(key);
        }
        left
    }

    /// Records a write.
    pub(crate) fn wrote(&self, key: &Key) {
        self.written().insert(key.clone(), Instant::now());
    }

    /// Removes a deleted object.
    pub(crate) fn forget(&self, key: &Key) {
        self.written().remove(key);
    }

    fn written(&self) -> MutexGuard<'_, HashMap<Key, Instant>> {
        self.written.lock()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn throttles_after_a_write() {
        let status_throttle = StatusThrottle::default();
        let key = Key::new("shop", "web");
        assert_eq!(status_throttle.left(&key), None);
        status_throttle.wrote(&key);
        advance(PAUSE / 2).await;
        assert_eq!(status_throttle.left(&key), Some(PAUSE / 2));
        advance(PAUSE / 2).await;
        assert_eq!(status_throttle.left(&key), None);
    }
}
