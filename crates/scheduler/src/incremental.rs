//! Sums over all nodes that are kept from one decision to the next.
//!
//! Spreading and affinity ask, for every pod, about all pods on all nodes. Pods of one template ask the same: the
//! answer is kept, and before it is used again only the nodes are looked at that have changed since.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use crate::cache::SchedulerCache;

/// A sum over all nodes.
pub(crate) trait IncrementalState: Sized {
    /// What it sums up.
    type Key: Hash + Eq;

    /// A sum over no nodes.
    fn empty(key: Self::Key) -> Self;

    /// What it sums up.
    fn key(&self) -> &Self::Key;

    /// Whether it must be made anew, whatever the nodes say.
    fn is_stale(&self, cluster: &SchedulerCache) -> bool;

    /// Takes a node into the sum as it is now, in place of what it was.
    fn refresh(&mut self, slot: usize, cluster: &SchedulerCache);
}

/// The sums that were used last.
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

/// A sum that is in use; it is given back when the decision is made.
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
    /// The sum for a key, as the cluster is now.
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

    /// Gives a sum back.
    pub(crate) fn put(&mut self, borrowed: BorrowedState<F>) {
        if self.cached.len() >= LIMIT {
            self.cached.pop();
        }
        let BorrowedState { hash, read, state } = borrowed;
        self.cached.insert(0, CachedState { hash, read, state });
    }
}
