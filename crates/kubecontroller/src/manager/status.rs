//! Who runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Runnable;
use crate::controller::ControllerHandle;

/// How each runnable of a process fares. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct StatusBoard {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
}

struct Entry {
    runnable: Arc<dyn Runnable>,
    state: RunnableState,
}

/// A runnable of a process, looked at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunnableStatus {
    /// What it is called.
    pub name: String,
    /// How it fares.
    pub state: RunnableState,
    /// Whether only a leader runs it.
    pub leader_only: bool,
    /// Its queue and its errors, if it is a controller.
    pub handle: Option<ControllerHandle>,
}

/// How a runnable fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnableState {
    /// It was not begun yet, or its turn is over.
    Idle,
    /// It runs.
    Running,
    /// It failed, and is begun again later.
    Failed,
    /// It has nothing left to do.
    Done,
}

// --- StatusBoard ---

impl StatusBoard {
    /// Puts a runnable on the board. False if there is one of that name.
    pub(super) fn enter(&self, runnable: Arc<dyn Runnable>) -> bool {
        let name = runnable.name().to_owned();
        let mut entries = self.entries();
        if entries.contains_key(&name) {
            return false;
        }
        let state = RunnableState::Idle;
        entries.insert(name, Entry { runnable, state });
        true
    }

    pub(super) fn set(&self, name: &str, state: RunnableState) {
        if let Some(entry) = self.entries().get_mut(name) {
            entry.state = state;
        }
    }

    /// Whether it runs, and others may rely on it.
    pub(super) fn is_ready(&self, name: &str) -> bool {
        let runnable = match self.entries().get(name) {
            Some(entry) if entry.state == RunnableState::Running => Arc::clone(&entry.runnable),
            Some(entry) => return entry.state == RunnableState::Done,
            None => return false,
        };
        runnable.is_ready()
    }

    /// All of them, in the order of their names.
    pub(super) fn all(&self) -> Vec<RunnableStatus> {
        let entries = self.entries();
        let status = |(name, entry): (&String, &Entry)| RunnableStatus {
            name: name.clone(),
            state: entry.state,
            leader_only: entry.runnable.leader_only(),
            handle: entry.runnable.handle(),
        };
        entries.iter().map(status).collect()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
