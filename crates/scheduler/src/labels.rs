//! The labels of an object.

use std::collections::BTreeMap;

use crate::pool::{Pools, Text};

/// Labels, sorted by key. Objects have few: they are searched from the front.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Text, Text)]>);

impl Labels {
    /// Takes labels as they were read.
    pub fn read<S: AsRef<str>>(labels: &BTreeMap<S, S>, pools: &mut Pools) -> Self {
        let pairs = labels.iter();
        Labels(pairs.map(|(key, value)| (pools.text(key.as_ref()), pools.text(value.as_ref()))).collect())
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&Text> {
        self.0.iter().find(|(known, _)| &**known == key).map(|(_, value)| value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
