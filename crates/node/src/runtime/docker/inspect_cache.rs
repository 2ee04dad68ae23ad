//! Cache of inspect responses: a list costs one call instead of one per container.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use super::responses::ContainerInspect;

/// Cache of the owner's containers.
#[derive(Debug, Default)]
pub(super) struct InspectCache {
    entries: Mutex<CacheEntries>,
}

#[derive(Debug, Default)]
struct CacheEntries {
    /// Inspect responses by container ID. Only containers of this owner.
    inspected: HashMap<String, Arc<ContainerInspect>>,
    /// Created containers that were not inspected yet.
    created: HashSet<String>,
    /// Image IDs in pod statuses, by image ID of the engine.
    images: HashMap<String, String>,
}

// --- InspectCache ---

impl InspectCache {
    /// Returns the inspect response of a container, if the container still has that state.
    pub(super) fn get_with_state(&self, id: &str, state: &str) -> Option<Arc<ContainerInspect>> {
        let entries = self.entries();
        entries
            .inspected
            .get(id)
            .filter(|inspected| inspected.state.status == state)
            .cloned()
    }

    /// Returns the last inspect response of a container, for fields that never change.
    pub(super) fn get(&self, id: &str) -> Option<Arc<ContainerInspect>> {
        self.entries().inspected.get(id).cloned()
    }

    /// Stores an inspect response of an owned container.
    pub(super) fn insert(&self, inspected: &Arc<ContainerInspect>) {
        let mut entries = self.entries();
        entries.created.remove(&inspected.id);
        entries
            .inspected
            .insert(inspected.id.clone(), Arc::clone(inspected));
    }

    /// Records a created container.
    pub(super) fn created(&self, id: &str) {
        self.entries().created.insert(id.to_owned());
    }

    /// Returns whether a container is known to belong to this owner.
    pub(super) fn is_owned(&self, id: &str) -> bool {
        let entries = self.entries();
        entries.inspected.contains_key(id) || entries.created.contains(id)
    }

    /// Removes the inspect response of a container after an event.
    pub(super) fn invalidate(&self, id: &str) {
        let mut entries = self.entries();
        if entries.inspected.remove(id).is_some() {
            // The owner stays known.
            entries.created.insert(id.to_owned());
        }
    }

    /// Removes inspect responses of containers that no longer exist.
    pub(super) fn retain(&self, are_listed: impl Fn(&ContainerInspect) -> bool) {
        self.entries()
            .inspected
            .retain(|_, inspected| are_listed(inspected));
    }

    /// Removes a container that was removed from the engine.
    pub(super) fn removed(&self, id: &str) {
        let mut entries = self.entries();
        entries.inspected.remove(id);
        entries.created.remove(id);
    }

    /// Returns the image ID in pod statuses.
    pub(super) fn image(&self, id: &str) -> Option<String> {
        self.entries().images.get(id).cloned()
    }

    /// Stores the image ID in pod statuses.
    pub(super) fn insert_image(&self, id: &str, id_in_status: &str) {
        self.entries()
            .images
            .insert(id.to_owned(), id_in_status.to_owned());
    }

    /// Clears image IDs after images were pulled or removed.
    pub(super) fn clear_images(&self) {
        self.entries().images.clear();
    }

    fn entries(&self) -> MutexGuard<'_, CacheEntries> {
        // Each change is one step, so the data is consistent even after a panic.
        self.entries.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalidates_on_state_change_and_event() {
        let cache = InspectCache::default();
        let mut inspected = ContainerInspect {
            id: "a".into(),
            ..ContainerInspect::default()
        };
        inspected.state.status = "running".into();
        cache.created("a");
        assert!(cache.is_owned("a") && !cache.is_owned("b"));
        cache.insert(&Arc::new(inspected));
        assert!(cache.get_with_state("a", "running").is_some());
        assert!(cache.get_with_state("a", "exited").is_none());
        cache.invalidate("a");
        assert!(cache.get_with_state("a", "running").is_none());
        assert!(cache.is_owned("a"));
        cache.removed("a");
        assert!(!cache.is_owned("a"));
    }
}
