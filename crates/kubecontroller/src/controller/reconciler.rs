//! Reconcilers, their requests and their outcomes.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{Error, own_writes::OwnWrites};
use crate::{Key, informer::Informer, object::Object, store::Store};

/// Compares the actual state of an object with its desired state and acts on the difference.
///
/// It receives only a key. The object may be deleted, and then it is not in the store. A reconciler must be idempotent and must
/// derive everything from the current state: several changes may be merged into one call, and a call may follow no change at
/// all.
pub trait Reconciler: Send + Sync + 'static {
    /// Brings one object to its desired state, or closer to it.
    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Outcome, Error>> + Send;
}

/// What to reconcile.
#[derive(Clone)]
pub struct Request {
    /// The key of the object.
    pub key: Key,
    /// Failures in a row before this attempt.
    pub failures: u32,
    /// The priority in the queue. Live changes have priority 0.
    pub priority: i32,
    pub(super) own_writes: Arc<OwnWrites>,
}

/// What happens after a successful reconcile: controller-runtime's `Result`. Failures are [`Error`]s.
#[doc(alias = "Result")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The key is reconciled again when its object changes.
    #[default]
    Done,
    /// The key is reconciled again after a delay, or earlier when its object changes.
    RequeueAfter(Duration),
    /// The key is queued again at once, with this priority.
    RequeueWithPriority(i32),
}

/// The result of looking up an object in the store.
pub enum CacheLookup<T> {
    /// The object is in the store.
    Found(Arc<T>),
    /// The object is not in the store: it was deleted, or the informer has not received it yet.
    NotFound(Key),
}

/// A closure over requests as a reconciler; see [`reconcile_fn`].
pub struct ReconcileFn<F>(F);

/// A closure over objects as a reconciler; see [`reconcile_object_fn`].
pub struct ObjectReconciler<T, F> {
    store: Store<T>,
    reconcile: F,
}

/// A reconciler from a closure over requests.
///
/// ```
/// use kubecontroller::controller::{Outcome, Request, reconcile_fn};
///
/// let reconciler = reconcile_fn(|request: Request| async move {
///     println!("{}", request.key);
///     Ok(Outcome::Done)
/// });
/// ```
pub fn reconcile_fn<F, Fut>(reconcile: F) -> ReconcileFn<F>
where
    F: Fn(Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, Error>> + Send,
{
    ReconcileFn(reconcile)
}

/// A reconciler from a closure over objects. It is also called for deleted objects.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kubecontroller::{controller::{CacheLookup, Outcome, reconcile_object_fn}, store::Store};
///
/// # fn show(store: &Store<ConfigMap>) {
/// let reconciler = reconcile_object_fn(store, |lookup: CacheLookup<ConfigMap>| async move {
///     match lookup {
///         CacheLookup::Found(map) => println!("{} entries", map.data.iter().flatten().count()),
///         CacheLookup::NotFound(key) => println!("{key} is deleted"),
///     }
///     Ok(Outcome::Done)
/// });
/// # }
/// ```
pub fn reconcile_object_fn<T, F, Fut>(store: &Store<T>, reconcile: F) -> ObjectReconciler<T, F>
where
    T: Object,
    F: Fn(CacheLookup<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, Error>> + Send,
{
    ObjectReconciler {
        store: store.clone(),
        reconcile,
    }
}

// --- Request ---

impl Request {
    /// A request for tests of reconcilers.
    pub fn new(key: Key) -> Self {
        Request {
            key,
            failures: 0,
            priority: 0,
            own_writes: Arc::default(),
        }
    }

    /// Records a write and its resulting resource version. The key is not reconciled again before `informer` has reached that
    /// version, so that no decision is based on the state before the write. A version that is not a number is ignored.
    ///
    /// An informer whose scope does not include the written object may see the version late: the key waits 10 s at most.
    pub fn record_write<T: Object>(&self, informer: &Informer<T>, resource_version: &str) {
        if let Ok(version) = resource_version.parse() {
            let informer = informer.clone();
            let is_seen = move || informer.version().is_some_and(|seen| seen >= version);
            self.own_writes.record(&self.key, is_seen);
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("key", &self.key)
            .field("failures", &self.failures)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

// --- Outcome ---

impl Outcome {
    /// [`Outcome::Done`].
    pub const fn done() -> Self {
        Outcome::Done
    }

    /// [`Outcome::RequeueAfter`].
    pub const fn requeue_after(after: Duration) -> Self {
        Outcome::RequeueAfter(after)
    }
}

// --- CacheLookup ---

impl<T: Object> CacheLookup<T> {
    /// The key of the object.
    pub fn key(&self) -> Key {
        match self {
            CacheLookup::Found(object) => object.key(),
            CacheLookup::NotFound(key) => key.clone(),
        }
    }
}

impl<T: Object> fmt::Debug for CacheLookup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            CacheLookup::Found(_) => "Found",
            CacheLookup::NotFound(_) => "NotFound",
        };
        f.debug_tuple(name).field(&self.key()).finish()
    }
}

// --- Reconciler for closures ---

impl<F, Fut> Reconciler for ReconcileFn<F>
where
    F: Fn(Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, Error>> + Send,
{
    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Outcome, Error>> + Send {
        (self.0)(request)
    }
}

impl<T, F, Fut> Reconciler for ObjectReconciler<T, F>
where
    T: Object,
    F: Fn(CacheLookup<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, Error>> + Send,
{
    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Outcome, Error>> + Send {
        let object = self.store.get(&request.key);
        (self.reconcile)(object.map_or(CacheLookup::NotFound(request.key), CacheLookup::Found))
    }
}

impl<R: Reconciler> Reconciler for Arc<R> {
    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Outcome, Error>> + Send {
        (**self).reconcile(request)
    }
}
