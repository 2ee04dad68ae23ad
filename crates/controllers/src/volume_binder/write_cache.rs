//! A cache with read-your-writes: objects from the informer, or as they were written since.
//!
//! Binding is four writes to two objects. Without this, the first resulting event would find three of them missing, and two claims
//! that are synced one after the other would get the same volume.

use std::{collections::HashMap, sync::Arc};

use kubecontroller::{Key, informer::Informer, object::Object, store::Store};
use parking_lot::{Mutex, MutexGuard};

// upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go storeObjectUpdate, storeVolumeUpdate, storeClaimUpdate
pub(super) struct WriteCache<T> {
    informer: Informer<T>,
    /// Written objects that the informer may not have delivered yet.
    written: Mutex<HashMap<Key, Arc<T>>>,
}

// --- WriteCache ---

impl<T: Object> WriteCache<T> {
    pub(super) fn new(informer: &Informer<T>) -> Self {
        WriteCache {
            informer: informer.clone(),
            written: Mutex::default(),
        }
    }

    /// The informer's store.
    pub(super) fn store(&self) -> &Store<T> {
        self.informer.store()
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.pending_write(key).or_else(|| self.store().get(key))
    }

    /// An object from the informer, or its version written since.
    pub(super) fn latest(&self, object: Arc<T>) -> Arc<T> {
        self.pending_write(&object.key()).unwrap_or(object)
    }

    /// Records a written object.
    pub(super) fn record_write(&self, object: T) -> Arc<T> {
        let object = Arc::new(object);
        self.written().insert(object.key(), object.clone());
        object
    }

    /// A written object that the informer has not delivered yet. If the informer has a later version, or observed a deletion, it
    /// takes precedence.
    fn pending_write(&self, key: &Key) -> Option<Arc<T>> {
        let mut written = self.written();
        let version = written.get(key)?.resource_version().parse::<u64>().ok();
        if version.is_none_or(|version| self.informer.version().is_some_and(|seen| seen >= version)) {
            written.remove(key);
            return None;
        }
        written.get(key).cloned()
    }

    fn written(&self) -> MutexGuard<'_, HashMap<Key, Arc<T>>> {
        self.written.lock()
    }
}
