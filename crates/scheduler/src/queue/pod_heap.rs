//! Pods in the order of their turns.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use crate::interner::Text;

/// Backoff expiration, then priority, then queue timestamp, then arrival number.
pub(super) type Key = (Duration, Reverse<i32>, Duration, u64);

/// Pods in the order of their turns.
// upstream: pkg/scheduler/backend/heap/heap.go NewWithRecorder
#[derive(Debug, Default)]
pub(super) struct PodHeap(BTreeMap<Key, Text>);

impl PodHeap {
    /// Puts a pod in its place.
    pub(super) fn insert(&mut self, key: Key, uid: Text) {
        self.0.insert(key, uid);
    }

    /// Takes a pod out.
    pub(super) fn remove(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// The next.
    pub(super) fn first(&self) -> Option<&Text> {
        self.0.first_key_value().map(|(_, uid)| uid)
    }

    /// Takes the next.
    pub(super) fn pop(&mut self) -> Option<Text> {
        self.0.pop_first().map(|(_, uid)| uid)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
