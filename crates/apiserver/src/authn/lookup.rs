//! Looks up the objects that tokens are bound to: service accounts, pods, secrets, nodes.

use std::{sync::Arc, time::Duration};

use k3_api::{kinds::builtin, status::Status, strategy::Tree, time::Time};
use k3_storage::Revision;
use serde_json::Value;

use crate::{
    cache::{CachedObject, WatchCaches},
    registry::Resource,
};

/// How long to wait until the cache has applied the newest write of the store.
const READ_INDEX_TIMEOUT: Duration = Duration::from_secs(5);
/// The tolerated difference between clocks, in seconds.
pub(super) const LEEWAY: i64 = 60;

/// Reads the objects that tokens are bound to from the watch caches.
// upstream: pkg/serviceaccount/jwt.go ServiceAccountTokenGetter
#[derive(Clone)]
pub(super) struct TokenObjectLookup {
    caches: Arc<WatchCaches>,
}

/// An object that a token was verified with, and its revision at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObservedObject {
    plural: &'static str,
    namespace: String,
    name: String,
    revision: Revision,
}

// --- TokenObjectLookup ---

impl TokenObjectLookup {
    pub(super) fn new(caches: Arc<WatchCaches>) -> Self {
        TokenObjectLookup { caches }
    }

    /// Returns an object, or the NotFound error.
    pub(super) fn get(
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
        observed: &mut Vec<ObservedObject>,
    ) -> Result<Value, Status> {
        let object = self.get(plural, namespace, name)?;
        observed.push(ObservedObject {
            plural,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            revision: object.revision,
        });
        Ok(object.tree())
    }

    /// Whether all recorded objects are unchanged.
    pub(super) fn is_unchanged(&self, observed: &[ObservedObject]) -> bool {
        observed.iter().all(|observed| {
            self.get(observed.plural, &observed.namespace, &observed.name)
                .is_ok_and(|object| object.revision == observed.revision)
        })
    }

    /// Waits, for a bounded time, until the cache has the writes of other servers.
    pub(super) async fn refresh(&self) {
        // If the store does not respond in time, the state of the cache decides: a timeout never makes a token valid.
        let _ = tokio::time::timeout(READ_INDEX_TIMEOUT, self.caches.read_index()).await;
    }
}

/// Whether an object was deleted so long ago that clocks do not explain it.
pub(super) fn is_deleted(object: &Value, now: Time) -> bool {
    let metadata = object.at("metadata");
    metadata.has("deletionTimestamp")
        && Time::parse(metadata.text("deletionTimestamp")).map_or(true, |deleted| {
            deleted < now.plus(k3_duration::Duration::from_seconds(-LEEWAY))
        })
}
