//! Labels, however they are kept.

use std::{borrow::Borrow, collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

/// Labels, however they are kept.
pub trait Labels {
    /// The value of a label.
    fn get(&self, key: &str) -> Option<&str>;

    /// Calls `see` with each label.
    fn visit(&self, see: &mut dyn FnMut(&str, &str));
}

// --- Labels ---

impl Labels for Map<String, Value> {
    fn get(&self, key: &str) -> Option<&str> {
        Map::get(self, key)?.as_str()
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        for (key, value) in self {
            if let Some(value) = value.as_str() {
                see(key, value);
            }
        }
    }
}

impl<K: Borrow<str> + Ord, V: AsRef<str>> Labels for BTreeMap<K, V> {
    fn get(&self, key: &str) -> Option<&str> {
        BTreeMap::get(self, key).map(AsRef::as_ref)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        for (key, value) in self {
            see(key.borrow(), value.as_ref());
        }
    }
}

impl<L: Labels> Labels for Option<L> {
    fn get(&self, key: &str) -> Option<&str> {
        self.as_ref()?.get(key)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        if let Some(labels) = self {
            labels.visit(see);
        }
    }
}

impl<L: Labels + ?Sized> Labels for Arc<L> {
    fn get(&self, key: &str) -> Option<&str> {
        (**self).get(key)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        (**self).visit(see);
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn get(&self, key: &str) -> Option<&str> {
        (**self).get(key)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        (**self).visit(see);
    }
}
