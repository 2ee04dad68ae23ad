//! What follows from all objects of a resource, remembered until one of them changes.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::{cache::Object, registry::Resource};

/// Something that was found out, and at which revision of the resource.
pub(super) struct Remembered<T>(Mutex<Option<(u64, T)>>);

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Remembered(Mutex::new(None))
    }
}

impl<T: Clone> Remembered<T> {
    /// What `find` finds among the objects as they are. It is asked once per state of the resource.
    pub(super) fn get(&self, of: &Resource, find: impl FnOnce(&[Value]) -> T) -> T {
        let snapshot = of.cache.snapshot(0);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((revision, value)) = &*known
            && *revision == snapshot.revision
        {
            return value.clone();
        }
        let objects: Vec<_> = snapshot
            .objects
            .values()
            .map(Arc::as_ref)
            .map(Object::tree)
            .collect();
        let value = find(&objects);
        *known = Some((snapshot.revision, value.clone()));
        value
    }
}
