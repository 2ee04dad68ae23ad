//! An index: the keys of the objects that have a value.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;

use crate::Key;

/// The keys of the objects by a value that they have.
pub(super) struct IndexData<T> {
    subject: IndexKind,
    values: ValuesOf<T>,
    /// In order.
    keys: HashMap<Box<str>, BTreeSet<Key>>,
}

/// What an index is about. There is one of each, but any number of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IndexKind {
    Namespace,
    Label(String),
    Owner,
    Controller,
    /// What those call it who share it.
    Named(&'static str),
    Other,
}

/// The values under which an object is found.
type ValuesOf<T> = Arc<dyn Fn(&T) -> Vec<String> + Send + Sync>;

// --- IndexData ---

impl<T> IndexData<T> {
    pub(super) fn new(
        subject: IndexKind,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        IndexData {
            subject,
            values: Arc::new(values),
            keys: HashMap::new(),
        }
    }

    /// Whether it can serve for a subject.
    pub(super) fn is_for(&self, subject: &IndexKind) -> bool {
        self.subject == *subject && *subject != IndexKind::Other
    }

    /// The keys of the objects with a value, in order.
    pub(super) fn keys(&self, value: &str) -> impl Iterator<Item = &Key> {
        self.keys.get(value).into_iter().flatten()
    }

    /// How many objects have a value.
    pub(super) fn count(&self, value: &str) -> usize {
        self.keys.get(value).map_or(0, BTreeSet::len)
    }

    /// The values that objects have.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(|value| &**value)
    }

    /// An object comes, changes or goes.
    pub(super) fn change(&mut self, key: &Key, old: Option<&T>, new: Option<&T>) {
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
