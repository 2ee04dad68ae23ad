//! Plugin state over all nodes that is kept from one scheduling cycle to the next.
//!
//! Topology spread and inter-pod affinity count pods on all nodes for every pod. Pods of one template have equal counts: the
//! counts are cached, and before reuse only the nodes that changed since are counted again.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use crate::cache::SchedulerCache;

/// Counts over all nodes that can be refreshed node by node.
pub(crate) trait IncrementalState: Sized {
    /// What it sums up.
    type Key: Hash + Eq;

    /// A sum over no nodes.
    fn empty(key: Self::Key) -> Self;

    /// What it sums up.
    fn key(&self) -> &Self::Key;

    /// Whether it must be rebuilt even if no node changed.
    fn is_stale(&self, cluster: &SchedulerCache) -> bool;

    /// Replaces a node's contribution by its current one.
    fn refresh(&mut self, slot: usize, cluster: &SchedulerCache);
}

/// The most recently used states.
#[derive(Debug)]
pub(crate) struct IncrementalCache<F> {
    hasher: DefaultHashBuilder,
    cached: Vec<CachedState<F>>,
}

#[derive(Debug)]
struct CachedState<F> {
    hash: u64,
    read: u64,
    state: F,
}

/// A state in use by one cycle; it is put back at the end of the cycle.
#[derive(Debug)]
pub(crate) struct BorrowedState<F> {
    hash: u64,
    read: u64,
    /// The sum.
    pub state: F,
}

const LIMIT: usize = 64;

impl<F> Default for IncrementalCache<F> {
    fn default() -> Self {
        IncrementalCache {
            hasher: DefaultHashBuilder::default(),
            cached: Vec::new(),
        }
    }
}

impl<F: IncrementalState> IncrementalCache<F> {
    /// The state for a key, refreshed to the current cache.
    pub(crate) fn take(&mut self, key: F::Key, cluster: &SchedulerCache) -> BorrowedState<F> {
        let hash = self.hasher.hash_one(&key);
        let known = self
            .cached
            .iter()
            .position(|cached| cached.hash == hash && *cached.state.key() == key);
        let end = cluster.log.end();
        if let Some(at) = known {
            let CachedState { mut state, read, .. } = self.cached.remove(at);
            if !state.is_stale(cluster)
                && let Some(changed) = cluster.log.since(read)
            {
                for slot in changed {
                    state.refresh(slot, cluster);
                }
                return BorrowedState {
                    hash,
                    read: end,
                    state,
                };
            }
        }
        let mut state = F::empty(key);
        for slot in 0..cluster.slot_count() {
            state.refresh(slot, cluster);
        }
        BorrowedState {
            hash,
            read: end,
            state,
        }
    }

    /// Puts a state back.
    pub(crate) fn put(&mut self, borrowed: BorrowedState<F>) {
        if self.cached.len() >= LIMIT {
            self.cached.pop();
        }
        let BorrowedState { hash, read, state } = borrowed;
        self.cached.insert(0, CachedState { hash, read, state });
    }
}
