//! Stores: the objects of an informer in memory, with indexes. Client-go's `Indexer` and `Lister`.
//!
//! Guarantees:
//! - A lookup by key or index takes time proportional to its result, not to the size of the store.
//! - Reads return shared pointers. Objects are never cloned, and no lock is held while a caller uses them.
//! - An index can be added at any time and covers the objects that are in the store already.

mod index;
mod select;

use std::{fmt, sync::Arc};

use hashbrown::HashMap;
use parking_lot::{RwLock, RwLockReadGuard};

use self::{
    index::{IndexData, IndexKind},
    select::LabelQuery,
};
use crate::{Key, object::Object, selector::Selector};

/// The objects of a kind and scope. Only the informer that owns the store writes to it. Clones share the objects.
#[doc(alias = "Indexer")]
#[doc(alias = "Lister")]
pub struct Store<T> {
    shared: Arc<RwLock<StoreContents<T>>>,
}

struct StoreContents<T> {
    objects: HashMap<Key, Arc<T>>,
    indexes: Vec<IndexData<T>>,
}

/// A handle of an index of a store; see [`Store::index`].
pub struct Index<T> {
    store: Store<T>,
    position: usize,
}

// --- Store ---

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Store {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store {
            shared: Arc::new(RwLock::new(StoreContents {
                objects: HashMap::new(),
                indexes: Vec::new(),
            })),
        }
    }
}

impl<T> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<T> Store<T> {
    /// The number of objects.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether the store has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object with a key.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.read().objects.get(key).cloned()
    }

    /// A snapshot of all objects, in no order.
    #[doc(alias = "List")]
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().objects.values().cloned().collect()
    }

    /// The keys of all objects, in no order.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> Vec<Key> {
        self.read().objects.keys().cloned().collect()
    }

    /// Adds an index by the values that a function returns for an object, such as the name of its node. The index exists as long
    /// as the store.
    #[doc(alias = "AddIndexers")]
    pub fn index(&self, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) -> Index<T> {
        self.index_by(IndexKind::Unnamed, values)
    }

    /// Adds an index that is shared by its name: only the first call adds it, and later calls return the same index, whatever
    /// their function. All callers of a name must therefore pass the same function.
    pub fn shared_index(
        &self,
        name: &'static str,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Index<T> {
        self.index_by(IndexKind::Named(name), values)
    }

    /// The existing index of a kind, or a new one.
    fn index_by(
        &self,
        kind: IndexKind,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Index<T> {
        let mut contents = self.shared.write();
        let StoreContents { objects, indexes } = &mut *contents;
        let existing = indexes.iter().position(|index| index.is_shared_as(&kind));
        let position = existing.unwrap_or_else(|| {
            let mut index = IndexData::new(kind, values);
            for (key, object) in objects {
                index.update(key, None, Some(object));
            }
            indexes.push(index);
            indexes.len() - 1
        });
        Index {
            store: self.clone(),
            position,
        }
    }

    /// Inserts an object. Returns the one it replaces.
    pub(crate) fn insert(&self, key: Key, object: Arc<T>) -> Option<Arc<T>> {
        let mut contents = self.shared.write();
        let StoreContents { objects, indexes } = &mut *contents;
        if !indexes.is_empty() {
            let old = objects.get(&key).map(|old| &**old);
            for index in indexes {
                index.update(&key, old, Some(&object));
            }
        }
        objects.insert(key, object)
    }

    /// Removes an object.
    pub(crate) fn remove(&self, key: &Key) -> Option<Arc<T>> {
        let mut contents = self.shared.write();
        let StoreContents { objects, indexes } = &mut *contents;
        let old = objects.remove(key)?;
        for index in indexes {
            index.update(key, Some(&old), None);
        }
        Some(old)
    }

    fn read(&self) -> RwLockReadGuard<'_, StoreContents<T>> {
        self.shared.read()
    }
}

impl<T: Object> Store<T> {
    /// Returns the stored object if it has the same uid and resource version, and otherwise `object`. A relist that keeps the
    /// stored objects does not hold two copies of them.
    pub(crate) fn reuse_unchanged(&self, object: Arc<T>) -> Arc<T> {
        let contents = self.read();
        let stored = contents.objects.get(&object.key());
        let is_unchanged = |stored: &&Arc<T>| {
            stored.uid() == object.uid()
                && !object.resource_version().is_empty()
                && stored.resource_version() == object.resource_version()
        };
        stored.filter(is_unchanged).cloned().unwrap_or(object)
    }

    /// The objects that match a label selector, in one namespace or in all, ordered by key.
    ///
    /// Uses the index with the fewest candidates: [`by_namespace`](Self::by_namespace), or [`by_label`](Self::by_label) for a
    /// label that the selector requires to have one of some values. Without such an index it scans the store.
    pub fn select(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<T>> {
        let contents = self.read();
        let query = LabelQuery { namespace, selector };
        let mut found: Vec<(&Key, &Arc<T>)> = match query.candidates(&contents.indexes) {
            Some(keys) => keys
                .filter_map(|key| contents.objects.get_key_value(key))
                .collect(),
            None => contents.objects.iter().collect(),
        };
        found.retain(|(_, object)| query.matches(&***object));
        found.sort_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The index by namespace.
    pub fn by_namespace(&self) -> Index<T> {
        self.index_by(IndexKind::Namespace, |object| vec![object.namespace().to_owned()])
    }

    /// The index by the value of a label.
    pub fn by_label(&self, label: &str) -> Index<T> {
        let label = label.to_owned();
        self.index_by(IndexKind::Label(label.clone()), move |object| {
            object.label(&label).map(str::to_owned).into_iter().collect()
        })
    }

    /// The index by the uid of the controller: the owner with `controller: true`.
    pub fn by_controller(&self) -> Index<T> {
        self.index_by(IndexKind::Controller, |object| {
            let controller = object.controller();
            controller.map(|owner| owner.uid.to_owned()).into_iter().collect()
        })
    }

    /// The index by the uids of all owners.
    pub fn by_owner(&self) -> Index<T> {
        self.index_by(IndexKind::Owner, |object| {
            object.owners().map(|owner| owner.uid.to_owned()).collect()
        })
    }
}

// --- Index ---

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Index {
            store: self.store.clone(),
            position: self.position,
        }
    }
}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl<T> Index<T> {
    /// The objects with a value, ordered by key.
    #[doc(alias = "ByIndex")]
    pub fn get(&self, value: &str) -> Vec<Arc<T>> {
        let contents = self.store.read();
        let keys = contents.indexes[self.position].keys(value);
        keys.filter_map(|key| contents.objects.get(key).cloned())
            .collect()
    }

    /// The keys of the objects with a value, in order.
    #[doc(alias = "IndexKeys")]
    pub fn keys(&self, value: &str) -> Vec<Key> {
        let contents = self.store.read();
        contents.indexes[self.position].keys(value).cloned().collect()
    }

    /// The number of objects with a value.
    pub fn count(&self, value: &str) -> usize {
        let contents = self.store.read();
        contents.indexes[self.position].count(value)
    }

    /// The values that objects have, in no order.
    #[doc(alias = "ListIndexFuncValues")]
    pub fn values(&self) -> Vec<String> {
        let contents = self.store.read();
        contents.indexes[self.position]
            .values()
            .map(str::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests;
