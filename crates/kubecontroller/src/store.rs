//! Objects in memory, found by key and by indexes.
//!
//! Promises: a lookup by key or index takes time in proportion to what it finds, never to what is there. What is read are
//! shared pointers: nobody clones an object, and nobody holds the store while they look at one. An index that is added later
//! knows what came before.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use hashbrown::HashMap;

use crate::{Key, object::Object};

/// The objects of a kind and scope. Clones are the same store; only the informer that fills it writes.
pub struct Store<T> {
    shared: Arc<RwLock<Content<T>>>,
}

struct Content<T> {
    objects: HashMap<Key, Arc<T>>,
    indexes: Vec<Index<T>>,
}

struct Index<T> {
    /// By which others find it, if it is shared.
    name: Option<&'static str>,
    values: ValuesOf<T>,
    /// The keys of the objects with a value, in order.
    keys: HashMap<Box<str>, BTreeSet<Key>>,
}

/// The values under which an object is found.
type ValuesOf<T> = Arc<dyn Fn(&T) -> Vec<String> + Send + Sync>;

/// An index of a store; made by [`Store::index`].
pub struct By<T> {
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

    /// An index by values of the object, such as the name of its node.
    pub fn index(&self, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) -> By<T> {
        self.add_index(None, values)
    }

    /// An index that all share who ask for that name: it takes memory and time once. They mean the same values by it.
    pub fn shared_index(
        &self,
        name: &'static str,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> By<T> {
        self.add_index(Some(name), values)
    }

    fn add_index(
        &self,
        name: Option<&'static str>,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> By<T> {
        let values: ValuesOf<T> = Arc::new(values);
        let mut content = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let known = content
            .indexes
            .iter()
            .position(|index| name.is_some() && index.name == name);
        if let Some(position) = known {
            return By {
                store: self.clone(),
                position,
            };
        }
        let mut index = Index {
            name,
            values,
            keys: HashMap::new(),
        };
        for (key, object) in &content.objects {
            index.insert(key, object);
        }
        content.indexes.push(index);
        By {
            store: self.clone(),
            position: content.indexes.len() - 1,
        }
    }

    /// Puts an object in. Gives the one it takes the place of.
    pub(crate) fn insert(&self, key: Key, object: Arc<T>) -> Option<Arc<T>> {
        let mut content = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let Content { objects, indexes } = &mut *content;
        let old = objects.insert(key.clone(), Arc::clone(&object));
        for index in indexes {
            index.change(&key, old.as_deref(), Some(&object));
        }
        old
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

    /// An index by namespace.
    pub fn by_namespace(&self) -> By<T> {
        self.index(|object| vec![object.namespace().to_owned()])
    }

    /// An index by the value of a label.
    pub fn by_label(&self, label: &str) -> By<T> {
        let label = label.to_owned();
        self.index(move |object| object.label(&label).map(str::to_owned).into_iter().collect())
    }

    /// An index by the uid of the owner that controls the object.
    pub fn by_controller(&self) -> By<T> {
        self.index(|object| {
            let controller = object.controller();
            controller.map(|owner| owner.uid.to_owned()).into_iter().collect()
        })
    }

    /// An index by the uids of all owners.
    pub fn by_owner(&self) -> By<T> {
        self.index(|object| object.owners().map(|owner| owner.uid.to_owned()).collect())
    }
}

// --- Index ---

impl<T> Index<T> {
    fn insert(&mut self, key: &Key, object: &T) {
        for value in (self.values)(object) {
            self.keys
                .entry(value.into_boxed_str())
                .or_default()
                .insert(key.clone());
        }
    }

    fn change(&mut self, key: &Key, old: Option<&T>, new: Option<&T>) {
        let before = old.map(|old| (self.values)(old)).unwrap_or_default();
        let after = new.map(|new| (self.values)(new)).unwrap_or_default();
        if before == after {
            return;
        }
        for value in before {
            if let Some(keys) = self.keys.get_mut(value.as_str()) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(value.as_str());
                }
            }
        }
        for value in after {
            let keys = self.keys.entry(value.into_boxed_str()).or_default();
            keys.insert(key.clone());
        }
    }
}

// --- By ---

impl<T> Clone for By<T> {
    fn clone(&self) -> Self {
        By {
            store: self.store.clone(),
            position: self.position,
        }
    }
}

impl<T> fmt::Debug for By<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("By")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl<T> By<T> {
    /// The objects with a value, in the order of their keys.
    pub fn get(&self, value: &str) -> Vec<Arc<T>> {
        let content = self.store.read();
        let keys = content.indexes[self.position].keys.get(value);
        keys.into_iter()
            .flatten()
            .filter_map(|key| content.objects.get(key).cloned())
            .collect()
    }

    /// The keys of the objects with a value, in order.
    pub fn keys(&self, value: &str) -> Vec<Key> {
        let content = self.store.read();
        let keys = content.indexes[self.position].keys.get(value);
        keys.into_iter().flatten().cloned().collect()
    }

    /// How many objects have a value.
    pub fn count(&self, value: &str) -> usize {
        let content = self.store.read();
        content.indexes[self.position]
            .keys
            .get(value)
            .map_or(0, BTreeSet::len)
    }

    /// The values that objects have, in no order.
    pub fn values(&self) -> Vec<String> {
        let content = self.store.read();
        let values = content.indexes[self.position].keys.keys();
        values.map(|value| value.clone().into_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use proptest::{collection::vec, prelude::*};

    use super::Store;
    use crate::{
        Key,
        object::{Slim, SlimMeta, SlimOwner},
    };

    type Bare = Slim<()>;

    fn object(namespace: &str, name: &str, label: Option<&str>) -> Bare {
        Slim {
            metadata: SlimMeta {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                labels: label.map(|value| ("app", value)).into_iter().collect(),
                ..SlimMeta::default()
            },
            fields: (),
        }
    }

    fn put(store: &Store<Bare>, object: Bare) {
        let key = Key::new(&object.metadata.namespace, &object.metadata.name);
        store.insert(key, Arc::new(object));
    }

    #[test]
    fn an_index_with_a_name_is_there_once() {
        let store = Store::<Bare>::default();
        let index = || store.shared_index("name", |object| vec![object.metadata.name.clone()]);
        let first = index();
        put(&store, object("a", "one", None));
        assert_eq!(
            (index().position, store.by_namespace().position),
            (first.position, 1)
        );
        assert_eq!(index().keys("one"), [Key::new("a", "one")]);
    }

    #[test]
    fn objects_are_found_by_namespace_label_and_owner() {
        let store = Store::default();
        put(&store, object("a", "one", Some("web")));
        let namespaces = store.by_namespace();
        let apps = store.by_label("app");
        let (owners, controllers) = (store.by_owner(), store.by_controller());
        put(&store, object("a", "two", Some("web")));
        put(&store, object("b", "three", None));
        let mut owned = object("b", "four", None);
        owned.metadata.owner_references = vec![
            SlimOwner {
                uid: "u1".to_owned(),
                controller: Some(true),
                ..SlimOwner::default()
            },
            SlimOwner {
                uid: "u2".to_owned(),
                ..SlimOwner::default()
            },
        ];
        put(&store, owned);
        assert_eq!(namespaces.keys("a"), [Key::new("a", "one"), Key::new("a", "two")]);
        assert_eq!(apps.count("web"), 2);
        assert_eq!(apps.get("none").len(), 0);
        assert_eq!(owners.keys("u2"), [Key::new("b", "four")]);
        assert_eq!(controllers.keys("u1"), [Key::new("b", "four")]);
        assert_eq!(controllers.count("u2"), 0);
        put(&store, object("a", "two", Some("db")));
        assert_eq!((apps.count("web"), apps.count("db")), (1, 1));
        store.remove(&Key::new("a", "two"));
        assert_eq!(apps.values(), ["web"]);
    }

    proptest! {
        #[test]
        fn an_index_says_what_a_look_at_every_object_says(
            steps in vec((0..4_u8, 0..6_u8, proptest::option::of(0..3_u8), any::<bool>()), 0..80)
        ) {
            let store = Store::default();
            let apps = store.by_label("app");
            let mut model = BTreeMap::new();
            for (namespace, name, label, is_there) in steps {
                let (namespace, name) = (format!("ns{namespace}"), format!("n{name}"));
                let key = Key::new(&namespace, &name);
                if is_there {
                    let label = label.map(|label| label.to_string());
                    put(&store, object(&namespace, &name, label.as_deref()));
                    model.insert(key, label);
                } else {
                    store.remove(&key);
                    model.remove(&key);
                }
                for value in ["0", "1", "2"] {
                    let expected: Vec<_> = model
                        .iter()
                        .filter(|(_, label)| label.as_deref() == Some(value))
                        .map(|(key, _)| key.clone())
                        .collect();
                    prop_assert_eq!(apps.keys(value), expected);
                }
                prop_assert_eq!(store.len(), model.len());
            }
        }
    }
}
