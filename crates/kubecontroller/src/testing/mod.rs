//! For the tests of reconcilers: an API in memory, with faults.
//!
//! [`FakeApi`] answers a `kube::Client` as an API server would, without a socket and without a process. It knows every
//! resource: what is not there is an empty list. It keeps versions, generations, finalizers and selections as a server does,
//! so that a reconciler, an informer or a whole manager can run against it. It validates nothing, defaults nothing, asks
//! nobody for permission, and runs no controllers; what needs those is better tested with a cluster.
//!
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
//! [`Faults`] are what goes wrong: watches that end, break, expire or repeat themselves, lists that are old when they
//! arrive, writes that are refused, or done but not answered. [`eventually`] waits for what has to come. Time is tokio's, so
//! a test that pauses it waits for nothing; the time of day that objects carry is a [`Clock`]'s.

mod call;
mod cluster;
mod discovery;
mod faults;
mod garbage;
mod http;
mod patch;
mod recorded_request;
mod resource;
mod selection;
mod status;
mod subresource;
#[cfg(test)]
mod tests;
mod view;
mod wait;
mod watch;
mod writes;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

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
    wait::{WaitCondition, eventually, eventually_within},
};
use crate::{Clock, Key};

/// An API in memory. Clones are the same one.
#[derive(Clone)]
pub struct FakeApi {
    inner: Arc<Inner>,
}

struct Inner {
    cluster: Mutex<FakeCluster>,
    faults: Faults,
    requests: Mutex<Vec<RecordedRequest>>,
    clock: Clock,
    bookmark_every: Mutex<Duration>,
    /// Dependents go with their owners.
    collects: AtomicBool,
}

// --- FakeApi ---

impl FakeApi {
    /// An empty one, with the clock of the machine.
    pub fn new() -> Self {
        FakeApi::with_clock(Clock::system())
    }

    /// An empty one whose objects carry the time of this clock.
    pub fn with_clock(clock: Clock) -> Self {
        FakeApi {
            inner: Arc::new(Inner {
                cluster: Mutex::new(FakeCluster::new()),
                faults: Faults::new(),
                requests: Mutex::default(),
                clock,
                bookmark_every: Mutex::new(Duration::from_mins(1)),
                collects: AtomicBool::new(false),
            }),
        }
    }

    /// A client of it. Needs a tokio runtime around it.
    pub fn client(&self) -> Client {
        self.client_with_user_agent("")
    }

    /// A client that names itself: [`RequestMatcher::from`] and [`FakeApi::requests`] tell its requests from those of others.
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

    /// What goes wrong.
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// What was asked so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.inner.requests).clone()
    }

    /// What was asked to be changed so far, in order.
    pub fn writes(&self) -> Vec<RecordedRequest> {
        lock(&self.inner.requests)
            .iter()
            .filter(|request| request.is_write())
            .cloned()
            .collect()
    }

    /// Forgets what was asked so far.
    pub fn clear_requests(&self) {
        lock(&self.inner.requests).clear();
    }

    /// The version of the last change.
    pub fn version(&self) -> u64 {
        self.inner.cluster().version()
    }

    /// Forgets all history. Watches that go on are told that their version is too old, and so is who asks for an earlier
    /// version, or goes on with a list that began before.
    pub fn expire(&self) {
        self.compact();
        self.inner.faults.tell(|signal| signal.expiries += 1);
    }

    /// Forgets all history, as servers do every few minutes: watches that go on do not notice, but cannot be resumed at an
    /// earlier version.
    pub fn compact(&self) {
        self.inner.cluster().compact();
    }

    /// Sends every watch that asked for bookmarks one.
    pub fn bookmark(&self) {
        self.inner.faults.tell(|signal| signal.bookmarks += 1);
    }

    /// How often watches that asked for bookmarks are sent one. Default: every minute.
    pub fn bookmark_every(&self, time: Duration) {
        *lock(&self.inner.bookmark_every) = time;
    }

    /// From now on, what has owners that are all gone is deleted at once. Otherwise it stays, as it does without a garbage
    /// collector.
    pub fn collect_garbage(&self) {
        self.inner.collects.store(true, Ordering::Relaxed);
        self.inner.changed();
    }

    /// Tells a kind whose status is not a subresource: every write may change it. Built-in kinds are known.
    pub fn without_status<K: Resource<DynamicType = ()>>(&self) {
        self.inner.cluster().stored(&ResourceId::of::<K>()).plain = true;
    }

    /// Tells a kind before there is an object of it, for discovery.
    pub fn register<K: Resource<DynamicType = ()>>(&self, namespaced: bool) {
        self.register_described(&ApiResource::erase::<K>(&()), namespaced);
    }

    /// Tells a described kind before there is an object of it, for discovery.
    pub fn register_described(&self, resource: &ApiResource, namespaced: bool) {
        let mut cluster = self.inner.cluster();
        let stored = cluster.stored(&ResourceId::described(resource));
        stored.kind.clone_from(&resource.kind);
        stored.version.clone_from(&resource.version);
        stored.namespaced = namespaced;
    }

    /// Stores an object as it is, status and all, whether there was one or not. It gets a uid, a time and a version.
    pub fn put<K>(&self, object: &K) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let object = serde_json::to_value(object).expect("an object of a kind is an object in JSON");
        let stored = self.put_value(&ApiResource::erase::<K>(&()), object);
        serde_json::from_value(stored).expect("what was written as this kind is read as this kind")
    }

    /// As [`FakeApi::put`], for kinds known by description.
    pub fn put_described(&self, resource: &ApiResource, object: &DynamicObject) -> DynamicObject {
        let object = serde_json::to_value(object).expect("an object is an object in JSON");
        serde_json::from_value(self.put_value(resource, object))
            .expect("what was written as an object is read as one")
    }

    /// As [`FakeApi::put`], of JSON.
    pub fn put_value(&self, resource: &ApiResource, mut object: Value) -> Value {
        let id = ResourceId::described(resource);
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

    /// An object, if it is there. The namespace is empty for cluster-wide kinds.
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

    /// All objects of a kind, by namespace and name.
    pub fn list<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let cluster = self.inner.cluster();
        let found = cluster
            .at(&ResourceId::of::<K>(), cluster.version(), None)
            .unwrap_or_default();
        found.iter().map(|(_, object)| read(object)).collect()
    }

    /// Changes an object as it is stored, status and all. Says whether it was there.
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

    /// Removes an object at once, whatever finalizers it has. Says whether it was there.
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
    serde_json::from_value(object.clone()).expect("a stored object is of the kind it was stored as")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// --- Inner ---

impl Inner {
    fn cluster(&self) -> MutexGuard<'_, FakeCluster> {
        lock(&self.cluster)
    }

    /// Does what follows from a change, and wakes the watches.
    fn changed(&self) {
        let mut cluster = self.cluster();
        if self.collects.load(Ordering::Relaxed) {
            garbage::collect(&mut cluster, self.clock.now());
        }
        let version = cluster.version();
        drop(cluster);
        self.faults.tell(|signal| signal.version = version);
    }

    fn log(&self, request: RecordedRequest) {
        lock(&self.requests).push(request);
    }

    fn kind(&self, id: &ResourceId) -> String {
        let mut cluster = self.cluster();
        match cluster.stored(id).kind.as_str() {
            "" => view::kind_of(&id.plural),
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
