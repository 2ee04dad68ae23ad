//! The objects of a resource, followed from state to state.

use std::sync::Arc;

use imbl::{OrdMap, ordmap::DiffItem};
use k3_api::kinds::builtin;
use k3_storage::Key;

use crate::{
    cache::{Caches, Object},
    registry::Resource,
};

/// The objects of a resource as they were when somebody last looked.
pub(super) struct Following {
    group: &'static str,
    plural: &'static str,
    /// The revision of the cache that `known` is of; `None` before the first look.
    revision: Option<u64>,
    known: OrdMap<Key, Arc<Object>>,
}

/// What became of one object: the state that was known, and the one there is. One of the two may be missing, not both.
pub(super) type Change = (Option<Arc<Object>>, Option<Arc<Object>>);

// --- Following ---

impl Following {
    /// Begins with nothing known.
    pub(super) fn new(group: &'static str, plural: &'static str) -> Self {
        Following {
            group,
            plural,
            revision: None,
            known: OrdMap::new(),
        }
    }

    /// Whether there is nothing new.
    pub(super) fn is_current(&self, caches: &Caches) -> bool {
        self.revision == Some(self.resource(caches).cache.revision())
    }

    /// What has changed since the last look. The cost follows the changes, not the objects: states share what is the same.
    pub(super) fn changes(&mut self, caches: &Caches) -> Vec<Change> {
        let snapshot = self.resource(caches).cache.snapshot(0);
        if self.revision.replace(snapshot.revision) == Some(snapshot.revision) {
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

    // The cache is looked up each time: it is another one when the store's history was lost.
    fn resource(&self, caches: &Caches) -> Resource {
        let kind = builtin()
            .resource(self.group, "v1", self.plural)
            .expect("the resource is built in");
        Resource::of(kind, caches)
    }
}
