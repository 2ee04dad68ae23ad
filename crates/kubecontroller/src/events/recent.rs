//! What was used lately.

use std::{collections::HashMap, hash::Hash};

/// A map of bounded size: what was not used for long is forgotten first.
pub(super) struct Recent<K, V> {
    max: usize,
    /// Counts up with each use.
    now: u64,
    /// With when each was used last.
    entries: HashMap<K, (u64, V)>,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(max: usize) -> Self {
        Recent {
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

    /// The value that is there, or a new one.
    pub(super) fn entry(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(key) {
            self.insert(key.clone(), make());
        }
        self.get(key).expect("it was used last, so it is not forgotten")
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.entries.remove(key);
    }

    /// Half of the entries go at once, so that it costs little for each.
    fn forget(&mut self) {
        let mut used: Vec<u64> = self.entries.values().map(|(used, _)| *used).collect();
        let middle = used.len() / 2;
        let (_, oldest, _) = used.select_nth_unstable(middle);
        let oldest = *oldest;
        self.entries.retain(|_, (used, _)| *used >= oldest);
    }
}
