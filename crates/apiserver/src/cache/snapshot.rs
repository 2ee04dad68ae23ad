//! Snapshots of the objects of one resource at one revision, for lists and continue tokens.

use std::sync::Arc;

use imbl::OrdMap;
use k3_storage::{Key, Revision};

use super::{CacheVersion, CachedObject};

/// The objects of a resource at one revision.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/store/store_btree.go Clone
#[derive(Clone)]
pub(crate) struct Snapshot {
    /// Everything up to here is in it, and nothing after.
    pub revision: Revision,
    /// Which state of the cache it is of.
    pub version: CacheVersion,
    /// The objects, by key.
    pub objects: OrdMap<Key, Arc<CachedObject>>,
}

// --- Snapshot ---

impl Snapshot {
    /// The objects under a prefix, behind a key if one is given, in order.
    pub(crate) fn under<'s>(
        &'s self,
        prefix: &'s str,
        after: Option<&'s str>,
    ) -> impl Iterator<Item = &'s Arc<CachedObject>> + use<'s> {
        use std::ops::Bound;
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        self.objects
            .range::<_, str>((from, Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object)
    }
}
