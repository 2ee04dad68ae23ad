//! A value computed from all objects of a resource, cached until one of them changes.

use std::{collections::HashMap, sync::Arc};

use k3_storage::Revision;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    cache::{CacheVersion, CachedObject},
    registry::Resource,
};

/// Something that was found out, and from which version of the cache. It is found out under the lock, once for all requests; a panic
/// leaves what was known before, with its version.
pub(super) struct DerivedCache<T>(Mutex<Option<(CacheVersion, T)>>);

/// Something that was found out about each of some namespaces, and from which states of its objects.
// upstream: plugin/pkg/admission/limitranger/admission.go GetLimitRanges; upstream reads its informer on every request, this caches the parsed result
pub(super) struct NamespacedDerivedCache<T>(Mutex<HashMap<Box<str>, DerivedEntry<T>>>);

/// What was found out, and the revisions of the objects it follows from.
type DerivedEntry<T> = (Vec<Revision>, Arc<T>);

/// More namespaces than this are not remembered at once.
const MAX_NAMESPACES: usize = 4096;

// --- DerivedCache ---

impl<T> Default for DerivedCache<T> {
    fn default() -> Self {
        DerivedCache(Mutex::new(None))
    }
}

impl<T: Clone> DerivedCache<T> {
    /// What `find` finds among the objects as they are. It is asked once per state of the resource.
    pub(super) fn get(&self, of: &Resource, find: impl FnOnce(&[Value]) -> T) -> T {
        let snapshot = of.cache.snapshot(Revision::ZERO);
        let mut known = self.0.lock();
        if let Some((version, value)) = &*known
            && *version == snapshot.version
        {
            return value.clone();
        }
        let objects: Vec<_> = snapshot
            .objects
            .values()
            .map(Arc::as_ref)
            .map(CachedObject::tree)
            .collect();
        let value = find(&objects);
        *known = Some((snapshot.version, value.clone()));
        value
    }
}

// --- NamespacedDerivedCache ---

impl<T> Default for NamespacedDerivedCache<T> {
    fn default() -> Self {
        NamespacedDerivedCache(Mutex::default())
    }
}

impl<T> NamespacedDerivedCache<T> {
    /// What `find` finds among the objects of a namespace; `None` if there are none. It is asked once per state of the objects.
    pub(super) fn get(
        &self,
        of: &Resource,
        namespace: &str,
        find: impl FnOnce(&[Value]) -> T,
    ) -> Option<Arc<T>> {
        let snapshot = of.cache.snapshot(Revision::ZERO);
        if snapshot.objects.is_empty() {
            return None;
        }
        let prefix = of.under(namespace);
        let revisions: Vec<_> = snapshot
            .under(&prefix, None)
            .map(|object| object.revision)
            .collect();
        if revisions.is_empty() {
            return None;
        }
        let mut known = self.0.lock();
        if let Some((from, value)) = known.get(namespace)
            && *from == revisions
        {
            return Some(Arc::clone(value));
        }
        let objects: Vec<_> = snapshot
            .under(&prefix, None)
            .map(|object| object.tree())
            .collect();
        let value = Arc::new(find(&objects));
        // When they are decrypted, their revisions stay the same.
        if snapshot
            .under(&prefix, None)
            .any(|object| object.undecrypted().is_some())
        {
            return Some(value);
        }
        // Namespaces come and go; those that are still there are found out about again.
        if known.len() >= MAX_NAMESPACES {
            known.clear();
        }
        known.insert(namespace.into(), (revisions, Arc::clone(&value)));
        Some(value)
    }
}
