//! Back-off between restarts of containers.

use std::time::Duration;

use k8s_openapi::{api::core::v1::Container, jiff::Timestamp};
use kubecontroller::{Backoff, KeyedBackoff};
use parking_lot::Mutex;

use super::spec::hash_container;

/// Back-off between restarts of a container.
const RESTART_BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(10), Duration::from_mins(5));

/// Restart back-off of containers. A container with another spec starts without.
pub(super) struct RestartBackoff {
    /// By pod UID, container name and container hash.
    delays: Mutex<KeyedBackoff<(String, String, String)>>,
}

// --- RestartBackoff ---

impl RestartBackoff {
    pub(super) fn new() -> Self {
        RestartBackoff {
            delays: Mutex::new(KeyedBackoff::new(RESTART_BACKOFF)),
        }
    }

    /// When the back-off of a container that finished then ends, and how long it is. If the container is not in back-off, returns
    /// `None` and increases its next back-off.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff
    pub(super) fn next(
        &self,
        uid: &str,
        container: &Container,
        finished: Timestamp,
        now: Timestamp,
    ) -> Option<(Timestamp, Duration)> {
        let key = (uid.to_owned(), container.name.clone(), hash_container(container));
        let mut delays = self.delays.lock();
        let until = delays.until(&key, finished, now);
        if until.is_none() {
            delays.increase(key, finished, now);
        }
        until
    }

    /// Forgets a removed pod.
    pub(super) fn remove_pod(&self, uid: &str) {
        self.delays.lock().remove(|(pod, ..)| pod == uid);
    }
}
