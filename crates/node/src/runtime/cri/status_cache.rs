//! Cache of container statuses, pod IPs and PIDs: a list costs one call instead of one per container.
//!
//! Promises: a status is used only for the state it was fetched in; entries of unlisted containers are removed. The status of a container
//! that exited a moment ago is fetched again, because some runtimes learn of an OOM kill only after they reported the exit.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::messages;

/// Age from which the status of an exited container is final.
const EXIT_SETTLES_AFTER: Duration = Duration::from_secs(2);

/// Cached statuses by ID. Locks are never held across an await.
#[derive(Debug, Default)]
pub(super) struct StatusCache {
    containers: Mutex<HashMap<String, CachedStatus>>,
    /// Pod IPs of ready sandboxes; they never change.
    addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
    /// First processes of running containers.
    processes: Mutex<HashMap<String, u32>>,
}

#[derive(Debug)]
struct CachedStatus {
    status: messages::ContainerStatus,
    at: Instant,
}

// --- StatusCache ---

impl StatusCache {
    /// Returns the cached status of a container in this state, if still valid.
    pub(super) fn container(&self, id: &str, state: i32) -> Option<messages::ContainerStatus> {
        let containers = lock(&self.containers);
        let cached = containers.get(id).filter(|cached| cached.status.state == state)?;
        let is_exited = state == i32::from(messages::ContainerState::Exited);
        (!is_exited || cached.at.elapsed() >= EXIT_SETTLES_AFTER).then(|| cached.status.clone())
    }

    /// Stores the status of a container.
    pub(super) fn insert_container(&self, id: &str, status: &messages::ContainerStatus) {
        let mut containers = lock(&self.containers);
        let at = match containers.get(id) {
            // Keep the time when the exit was first reported.
            Some(cached) if cached.status.state == status.state => cached.at,
            _ => Instant::now(),
        };
        let status = status.clone();
        containers.insert(id.to_owned(), CachedStatus { status, at });
    }

    /// Removes containers that are not listed.
    pub(super) fn retain_containers(&self, listed: &HashSet<String>) {
        lock(&self.containers).retain(|id, _| listed.contains(id));
        lock(&self.processes).retain(|id, _| listed.contains(id));
    }

    /// Returns the IPs of a sandbox.
    pub(super) fn addresses(&self, id: &str) -> Option<Vec<IpAddr>> {
        lock(&self.addresses).get(id).cloned()
    }

    /// Stores the IPs of a sandbox.
    pub(super) fn insert_addresses(&self, id: &str, addresses: &[IpAddr]) {
        lock(&self.addresses).insert(id.to_owned(), addresses.to_vec());
    }

    /// Removes sandboxes that are not ready.
    pub(super) fn retain_sandboxes(&self, ready: &HashSet<String>) {
        lock(&self.addresses).retain(|id, _| ready.contains(id));
    }

    /// Returns the PID of a container. The process may have exited: callers check the container's state.
    pub(super) fn process(&self, id: &str) -> Option<u32> {
        lock(&self.processes).get(id).copied()
    }

    /// Stores the PID of a running container.
    pub(super) fn insert_process(&self, id: &str, process: u32) {
        lock(&self.processes).insert(id.to_owned(), process);
    }

    /// Removes a sandbox or container.
    pub(super) fn remove(&self, id: &str) {
        lock(&self.containers).remove(id);
        lock(&self.addresses).remove(id);
        lock(&self.processes).remove(id);
    }
}

/// The maps are consistent even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: i32 = 1;
    const EXITED: i32 = 2;

    fn status(state: i32, reason: &str) -> messages::ContainerStatus {
        messages::ContainerStatus {
            state,
            reason: reason.to_owned(),
            ..messages::ContainerStatus::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn status_is_valid_for_its_state_only() {
        let status_cache = StatusCache::default();
        status_cache.insert_container("a", &status(RUNNING, ""));
        assert!(status_cache.container("a", RUNNING).is_some());
        assert!(status_cache.container("a", EXITED).is_none());
        status_cache.retain_containers(&HashSet::new());
        assert!(status_cache.container("a", RUNNING).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn refetches_status_of_recent_exit() {
        let status_cache = StatusCache::default();
        status_cache.insert_container("a", &status(EXITED, "Error"));
        assert!(status_cache.container("a", EXITED).is_none());
        status_cache.insert_container("a", &status(EXITED, "OOMKilled"));
        tokio::time::advance(EXIT_SETTLES_AFTER).await;
        assert_eq!(status_cache.container("a", EXITED).unwrap().reason, "OOMKilled");
    }
}
