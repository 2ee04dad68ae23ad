//! Looks up the objects that tokens are bound to: service accounts, pods, secrets, nodes.

use std::{sync::Arc, time::Duration};

use k3_api::{
    kinds::builtin,
    status::Status,
    strategy::Tree,
    time::{self, Time},
};
use serde_json::Value;

use crate::{
    cache::{CachedObject, WatchCaches},
    registry::Resource,
};

/// How long the store may take to say that nothing is missing in the cache.
const PATIENCE: Duration = Duration::from_secs(5);
/// How far clocks may differ.
pub(super) const LEEWAY: i64 = 60;

/// Finds objects.
#[derive(Clone)]
pub(super) struct TokenObjectLookup {
    caches: Arc<WatchCaches>,
}

/// An object in the state in which it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObservedObject {
    plural: &'static str,
    namespace: String,
    name: String,
    revision: u64,
}

// --- TokenObjectLookup ---

impl TokenObjectLookup {
    pub(super) fn new(caches: Arc<WatchCaches>) -> Self {
        TokenObjectLookup { caches }
    }

    /// Returns an object, or the NotFound error.
    pub(super) fn find(
        &self,
        plural: &'static str,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<CachedObject>, Status> {
        let kind = builtin()
            .resource("", "v1", plural)
            .expect("the resource is built in");
        let resource = Resource::of(kind, &self.caches);
        let key = resource.key(namespace, name)?;
        resource.cache.get(&key).ok_or_else(|| resource.not_found(name))
    }

    /// Returns an object as a tree, and records its version.
    pub(super) fn observe(
        &self,
        plural: &'static str,
        namespace: &str,
        name: &str,
        seen: &mut Vec<ObservedObject>,
    ) -> Result<Value, Status> {
        let object = self.find(plural, namespace, name)?;
        seen.push(ObservedObject {
            plural,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            revision: object.revision,
        });
        Ok(object.tree())
    }

    /// Whether all recorded objects are unchanged.
    pub(super) fn is_unchanged(&self, seen: &[ObservedObject]) -> bool {
        seen.iter().all(|seen| {
            self.find(seen.plural, &seen.namespace, &seen.name)
                .is_ok_and(|object| object.revision == seen.revision)
        })
    }

    /// Waits, for a bounded time, until the cache has the writes of other servers.
    pub(super) async fn refresh(&self) {
        // A store that does not answer is no reason to believe a token; what the cache has then decides.
        let _ = tokio::time::timeout(PATIENCE, self.caches.read_index()).await;
    }
}

/// Whether an object was deleted so long ago that clocks do not explain it.
pub(super) fn is_deleted(object: &Value, now: Time) -> bool {
    let metadata = object.at("metadata");
    metadata.has("deletionTimestamp")
        && Time::parse(metadata.text("deletionTimestamp")).map_or(true, |deleted| {
            deleted < now.plus(time::Duration::from_seconds(-LEEWAY))
        })
}
