//! A bounded cache.

use std::{collections::HashMap, hash::Hash};

/// A map of bounded size that evicts the least recently used entries.
pub(super) struct LruCache<K, V> {
    max: usize,
    /// Incremented by each access.
    now: u64,
    /// Values with the time of their last access.
    entries: HashMap<K, (u64, V)>,
}

impl<K: Clone + Eq + Hash, V> LruCache<K, V> {
    pub(super) fn new(max: usize) -> Self {
        LruCache {
            max,
            now: 0,
            entries: HashMap::new(),
        }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<&mut V> {
        self.now += 1;
        let (used, value) = self.entries.get_mut(key)?;
        *used = self.now;
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.now += 1;
        self.entries.insert(key, (self.now, value));
        if self.entries.len() > self.max {
            self.forget();
        }
    }

    /// The value of a key, created if absent.
    pub(super) fn entry(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(key) {
            self.insert(key.clone(), make());
        }
        self.get(key).expect("the entry was just inserted or exists")
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.entries.remove(key);
    }

    /// Evicts half of the entries at once, so that the amortized cost per insertion is small.
    fn forget(&mut self) {
        let mut used: Vec<u64> = self.entries.values().map(|(used, _)| *used).collect();
        let middle = used.len() / 2;
        let (_, oldest, _) = used.select_nth_unstable(middle);
        let oldest = *oldest;
        self.entries.retain(|_, (used, _)| *used >= oldest);
    }
}
