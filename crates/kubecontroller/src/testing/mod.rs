//! Test support: an in-memory API server with fault injection.
//!
//! [`FakeApi`] serves a `kube::Client` without sockets and processes. It accepts every resource; a resource without objects
//! lists as empty. It implements resource versions, generations, finalizers, label and field selectors and watches like an API
//! server, so a reconciler, an informer or a whole manager can run against it. It does not validate, default or authorize, and
//! it runs no controllers; test what depends on those against a real cluster.
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, api::PostParams};
//! use kubecontroller::testing::FakeApi;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), kube::Error> {
//! let api = FakeApi::new();
//! let maps: Api<ConfigMap> = Api::namespaced(api.client(), "default");
//! let mut map = ConfigMap::default();
//! map.metadata.generate_name = Some("settings-".to_owned());
//! maps.create(&PostParams::default(), &map).await?;
//! assert_eq!(api.list::<ConfigMap>().len(), 1);
//!
//! api.faults().fail_next(1, 503);
//! assert!(maps.create(&PostParams::default(), &map).await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! [`Faults`] inject errors: watches that end, break, expire or repeat events, lists that are stale when they arrive, writes
//! that are rejected, or performed without a response. [`eventually`] waits for a condition. All timers are tokio's, so a test
//! with a paused clock does not wait; the timestamps in objects come from a [`Clock`].

mod call;
mod cluster;
mod discovery;
mod faults;
mod garbage;
mod http;
mod patch;
mod recorded_request;
mod resource;
mod response_format;
mod selection;
mod status;
mod subresource;
#[cfg(test)]
mod tests;
mod wait;
mod watch;
mod writes;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use ::http::{HeaderValue, Request, header};
use kube::{
    Client, Resource,
    client::Body,
    core::{ApiResource, DynamicObject},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use self::{
    cluster::{FakeCluster, key_of, metadata},
    resource::ResourceId,
};
pub use self::{
    faults::{Fault, Faults, RequestMatcher},
    recorded_request::RecordedRequest,
    wait::{UnmetCondition, WaitCondition, eventually, eventually_within},
};
use crate::{Clock, Key, resource::ResourceScope};

/// An in-memory API server. Clones share its state.
#[derive(Clone)]
pub struct FakeApi {
    inner: Arc<FakeApiState>,
}

struct FakeApiState {
    cluster: Mutex<FakeCluster>,
    faults: Faults,
    requests: Mutex<Vec<RecordedRequest>>,
    clock: Clock,
    bookmark_every: Mutex<Duration>,
    /// Whether dependents are deleted with their owners.
    collects: AtomicBool,
}

// --- FakeApi ---

impl FakeApi {
    /// Creates an empty API with the system clock.
    pub fn new() -> Self {
        FakeApi::with_clock(Clock::system())
    }

    /// Creates an empty API with a clock for the timestamps in objects.
    pub fn with_clock(clock: Clock) -> Self {
        FakeApi {
            inner: Arc::new(FakeApiState {
                cluster: Mutex::new(FakeCluster::new()),
                faults: Faults::new(),
                requests: Mutex::default(),
                clock,
                bookmark_every: Mutex::new(Duration::from_mins(1)),
                collects: AtomicBool::new(false),
            }),
        }
    }

    /// A client of this API. Requires a tokio runtime.
    pub fn client(&self) -> Client {
        self.client_with_user_agent("")
    }

    /// A client with a user agent, by which [`RequestMatcher::user_agent`] and [`FakeApi::requests`] identify its requests.
    pub fn client_with_user_agent(&self, agent: &str) -> Client {
        let inner = self.inner.clone();
        let agent = HeaderValue::from_str(agent)
            .ok()
            .filter(|agent| !agent.is_empty());
        let service = tower::service_fn(move |mut request: Request<Body>| {
            if let Some(agent) = &agent {
                request.headers_mut().insert(header::USER_AGENT, agent.clone());
            }
            http::serve(inner.clone(), request)
        });
        Client::new(service, "default")
    }

    /// The injected faults.
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// All recorded requests, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.inner.requests).clone()
    }

    /// All recorded write requests, in order.
    pub fn writes(&self) -> Vec<RecordedRequest> {
        lock(&self.inner.requests)
            .iter()
            .filter(|request| request.is_write())
            .cloned()
            .collect()
    }

    /// Deletes the recorded requests.
    pub fn clear_requests(&self) {
        lock(&self.inner.requests).clear();
    }

    /// The resource version of the last change.
    pub fn version(&self) -> u64 {
        self.inner.cluster().version()
    }

    /// Compacts the history and expires running watches: they, watches from an earlier version, and continue tokens of earlier
    /// lists fail with 410.
    pub fn expire(&self) {
        self.compact();
        self.inner.faults.signal(|signal| signal.expiries += 1);
    }

    /// Compacts the history, as API servers do every few minutes: running watches continue, but watches from an earlier version
    /// fail with 410.
    pub fn compact(&self) {
        self.inner.cluster().compact();
    }

    /// Sends a bookmark to every watch that allows bookmarks.
    pub fn bookmark(&self) {
        self.inner.faults.signal(|signal| signal.bookmarks += 1);
    }

    /// Sets the interval of bookmarks. Default: 1 minute.
    pub fn bookmark_every(&self, time: Duration) {
        *lock(&self.inner.bookmark_every) = time;
    }

    /// Enables garbage collection: objects whose owners are all deleted are deleted at once. Default: off.
    pub fn collect_garbage(&self) {
        self.inner.collects.store(true, Ordering::Relaxed);
        self.inner.changed();
    }

    /// Declares that a kind has no status subresource, so every write may change its status. Built-in kinds are known.
    pub fn without_status<K: Resource<DynamicType = ()>>(&self) {
        self.inner.cluster().stored(&ResourceId::of::<K>()).without_status = true;
    }

    /// Adds a kind without objects to discovery.
    pub fn register<K: Resource<DynamicType = ()>>(&self, scope: ResourceScope) {
        self.register_dynamic(&ApiResource::erase::<K>(&()), scope);
    }

    /// Adds a kind without objects to discovery, for dynamic kinds.
    pub fn register_dynamic(&self, resource: &ApiResource, scope: ResourceScope) {
        let mut cluster = self.inner.cluster();
        let stored = cluster.stored(&ResourceId::dynamic(resource));
        stored.kind.clone_from(&resource.kind);
        stored.version.clone_from(&resource.version);
        stored.namespaced = scope == ResourceScope::Namespaced;
    }

    /// Stores an object including its status, creating or replacing it. Sets UID, creation timestamp and resource version.
    pub fn put<K>(&self, object: &K) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let object = serde_json::to_value(object).expect("objects serialize to JSON objects");
        let stored = self.put_value(&ApiResource::erase::<K>(&()), object);
        serde_json::from_value(stored).expect("an object of this kind was stored")
    }

    /// Like [`FakeApi::put`], for dynamic kinds.
    pub fn put_dynamic(&self, resource: &ApiResource, object: &DynamicObject) -> DynamicObject {
        let object = serde_json::to_value(object).expect("objects serialize to JSON objects");
        serde_json::from_value(self.put_value(resource, object)).expect("an object was stored")
    }

    /// Like [`FakeApi::put`], for JSON.
    pub fn put_value(&self, resource: &ApiResource, mut object: Value) -> Value {
        let id = ResourceId::dynamic(resource);
        let mut cluster = self.inner.cluster();
        let stored = cluster.stored(&id);
        stored.kind.clone_from(&resource.kind);
        stored.version.clone_from(&resource.version);
        object["apiVersion"] = resource.api_version.clone().into();
        object["kind"] = resource.kind.clone().into();
        let old = cluster.get(&id, &key_of(&object));
        let kept = |name: &str| old.as_ref().map(|old| old["metadata"][name].clone());
        let uid = kept("uid").unwrap_or_else(|| cluster.uid().into());
        let created = kept("creationTimestamp").unwrap_or_else(|| self.inner.now().into());
        let has_spec = object.get("spec").is_some();
        let metadata = metadata(&mut object);
        metadata.entry("uid").or_insert(uid);
        metadata.entry("creationTimestamp").or_insert(created);
        if has_spec {
            metadata.entry("generation").or_insert(1.into());
        }
        let stored = (*cluster.store(&id, object)).clone();
        drop(cluster);
        self.inner.changed();
        stored
    }

    /// Returns an object. The namespace is empty for cluster-scoped kinds.
    pub fn get<K>(&self, namespace: &str, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let object = self
            .inner
            .cluster()
            .get(&ResourceId::of::<K>(), &Key::new(namespace, name))?;
        Some(read(&object))
    }

    /// Returns all objects of a kind, sorted by namespace and name.
    pub fn list<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let cluster = self.inner.cluster();
        let found = cluster
            .list_at(&ResourceId::of::<K>(), cluster.version(), None)
            .unwrap_or_default();
        found.iter().map(|(_, object)| read(object)).collect()
    }

    /// Changes a stored object including its status. Returns whether it exists.
    pub fn edit<K>(&self, namespace: &str, name: &str, edit: impl FnOnce(&mut K)) -> bool
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let Some(mut object) = self.get::<K>(namespace, name) else {
            return false;
        };
        edit(&mut object);
        self.put(&object);
        true
    }

    /// Deletes an object at once, regardless of finalizers. Returns whether it existed.
    pub fn remove<K: Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) -> bool {
        let removed = self
            .inner
            .cluster()
            .remove(&ResourceId::of::<K>(), &Key::new(namespace, name));
        self.inner.changed();
        removed.is_some()
    }
}

impl Default for FakeApi {
    fn default() -> Self {
        FakeApi::new()
    }
}

fn read<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).expect("the stored object is of this kind")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

// --- FakeApiState ---

impl FakeApiState {
    fn cluster(&self) -> MutexGuard<'_, FakeCluster> {
        lock(&self.cluster)
    }

    /// Collects garbage and wakes the watches after a change.
    fn changed(&self) {
        let mut cluster = self.cluster();
        if self.collects.load(Ordering::Relaxed) {
            garbage::collect(&mut cluster, self.clock.now());
        }
        let version = cluster.version();
        drop(cluster);
        self.faults.signal(|signal| signal.version = version);
    }

    fn log(&self, request: RecordedRequest) {
        lock(&self.requests).push(request);
    }

    fn kind(&self, id: &ResourceId) -> String {
        let mut cluster = self.cluster();
        match cluster.stored(id).kind.as_str() {
            "" => response_format::kind_of(&id.plural),
            kind => kind.to_owned(),
        }
    }

    fn bookmark_every(&self) -> Duration {
        *lock(&self.bookmark_every)
    }

    fn now(&self) -> String {
        self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}
