//! Caches compiled admission configuration (webhooks, policies): one entry per object version, and one list per version of all
//! objects.

use std::{collections::HashMap, sync::Arc};

use k3_storage::{Key, Revision};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    cache::{CacheVersion, CachedObject},
    registry::Resource,
};

/// What was made of the objects of a resource, and from which version of the cache.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go refreshPolicies, calculatePolicyData; parsed per object, and once per state of all objects
///
/// Configurations are compiled under the lock, once for all requests that need them. If that panics, nothing is cached, and the
/// next request compiles all of them.
pub(super) struct ConfigurationCache<I, A>(Mutex<Option<CachedConfiguration<I, A>>>);

struct CachedConfiguration<I, A> {
    version: CacheVersion,
    /// By key, with the state of the object.
    items: HashMap<Key, (Arc<CachedObject>, Arc<I>)>,
    all: Arc<A>,
}

/// Entries in order, indexed by the resources they match.
#[derive(Debug)]
pub(super) struct ResourceIndex {
    /// Positions of those that are about any resource.
    any: Vec<usize>,
    /// Positions of those that name a resource, and of those about any.
    named: HashMap<String, Vec<usize>>,
}

impl<I, A> Default for ConfigurationCache<I, A> {
    fn default() -> Self {
        ConfigurationCache(Mutex::new(None))
    }
}

// --- ConfigurationCache ---

impl<I, A> ConfigurationCache<I, A> {
    /// What there is now. `each` reads an object that is new or has changed; `all` gets them ordered by name.
    pub(super) fn get(
        &self,
        of: &Resource,
        each: impl Fn(&Value) -> I,
        all: impl FnOnce(Vec<Arc<I>>) -> A,
    ) -> Arc<A> {
        let snapshot = of.cache.snapshot(Revision::ZERO);
        let mut known = self.0.lock();
        if let Some(known) = &*known
            && known.version == snapshot.version
        {
            return Arc::clone(&known.all);
        }
        let mut before = known.take().map(|known| known.items).unwrap_or_default();
        let mut items = HashMap::new();
        let mut list = Vec::new();
        for (key, object) in &snapshot.objects {
            let item = match before.remove(key) {
                Some((state, item)) if Arc::ptr_eq(&state, object) => item,
                _ => Arc::new(each(&object.tree())),
            };
            items.insert(key.clone(), (Arc::clone(object), Arc::clone(&item)));
            list.push(item);
        }
        let all = Arc::new(all(list));
        *known = Some(CachedConfiguration {
            version: snapshot.version,
            items,
            all: Arc::clone(&all),
        });
        all
    }
}

// --- ResourceIndex ---

impl ResourceIndex {
    /// An index of entries by the resources that each names; `None`: any resource.
    pub(super) fn new<'n>(entries: impl Iterator<Item = Option<Vec<&'n str>>>) -> Self {
        let entries: Vec<_> = entries.collect();
        let names = entries.iter().flatten().flatten();
        let mut named: HashMap<String, Vec<usize>> =
            names.map(|name| ((*name).to_owned(), Vec::new())).collect();
        let mut any = Vec::new();
        for (position, entry) in entries.iter().enumerate() {
            match entry {
                None => {
                    any.push(position);
                    for positions in named.values_mut() {
                        positions.push(position);
                    }
                }
                Some(names) => {
                    for name in names {
                        let positions = named.entry((*name).to_owned()).or_default();
                        if positions.last() != Some(&position) {
                            positions.push(position);
                        }
                    }
                }
            }
        }
        ResourceIndex { any, named }
    }

    /// The positions of those that may be about a resource, in order.
    pub(super) fn of(&self, resource: &str) -> &[usize] {
        self.named.get(resource).unwrap_or(&self.any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_keeps_order_and_includes_wildcard_entries() {
        let entries = [
            Some(vec!["pods", "pods"]),
            None,
            Some(vec!["services", "pods"]),
            Some(vec![]),
        ];
        let index = ResourceIndex::new(entries.into_iter());
        assert_eq!(index.of("pods"), [0, 1, 2]);
        assert_eq!(index.of("services"), [1, 2]);
        assert_eq!(index.of("nodes"), [1]);
    }
}
