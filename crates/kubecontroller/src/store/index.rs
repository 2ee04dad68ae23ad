//! The data of an index.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;

use crate::Key;

/// The keys of the objects, by value.
pub(super) struct IndexData<T> {
    kind: IndexKind,
    values: IndexFn<T>,
    keys: HashMap<Box<str>, BTreeSet<Key>>,
}

/// Identifies indexes that are shared. Two functions cannot be compared, so an index without a name is never shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IndexKind {
    Namespace,
    Label(String),
    Owner,
    Controller,
    Named(&'static str),
    Unnamed,
}

/// Returns the values under which an object is indexed (client-go's `IndexFunc`).
type IndexFn<T> = Arc<dyn Fn(&T) -> Vec<String> + Send + Sync>;

// --- IndexData ---

impl<T> IndexData<T> {
    pub(super) fn new(kind: IndexKind, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) -> Self {
        IndexData {
            kind,
            values: Arc::new(values),
            keys: HashMap::new(),
        }
    }

    /// Whether a request for an index of this kind gets this index.
    pub(super) fn is_shared_as(&self, kind: &IndexKind) -> bool {
        self.kind == *kind && *kind != IndexKind::Unnamed
    }

    /// The keys of the objects with a value, in order.
    pub(super) fn keys(&self, value: &str) -> impl Iterator<Item = &Key> {
        self.keys.get(value).into_iter().flatten()
    }

    /// The number of objects with a value.
    pub(super) fn count(&self, value: &str) -> usize {
        self.keys.get(value).map_or(0, BTreeSet::len)
    }

    /// The values that objects have.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(|value| &**value)
    }

    /// Updates the index for an object that is added (`old` is `None`), changed, or removed (`new` is `None`).
    pub(super) fn update(&mut self, key: &Key, old: Option<&T>, new: Option<&T>) {
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
