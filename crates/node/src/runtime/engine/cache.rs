//! What was seen of containers, so that a list costs one call and not one for each container.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::answer::Inspected;

/// What is known of our containers.
#[derive(Debug, Default)]
pub(super) struct Cache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Containers by id, as they were when they had the state that they are kept under. Only ours.
    seen: HashMap<String, Arc<Inspected>>,
    /// Those we made and did not list yet.
    made: HashSet<String>,
    /// How images are told in statuses, by id.
    images: HashMap<String, String>,
}

// --- Cache ---

impl Cache {
    /// What was seen of a container, if it still has that state.
    pub(super) fn with_state(&self, id: &str, state: &str) -> Option<Arc<Inspected>> {
        let known = self.known();
        known
            .seen
            .get(id)
            .filter(|seen| seen.state.status == state)
            .cloned()
    }

    /// What was seen of a container, whatever became of it. What it was made with does not change.
    pub(super) fn any(&self, id: &str) -> Option<Arc<Inspected>> {
        self.known().seen.get(id).cloned()
    }

    /// A container of ours was looked at.
    pub(super) fn keep(&self, seen: &Arc<Inspected>) {
        let mut known = self.known();
        known.made.remove(&seen.id);
        known.seen.insert(seen.id.clone(), Arc::clone(seen));
    }

    /// We made a container.
    pub(super) fn made(&self, id: &str) {
        self.known().made.insert(id.to_owned());
    }

    /// Whether a container is known to be ours.
    pub(super) fn is_ours(&self, id: &str) -> bool {
        let known = self.known();
        known.seen.contains_key(id) || known.made.contains(id)
    }

    /// Something happened to a container: it is looked at again.
    pub(super) fn forget(&self, id: &str) {
        let mut known = self.known();
        if known.seen.remove(id).is_some() {
            // Still ours.
            known.made.insert(id.to_owned());
        }
    }

    /// These are gone.
    pub(super) fn keep_only(&self, are_listed: impl Fn(&Inspected) -> bool) {
        self.known().seen.retain(|_, seen| are_listed(seen));
    }

    /// A container was removed.
    pub(super) fn removed(&self, id: &str) {
        let mut known = self.known();
        known.seen.remove(id);
        known.made.remove(id);
    }

    /// How an image is told in statuses.
    pub(super) fn image(&self, id: &str) -> Option<String> {
        self.known().images.get(id).cloned()
    }

    /// See [`Cache::image`].
    pub(super) fn keep_image(&self, id: &str, told: &str) {
        self.known().images.insert(id.to_owned(), told.to_owned());
    }

    /// Images were brought or removed.
    pub(super) fn forget_images(&self) {
        self.known().images.clear();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is one step: nothing is half done after a panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_seen_again_when_its_state_changed_or_something_happened() {
        let cache = Cache::default();
        let mut seen = Inspected {
            id: "a".into(),
            ..Inspected::default()
        };
        seen.state.status = "running".into();
        cache.made("a");
        assert!(cache.is_ours("a") && !cache.is_ours("b"));
        cache.keep(&Arc::new(seen));
        assert!(cache.with_state("a", "running").is_some());
        assert!(cache.with_state("a", "exited").is_none());
        cache.forget("a");
        assert!(cache.with_state("a", "running").is_none());
        assert!(cache.is_ours("a"));
        cache.removed("a");
        assert!(!cache.is_ours("a"));
    }
}
