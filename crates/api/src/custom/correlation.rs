//! Correlates values of the new object with values of the old one, for ratcheting: unchanged values are not validated again.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/equality.go CorrelatedObject, CachedDeepEqual, Key, Index

use std::collections::HashMap;

use serde_json::Value;

use super::{
    listing::{key_text, keys_of},
    node::Node,
};

/// A value, what it was before, and the schema by which the two are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CorrelatedValue<'v> {
    pub(super) new: &'v Value,
    pub(super) old: &'v Value,
    pub(super) node: &'v Node,
}

/// The items of an old list, by what identifies them.
#[derive(Debug, Default)]
pub(super) struct OldItems<'v> {
    by_key: HashMap<String, &'v Value>,
}

// --- OldItems ---

impl<'v> OldItems<'v> {
    /// The old item that a new one was.
    pub(super) fn get(&self, item: &Value, node: &Node) -> Option<&'v Value> {
        if !item.is_object() {
            return None;
        }
        self.by_key.get(&key_text(&keys_of(item, node.keys()))).copied()
    }
}

// --- CorrelatedValue ---

impl<'v> CorrelatedValue<'v> {
    /// A field, if it was there before and the schema knows it.
    pub(super) fn key(self, name: &str) -> Option<CorrelatedValue<'v>> {
        let (Value::Object(new), Value::Object(old)) = (self.new, self.old) else {
            return None;
        };
        Some(CorrelatedValue {
            new: new.get(name)?,
            old: old.get(name)?,
            node: self.node.field(name)?,
        })
    }

    /// The items of the old list that the new ones can be compared with; `None` if they cannot be distinguished.
    pub(super) fn old_items(self) -> Option<OldItems<'v>> {
        let keys = self.node.keys();
        let Value::Array(items) = self.old else {
            return None;
        };
        if keys.is_empty() {
            return None;
        }
        let mut by_key = HashMap::with_capacity(items.len());
        for item in items.iter().filter(|item| item.is_object()) {
            by_key.entry(key_text(&keys_of(item, keys))).or_insert(item);
        }
        Some(OldItems { by_key })
    }

    /// An item of the new list, if it was there before.
    pub(super) fn item(self, index: usize, old: &OldItems<'v>) -> Option<CorrelatedValue<'v>> {
        let Value::Array(items) = self.new else {
            return None;
        };
        let new = items.get(index)?;
        Some(CorrelatedValue {
            new,
            old: old.get(new, self.node)?,
            node: self.node.items()?,
        })
    }

    /// Whether nothing changed. Items that can be distinguished may stand elsewhere; a field the schema does not know
    /// counts as a change.
    pub(super) fn is_same(self) -> bool {
        self.is_same_within(&mut |_| true)
    }

    /// The same, as long as `take` grants the steps; then it counts as changed.
    pub(super) fn is_same_within(self, take: &mut impl FnMut(usize) -> bool) -> bool {
        if !take(1) {
            return false;
        }
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                let Some(items) = self.old_items() else {
                    take(new.len());
                    return new == old;
                };
                (0..new.len()).all(|index| {
                    self.item(index, &items)
                        .is_some_and(|item| item.is_same_within(take))
                })
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new
                        .keys()
                        .all(|name| self.key(name).is_some_and(|field| field.is_same_within(take)))
            }
            (new, old) => new == old,
        }
    }
}
