//! Incremental changes of the objects of a resource since the last look.

use std::sync::Arc;

use imbl::{OrdMap, ordmap::DiffItem};
use k3_api::kinds::builtin;
use k3_storage::{Key, Revision};

use crate::{
    cache::{CacheVersion, CachedObject, WatchCache, WatchCaches},
    registry::Resource,
};

/// The objects of a resource at the version last seen.
pub(super) struct CacheFollower {
    /// The beginning of their keys.
    prefix: String,
    /// The version of the cache that `known` is of; `None` before the first look.
    version: Option<CacheVersion>,
    known: OrdMap<Key, Arc<CachedObject>>,
}

/// What became of one object: the state that was known, and the one there is. One of the two may be missing, not both.
pub(super) type ObjectChange = (Option<Arc<CachedObject>>, Option<Arc<CachedObject>>);

// --- CacheFollower ---

impl CacheFollower {
    /// Begins with nothing known.
    pub(super) fn new(group: &str, plural: &str, caches: &WatchCaches) -> Self {
        let kind = builtin()
            .resource(group, "v1", plural)
            .expect("the resource is built in");
        CacheFollower {
            prefix: Resource::of(kind, caches).under(""),
            version: None,
            known: OrdMap::new(),
        }
    }

    /// Whether nothing changed since the last look.
    pub(super) fn is_current(&self, caches: &WatchCaches) -> bool {
        self.version == Some(self.cache(caches).version())
    }

    /// What has changed since the last look. The cost follows the changes, not the objects: states share what is the same.
    pub(super) fn changes(&mut self, caches: &WatchCaches) -> Vec<ObjectChange> {
        let snapshot = self.cache(caches).snapshot(Revision::ZERO);
        if self.version.replace(snapshot.version) == Some(snapshot.version) {
            return Vec::new();
        }
        let changes = self.known.diff(&snapshot.objects).map(|item| match item {
            DiffItem::Add(_, new) => (None, Some(Arc::clone(new))),
            DiffItem::Remove(_, old) => (Some(Arc::clone(old)), None),
            DiffItem::Update { old, new } => (Some(Arc::clone(old.1)), Some(Arc::clone(new.1))),
        });
        let changes = changes.collect();
        self.known = snapshot.objects;
        changes
    }

    fn cache(&self, caches: &WatchCaches) -> Arc<WatchCache> {
        caches.resource(&self.prefix)
    }
}
