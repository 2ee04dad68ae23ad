//! What was told before, so that it is not asked for again.
//!
//! Promises: a status is used only for the state that it was asked in; what is no longer listed is forgotten. An end is asked about
//! again while it is new: some runtimes find out that memory was short only after they told of the end.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::messages;

/// How long an end may still change its reason.
const SETTLED: Duration = Duration::from_secs(2);

/// Statuses by id. The locks are never held across a wait.
#[derive(Debug, Default)]
pub(super) struct Known {
    containers: Mutex<HashMap<String, Told>>,
    /// Of sandboxes that are ready: addresses do not change.
    addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
    /// The first processes of containers that ran when they were last listed.
    processes: Mutex<HashMap<String, u32>>,
}

#[derive(Debug)]
struct Told {
    status: messages::ContainerStatus,
    at: Instant,
}

// --- Known ---

impl Known {
    /// What was told of a container in this state, if that still holds.
    pub(super) fn container(&self, id: &str, state: i32) -> Option<messages::ContainerStatus> {
        let containers = lock(&self.containers);
        let told = containers.get(id).filter(|told| told.status.state == state)?;
        let ended = state == i32::from(messages::ContainerState::Exited);
        (!ended || told.at.elapsed() >= SETTLED).then(|| told.status.clone())
    }

    /// Keeps what was told of a container.
    pub(super) fn keep_container(&self, id: &str, status: &messages::ContainerStatus) {
        let mut containers = lock(&self.containers);
        let at = match containers.get(id) {
            // The end is as old as when it was first told.
            Some(told) if told.status.state == status.state => told.at,
            _ => Instant::now(),
        };
        let status = status.clone();
        containers.insert(id.to_owned(), Told { status, at });
    }

    /// Forgets containers that are no longer there.
    pub(super) fn only_containers(&self, listed: &HashSet<String>) {
        lock(&self.containers).retain(|id, _| listed.contains(id));
        lock(&self.processes).retain(|id, _| listed.contains(id));
    }

    /// The addresses of a sandbox.
    pub(super) fn addresses(&self, id: &str) -> Option<Vec<IpAddr>> {
        lock(&self.addresses).get(id).cloned()
    }

    /// Keeps the addresses of a sandbox.
    pub(super) fn keep_addresses(&self, id: &str, addresses: &[IpAddr]) {
        lock(&self.addresses).insert(id.to_owned(), addresses.to_vec());
    }

    /// Forgets sandboxes that are no longer ready.
    pub(super) fn only_sandboxes(&self, ready: &HashSet<String>) {
        lock(&self.addresses).retain(|id, _| ready.contains(id));
    }

    /// The first process of a container. It may have ended: the container's state tells.
    pub(super) fn process(&self, id: &str) -> Option<u32> {
        lock(&self.processes).get(id).copied()
    }

    /// Keeps the first process of a container that runs.
    pub(super) fn keep_process(&self, id: &str, process: u32) {
        lock(&self.processes).insert(id.to_owned(), process);
    }

    /// Forgets everything of a sandbox or container.
    pub(super) fn forget(&self, id: &str) {
        lock(&self.containers).remove(id);
        lock(&self.addresses).remove(id);
        lock(&self.processes).remove(id);
    }
}

/// A map that was being written to when somebody panicked is still a map.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn a_status_holds_for_its_state_only() {
        let known = Known::default();
        known.keep_container("a", &status(RUNNING, ""));
        assert!(known.container("a", RUNNING).is_some());
        assert!(known.container("a", EXITED).is_none());
        known.only_containers(&HashSet::new());
        assert!(known.container("a", RUNNING).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_is_asked_about_again_while_it_is_new() {
        let known = Known::default();
        known.keep_container("a", &status(EXITED, "Error"));
        assert!(known.container("a", EXITED).is_none());
        known.keep_container("a", &status(EXITED, "OOMKilled"));
        tokio::time::advance(SETTLED).await;
        assert_eq!(known.container("a", EXITED).unwrap().reason, "OOMKilled");
    }
}
