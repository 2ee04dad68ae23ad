//! The status of runnables.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::Runnable;
use crate::controller::ControllerHandle;

/// The status of all runnables of a process. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct StatusBoard {
    entries: Arc<Mutex<BTreeMap<String, StatusEntry>>>,
}

struct StatusEntry {
    runnable: Arc<dyn Runnable>,
    state: RunnableState,
}

/// The status of a runnable.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunnableStatus {
    /// The name of the runnable.
    pub name: String,
    /// Its state.
    pub state: RunnableState,
    /// Whether it runs only on the leader.
    pub leader_only: bool,
    /// The handle of its queue and errors, if it is a controller.
    pub handle: Option<ControllerHandle>,
}

/// The state of a runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnableState {
    /// Not started, or stopped.
    Idle,
    /// Running.
    Running,
    /// Failed, and waiting for its restart.
    Failed,
    /// Completed.
    Done,
}

// --- StatusBoard ---

impl StatusBoard {
    /// Adds a runnable. Returns false if its name is taken.
    pub(super) fn insert(&self, runnable: Arc<dyn Runnable>) -> bool {
        let name = runnable.name().to_owned();
        let mut entries = self.entries();
        if entries.contains_key(&name) {
            return false;
        }
        let state = RunnableState::Idle;
        entries.insert(name, StatusEntry { runnable, state });
        true
    }

    pub(super) fn set(&self, name: &str, state: RunnableState) {
        if let Some(entry) = self.entries().get_mut(name) {
            entry.state = state;
        }
    }

    /// Whether the runnable is ready, so that its dependents may start. A completed runnable counts as ready.
    pub(super) fn is_ready(&self, name: &str) -> bool {
        let runnable = match self.entries().get(name) {
            Some(entry) if entry.state == RunnableState::Running => Arc::clone(&entry.runnable),
            Some(entry) => return entry.state == RunnableState::Done,
            None => return false,
        };
        runnable.is_ready()
    }

    /// The status of all runnables, sorted by name.
    pub(super) fn all(&self) -> Vec<RunnableStatus> {
        let entries = self.entries();
        let status = |(name, entry): (&String, &StatusEntry)| RunnableStatus {
            name: name.clone(),
            state: entry.state,
            leader_only: entry.runnable.leader_only(),
            handle: entry.runnable.handle(),
        };
        entries.iter().map(status).collect()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, StatusEntry>> {
        self.entries.lock()
    }
}
