//! The stored objects and their history.
//!
//! Guarantees: every change increments one resource version for all resources. Changes in the log can be undone, so a list can
//! be continued and a watch resumed at any version that is not older than the log.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use kube::core::Status;
use serde_json::{Map, Value, json};

use super::{resource::ResourceId, status};
use crate::Key;

/// All stored objects.
pub(super) struct FakeCluster {
    resources: BTreeMap<ResourceId, StoredResource>,
    /// Every change, in order.
    log: VecDeque<Arc<Change>>,
    /// The version of the last change.
    version: u64,
    /// Watches and lists at this version and later can be served.
    oldest: u64,
    /// The number of generated names and UIDs.
    made: u64,
    /// The last applied configuration by resource, key and field manager.
    pub(super) applied: BTreeMap<(ResourceId, Key), BTreeMap<String, Value>>,
}

/// The objects of a resource and its metadata.
#[derive(Default)]
pub(super) struct StoredResource {
    pub(super) objects: BTreeMap<Key, Arc<Value>>,
    /// From a registration or from its objects.
    pub(super) kind: String,
    /// The API version of the last request.
    pub(super) version: String,
    pub(super) namespaced: bool,
    /// Whether the resource has no status subresource.
    pub(super) without_status: bool,
}

/// A change of an object.
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) id: ResourceId,
    pub(super) old: Option<Arc<Value>>,
    /// None for a deletion.
    pub(super) new: Option<Arc<Value>>,
}

// --- FakeCluster ---

impl FakeCluster {
    pub(super) fn new() -> Self {
        FakeCluster {
            resources: BTreeMap::new(),
            log: VecDeque::new(),
            version: 1,
            oldest: 1,
            made: 0,
            applied: BTreeMap::new(),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Compacts the history: requests for an earlier version fail with 410.
    pub(super) fn compact(&mut self) {
        // This version has no change, so that a watch at the last change is too old as well. The log is kept for running
        // watches.
        self.version += 1;
        self.oldest = self.version;
    }

    /// The state of a resource, created on first access.
    pub(super) fn stored(&mut self, id: &ResourceId) -> &mut StoredResource {
        self.resources.entry(id.clone()).or_default()
    }

    pub(super) fn resources(&self) -> impl Iterator<Item = (&ResourceId, &StoredResource)> {
        self.resources.iter()
    }

    pub(super) fn get(&self, id: &ResourceId, key: &Key) -> Option<Arc<Value>> {
        self.resources.get(id)?.objects.get(key).cloned()
    }

    /// The objects of a resource after a key, as of a version.
    pub(super) fn list_at(
        &self,
        id: &ResourceId,
        version: u64,
        after: Option<&Key>,
    ) -> Result<Vec<(Key, Arc<Value>)>, Box<Status>> {
        if version < self.oldest {
            return Err(status::expired(version, self.oldest));
        }
        if version > self.version {
            return Err(status::too_large(version, self.version));
        }
        let Some(stored) = self.resources.get(id) else {
            return Ok(Vec::new());
        };
        let wanted = |key: &Key| after.is_none_or(|after| key > after);
        let mut found: BTreeMap<Key, Arc<Value>> = match after {
            Some(after) => stored.objects.range(after.clone()..).collect::<Vec<_>>(),
            None => stored.objects.iter().collect(),
        }
        .into_iter()
        .filter(|(key, _)| wanted(key))
        .map(|(key, object)| (key.clone(), object.clone()))
        .collect();
        for change in self
            .log
            .iter()
            .rev()
            .take_while(|change| change.version > version)
        {
            let object = change.old.as_ref().or(change.new.as_ref());
            let Some(key) = object
                .map(|object| key_of(object))
                .filter(|key| change.id == *id && wanted(key))
            else {
                continue;
            };
            match &change.old {
                Some(old) => found.insert(key, old.clone()),
                None => found.remove(&key),
            };
        }
        Ok(found.into_iter().collect())
    }

    /// The changes of a resource since a version.
    pub(super) fn since(&self, id: &ResourceId, version: u64) -> Vec<Arc<Change>> {
        let start = self.log.partition_point(|change| change.version <= version);
        self.log
            .range(start..)
            .filter(|change| change.id == *id)
            .cloned()
            .collect()
    }

    /// Stores an object with the next version and returns it.
    pub(super) fn store(&mut self, id: &ResourceId, mut object: Value) -> Arc<Value> {
        self.version += 1;
        metadata(&mut object).insert("resourceVersion".to_owned(), self.version.to_string().into());
        let new = Arc::new(object);
        let key = key_of(&new);
        let stored = self.resources.entry(id.clone()).or_default();
        stored.namespaced |= !key.namespace().is_empty();
        let old = stored.objects.insert(key, new.clone());
        self.log.push_back(Arc::new(Change {
            version: self.version,
            id: id.clone(),
            old,
            new: Some(new.clone()),
        }));
        new
    }

    /// Removes an object and returns it.
    pub(super) fn remove(&mut self, id: &ResourceId, key: &Key) -> Option<Arc<Value>> {
        let old = self.resources.get_mut(id)?.objects.remove(key)?;
        self.applied.remove(&(id.clone(), key.clone()));
        self.version += 1;
        self.log.push_back(Arc::new(Change {
            version: self.version,
            id: id.clone(),
            old: Some(old.clone()),
            new: None,
        }));
        Some(old)
    }

    /// A new UID. Deterministic, so that test failures are reproducible.
    pub(super) fn uid(&mut self) -> String {
        self.made += 1;
        format!("{:08x}-0000-4000-8000-{:012x}", self.made, self.made)
    }

    /// The suffix of a generated name. Deterministic.
    pub(super) fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        self.made += 1;
        // Fibonacci hashing makes successive suffixes differ in all letters.
        let mut bits = self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let count = LETTERS.len() as u64;
        (0..5)
            .map(|_| {
                let letter = usize::try_from(bits % count).map_or('b', |at| char::from(LETTERS[at]));
                bits /= count;
                letter
            })
            .collect()
    }
}

// --- objects ---

/// Namespace and name of an object.
pub(super) fn key_of(object: &Value) -> Key {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    Key::new(text("namespace"), text("name"))
}

/// The metadata of an object, created if absent.
pub(super) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("it was made an object above")
}

/// Whether finalizers block the deletion of an object.
pub(super) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty())
}
