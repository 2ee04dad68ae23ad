//! Objects in memory, found by key and by indexes.
//!
//! Promises: a lookup by key or index takes time in proportion to what it finds, never to what is there. What is read are
//! shared pointers: nobody clones an object, and nobody holds the store while they look at one. An index that is added later
//! knows what came before.

mod index;
mod select;

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use hashbrown::HashMap;
use kube::core::Selector;

use self::{
    index::{IndexData, IndexKind},
    select::SelectQuery,
};
use crate::{Key, object::Object};

/// The objects of a kind and scope. Clones are the same store; only the informer that fills it writes.
pub struct Store<T> {
    shared: Arc<RwLock<Content<T>>>,
}

struct Content<T> {
    objects: HashMap<Key, Arc<T>>,
    indexes: Vec<IndexData<T>>,
}

/// An index of a store; made by [`Store::index`].
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
            shared: Arc::new(RwLock::new(Content {
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
    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.read().objects.get(key).cloned()
    }

    /// All objects, as they are at this moment.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().objects.values().cloned().collect()
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<Key> {
        self.read().objects.keys().cloned().collect()
    }

    /// An index by values of the object, such as the name of its node. It stays as long as the store.
    pub fn index(&self, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) -> Index<T> {
        self.index_by(IndexKind::Other, values)
    }

    /// An index that all share who ask for that name: it takes memory and time once. They mean the same values by it.
    pub fn shared_index(
        &self,
        name: &'static str,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Index<T> {
        self.index_by(IndexKind::Named(name), values)
    }

    /// The index of a subject; a new one unless there is one.
    fn index_by(
        &self,
        subject: IndexKind,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Index<T> {
        let mut content = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let Content { objects, indexes } = &mut *content;
        let there = indexes.iter().position(|index| index.is_for(&subject));
        let position = there.unwrap_or_else(|| {
            let mut index = IndexData::new(subject, values);
            for (key, object) in objects {
                index.change(key, None, Some(object));
            }
            indexes.push(index);
            indexes.len() - 1
        });
        Index {
            store: self.clone(),
            position,
        }
    }

    /// Puts an object in. Gives the one it takes the place of.
    pub(crate) fn insert(&self, key: Key, object: Arc<T>) -> Option<Arc<T>> {
        let mut content = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let Content { objects, indexes } = &mut *content;
        if !indexes.is_empty() {
            let old = objects.get(&key).map(|old| &**old);
            for index in indexes {
                index.change(&key, old, Some(&object));
            }
        }
        objects.insert(key, object)
    }

    /// Takes an object out.
    pub(crate) fn remove(&self, key: &Key) -> Option<Arc<T>> {
        let mut content = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let Content { objects, indexes } = &mut *content;
        let old = objects.remove(key)?;
        for index in indexes {
            index.change(key, Some(&old), None);
        }
        Some(old)
    }

    fn read(&self) -> RwLockReadGuard<'_, Content<T>> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Store<T> {
    /// The object that is there, if it is the same in the same version; otherwise the given one.
    pub(crate) fn same(&self, object: Arc<T>) -> Arc<T> {
        let content = self.read();
        let there = content.objects.get(&object.key());
        let is_same = |there: &&Arc<T>| {
            there.uid() == object.uid()
                && !object.resource_version().is_empty()
                && there.resource_version() == object.resource_version()
        };
        there.filter(is_same).cloned().unwrap_or(object)
    }

    /// The objects that a selector of labels selects, in a namespace or in all of them, in the order of their keys.
    ///
    /// Looks only at those that the best index has: of the namespace, or of a label that has to have one of some values. Without
    /// such an index it looks at all.
    pub fn select(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<T>> {
        let content = self.read();
        let wanted = SelectQuery::new(namespace, selector);
        let mut found: Vec<(&Key, &Arc<T>)> = match wanted.candidates(&content.indexes) {
            Some(keys) => keys
                .filter_map(|key| content.objects.get_key_value(key))
                .collect(),
            None => content.objects.iter().collect(),
        };
        found.retain(|(_, object)| wanted.includes(&***object));
        found.sort_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, object)| Arc::clone(object)).collect()
    }

    /// An index by namespace.
    pub fn by_namespace(&self) -> Index<T> {
        self.index_by(IndexKind::Namespace, |object| vec![object.namespace().to_owned()])
    }

    /// An index by the value of a label.
    pub fn by_label(&self, label: &str) -> Index<T> {
        let label = label.to_owned();
        self.index_by(IndexKind::Label(label.clone()), move |object| {
            object.label(&label).map(str::to_owned).into_iter().collect()
        })
    }

    /// An index by the uid of the owner that controls the object.
    pub fn by_controller(&self) -> Index<T> {
        self.index_by(IndexKind::Controller, |object| {
            let controller = object.controller();
            controller.map(|owner| owner.uid.to_owned()).into_iter().collect()
        })
    }

    /// An index by the uids of all owners.
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
    /// The objects with a value, in the order of their keys.
    pub fn get(&self, value: &str) -> Vec<Arc<T>> {
        let content = self.store.read();
        let keys = content.indexes[self.position].keys(value);
        keys.filter_map(|key| content.objects.get(key).cloned()).collect()
    }

    /// The keys of the objects with a value, in order.
    pub fn keys(&self, value: &str) -> Vec<Key> {
        let content = self.store.read();
        content.indexes[self.position].keys(value).cloned().collect()
    }

    /// How many objects have a value.
    pub fn count(&self, value: &str) -> usize {
        let content = self.store.read();
        content.indexes[self.position].count(value)
    }

    /// The values that objects have, in no order.
    pub fn values(&self) -> Vec<String> {
        let content = self.store.read();
        content.indexes[self.position]
            .values()
            .map(str::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests;
