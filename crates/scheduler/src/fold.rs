//! Sums over all nodes that are kept from one decision to the next.
//!
//! Spreading and affinity ask, for every pod, about all pods on all nodes. Pods of one template ask the same: the
//! answer is kept, and before it is used again only the nodes are looked at that have changed since.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use crate::cluster::Cluster;

/// A sum over all nodes.
pub(crate) trait Fold: Sized {
    /// What it sums up.
    type Key: Hash + Eq;

    /// A sum over no nodes.
    fn empty(key: Self::Key) -> Self;

    /// What it sums up.
    fn key(&self) -> &Self::Key;

    /// Whether it must be made anew, whatever the nodes say.
    fn is_stale(&self, cluster: &Cluster) -> bool;

    /// Takes a node into the sum as it is now, in place of what it was.
    fn refresh(&mut self, slot: usize, cluster: &Cluster);
}

/// The sums that were used last.
#[derive(Debug)]
pub(crate) struct Folds<F> {
    hasher: DefaultHashBuilder,
    kept: Vec<Kept<F>>,
}

#[derive(Debug)]
struct Kept<F> {
    hash: u64,
    read: u64,
    fold: F,
}

/// A sum that is in use; it is given back when the decision is made.
#[derive(Debug)]
pub(crate) struct Taken<F> {
    hash: u64,
    read: u64,
    /// The sum.
    pub fold: F,
}

const LIMIT: usize = 64;

impl<F> Default for Folds<F> {
    fn default() -> Self {
        Folds {
            hasher: DefaultHashBuilder::default(),
            kept: Vec::new(),
        }
    }
}

impl<F: Fold> Folds<F> {
    /// The sum for a key, as the cluster is now.
    pub(crate) fn take(&mut self, key: F::Key, cluster: &Cluster) -> Taken<F> {
        let hash = self.hasher.hash_one(&key);
        let known = self
            .kept
            .iter()
            .position(|kept| kept.hash == hash && *kept.fold.key() == key);
        let end = cluster.log.end();
        if let Some(at) = known {
            let Kept { mut fold, read, .. } = self.kept.remove(at);
            if !fold.is_stale(cluster)
                && let Some(changed) = cluster.log.since(read)
            {
                for slot in changed {
                    fold.refresh(slot, cluster);
                }
                return Taken {
                    hash,
                    read: end,
                    fold,
                };
            }
        }
        let mut fold = F::empty(key);
        for slot in 0..cluster.places() {
            fold.refresh(slot, cluster);
        }
        Taken {
            hash,
            read: end,
            fold,
        }
    }

    /// Gives a sum back.
    pub(crate) fn put(&mut self, taken: Taken<F>) {
        if self.kept.len() >= LIMIT {
            self.kept.pop();
        }
        let Taken { hash, read, fold } = taken;
        self.kept.insert(0, Kept { hash, read, fold });
    }
}
