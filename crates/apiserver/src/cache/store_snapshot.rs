//! Reads everything that is stored, as of one revision, before it is published in the caches.

use std::{collections::HashMap, sync::Arc};

use imbl::OrdMap;
use k3_storage::{Entry, Key, Page, Prefix, ReadError, Revision};

use super::CachedObject;
use crate::read_only_store::ReadOnlyStore;

/// Where all objects are stored.
pub(super) const ROOT: &str = "/registry/";
/// How many entries are read at a time.
const PAGE: usize = 2000;

/// Everything that is stored, as of one revision.
pub(super) struct StoreSnapshot {
    pub revision: Revision,
    /// The objects of each resource, by the prefix of their keys.
    pub resources: HashMap<Box<str>, OrdMap<Key, Arc<CachedObject>>>,
}

// --- StoreSnapshot ---

impl StoreSnapshot {
    /// Reads it. `known` finds the state of an object that is in memory already; if it is the one that is stored, it is used.
    pub(super) async fn read(
        store: &ReadOnlyStore,
        known: impl Fn(&Key) -> Option<Arc<CachedObject>> + Send,
    ) -> Result<Self, ReadError> {
        let root = Prefix::try_new(ROOT).expect("the root is a prefix");
        let mut resources: HashMap<Box<str>, OrdMap<Key, Arc<CachedObject>>> = HashMap::new();
        let mut page = Page::first(PAGE);
        loop {
            let range = store.range(&root, page).await?;
            let next = range.next(PAGE);
            for entry in range.entries {
                let prefix = resource_prefix(&entry.key);
                if !resources.contains_key(prefix) {
                    resources.insert(prefix.into(), OrdMap::new());
                }
                let objects = resources.get_mut(prefix).expect("it was inserted just now");
                let object = known(&entry.key).filter(|known| is_state_of(known, &entry));
                let object = object.unwrap_or_else(|| {
                    Arc::new(CachedObject::new(entry.key.clone(), entry.value, entry.revision))
                });
                objects.insert(entry.key, object);
            }
            let Some(next) = next else {
                return Ok(StoreSnapshot {
                    revision: range.revision,
                    resources,
                });
            };
            page = next;
        }
    }
}

fn is_state_of(object: &CachedObject, entry: &Entry) -> bool {
    object.revision == entry.revision && *object.stored() == entry.value
}

/// The first three parts of a key: `/registry/<group>/<resource>/`.
pub(super) fn resource_prefix(key: &str) -> &str {
    let mut slashes = key.match_indices('/').map(|(at, _)| at);
    match slashes.nth(3) {
        Some(end) => &key[..=end],
        None => key,
    }
}
