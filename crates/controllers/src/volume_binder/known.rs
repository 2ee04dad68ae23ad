//! Objects as new as anybody here knows them: as an informer has them, or as they were written since.
//!
//! Binding is four writes to two objects. Without this, the first event that comes back would find three of them undone, and
//! two claims that are seen to one after the other would get the same volume, one of them in vain.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kubecontroller::{Key, informer::Informer, object::Object, store::Store};

/// Objects of a kind.
pub(super) struct Known<T> {
    informer: Informer<T>,
    /// What the informer may not have yet.
    written: Mutex<HashMap<Key, Arc<T>>>,
}

// --- Known ---

impl<T: Object> Known<T> {
    pub(super) fn new(informer: &Informer<T>) -> Self {
        Known {
            informer: informer.clone(),
            written: Mutex::default(),
        }
    }

    /// What the informer has.
    pub(super) fn store(&self) -> &Store<T> {
        self.informer.store()
    }

    /// An object.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.fresh(key).or_else(|| self.store().get(key))
    }

    /// An object that the informer has, or what was made of it since.
    pub(super) fn newest(&self, object: Arc<T>) -> Arc<T> {
        self.fresh(&object.key()).unwrap_or(object)
    }

    /// An object was written, and is this now.
    pub(super) fn wrote(&self, object: T) -> Arc<T> {
        let object = Arc::new(object);
        self.written().insert(object.key(), object.clone());
        object
    }

    /// What was written and the informer does not have yet. An informer that has seen a later version knows better, also of
    /// what is gone.
    fn fresh(&self, key: &Key) -> Option<Arc<T>> {
        let mut written = self.written();
        let version = written.get(key)?.resource_version().parse::<u64>().ok();
        if version.is_none_or(|version| self.informer.version().is_some_and(|seen| seen >= version)) {
            written.remove(key);
            return None;
        }
        written.get(key).cloned()
    }

    fn written(&self) -> MutexGuard<'_, HashMap<Key, Arc<T>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
