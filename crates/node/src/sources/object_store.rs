//! Cache of the ConfigMaps or Secrets that pods refer to.
// upstream: pkg/kubelet/util/manager/cache_based_manager.go objectStore, cacheBasedManager

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::Api;
use kubecontroller::Key;
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::ObjectSourceError;

/// How long a mutable object is served from the cache.
const TTL: Duration = Duration::from_mins(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A kind of objects that pods refer to: ConfigMap or Secret.
pub(super) trait ReferencedObject:
    Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static
{
    /// Name of the resource in error messages.
    const RESOURCE: &'static str;

    fn is_immutable(&self) -> bool;

    fn api(client: &kube::Client, namespace: &str) -> Api<Self>;
}

/// Cached objects of one kind.
pub(super) struct ObjectStore<K> {
    client: kube::Client,
    items: Mutex<BTreeMap<Key, ObjectStoreItem<K>>>,
}

struct ObjectStoreItem<K> {
    /// UIDs of the pods that refer to the object.
    pods: BTreeSet<String>,
    /// When a pod last started to refer to the object. Data that was requested earlier is stale.
    referenced_at: Instant,
    /// Locked during a request (single flight): concurrent readers share one request.
    data: SharedObjectData<K>,
}

type SharedObjectData<K> = Arc<tokio::sync::Mutex<Option<ObjectData<K>>>>;

struct ObjectData<K> {
    object: Arc<K>,
    /// When the request was sent, not when the response arrived: the object may have changed in between.
    requested_at: Instant,
}

// --- ObjectStore ---

impl<K: ReferencedObject> ObjectStore<K> {
    pub(super) fn new(client: kube::Client) -> Self {
        ObjectStore {
            client,
            items: Mutex::default(),
        }
    }

    /// Reads an object from the cache, or from the API if the cached data is stale.
    // upstream: pkg/kubelet/util/manager/cache_based_manager.go Get
    pub(super) async fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>, ObjectSourceError> {
        let (data, referenced_at) = self.item(&Key::new(namespace, name));
        let mut data = data.lock().await;
        // Checked after locking: another reader may have updated the data meanwhile.
        if let Some(data) = data
            .as_ref()
            .filter(|data| data.is_fresh(referenced_at, Instant::now()))
        {
            return Ok(Some(Arc::clone(&data.object)));
        }
        let requested_at = Instant::now();
        let response = timeout(REQUEST_TIMEOUT, K::api(&self.client, namespace).get_opt(name)).await;
        let resource = K::RESOURCE.to_owned();
        let response = response.map_err(|_| ObjectSourceError::Timeout { resource })?;
        let object = response.map_err(|error| ObjectSourceError::from_client_error(K::RESOURCE, error))?;
        // A missing object is not cached: a pod that waits for it must see it as soon as it is created.
        *data = object.map(|object| ObjectData {
            object: Arc::new(object),
            requested_at,
        });
        Ok(data.as_ref().map(|data| Arc::clone(&data.object)))
    }

    /// Sets the objects that a pod refers to.
    // upstream: pkg/kubelet/util/manager/cache_based_manager.go AddReference, DeleteReference
    pub(super) fn set_references(&self, uid: &str, names: &BTreeSet<Key>) {
        let mut items = self.items();
        for key in names {
            let item = items.entry(key.clone()).or_insert_with(ObjectStoreItem::new);
            if item.pods.insert(uid.to_owned()) {
                item.referenced_at = Instant::now();
            }
        }
        // References can be dropped too: an edited static pod keeps its UID.
        for (key, item) in items.iter_mut() {
            if !names.contains(key) {
                item.pods.remove(uid);
            }
        }
        items.retain(|_, item| item.is_in_use());
    }

    pub(super) fn remove_references(&self, uid: &str) {
        self.set_references(uid, &BTreeSet::new());
    }

    fn item(&self, key: &Key) -> (SharedObjectData<K>, Instant) {
        let mut items = self.items();
        let item = items.entry(key.clone()).or_insert_with(ObjectStoreItem::new);
        (Arc::clone(&item.data), item.referenced_at)
    }

    fn items(&self) -> MutexGuard<'_, BTreeMap<Key, ObjectStoreItem<K>>> {
        self.items.lock()
    }
}

// --- ObjectStoreItem ---

impl<K> ObjectStoreItem<K> {
    fn new() -> Self {
        ObjectStoreItem {
            pods: BTreeSet::new(),
            referenced_at: Instant::now(),
            data: Arc::default(),
        }
    }

    /// Whether a pod refers to the object, a reader holds its data, or it was read without a registered pod and is still fresh.
    fn is_in_use(&self) -> bool {
        !self.pods.is_empty() || Arc::strong_count(&self.data) > 1 || self.referenced_at.elapsed() < TTL
    }
}

// --- ObjectData ---

impl<K: ReferencedObject> ObjectData<K> {
    // upstream: pkg/kubelet/util/manager/cache_based_manager.go isObjectFresh
    fn is_fresh(&self, referenced_at: Instant, now: Instant) -> bool {
        let is_within_ttl = self.object.is_immutable() || now.duration_since(self.requested_at) < TTL;
        // Applies to immutable objects too: they can be deleted and created again with other content.
        self.requested_at >= referenced_at && is_within_ttl
    }
}
