//! What is run for a key.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{Error, own_writes::OwnWrites};
use crate::{Key, informer::Informer, object::Object, store::Store};

/// Compares what is with what should be, and acts on the difference.
///
/// It is called by key, also when the object is gone: then the key is not in the store. Whatever it does it does again when it
/// is called again, and it finds out by looking, not from why it was called.
pub trait Reconciler: Send + Sync + 'static {
    /// Brings one object a step, or all the way, to what it should be.
    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Outcome, Error>> + Send;
}

/// What is to be reconciled.
#[derive(Clone)]
pub struct Request {
    /// Which object.
    pub key: Key,
    /// How often it failed in a row.
    pub failures: u32,
    /// How urgent it is. 0 is ordinary.
    pub priority: i32,
    pub(super) written: Arc<OwnWrites>,
}

/// What comes after a reconcile that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until something happens to the object.
    #[default]
    Done,
    /// The same again after a while, unless something happens earlier.
    RequeueAfter(Duration),
    /// The same again, as soon as nothing more urgent is to be done.
    RequeueWithPriority(i32),
}

/// An object, or that it is gone.
pub enum CacheLookup<T> {
    /// The object, as it is in the store.
    Found(Arc<T>),
    /// It is not in the store, or no longer.
    NotFound(Key),
}

/// A closure as a reconciler; made by [`reconcile_fn`].
pub struct ReconcileFn<F>(F);

/// A closure over objects as a reconciler; made by [`reconcile_object_fn`].
pub struct ObjectReconciler<T, F> {
    store: Store<T>,
    reconcile: F,
}

/// A reconciler from a closure over keys.
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

/// A reconciler from a closure over object_source, which is told of those that are gone too.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kubecontroller::{controller::{Outcome, CacheLookup, reconcile_object_fn}, store::Store};
///
/// # fn show(store: &Store<ConfigMap>) {
/// let reconciler = reconcile_object_fn(store, |seen: CacheLookup<ConfigMap>| async move {
///     match seen {
///         CacheLookup::Found(map) => println!("{} entries", map.data.iter().flatten().count()),
///         CacheLookup::NotFound(key) => println!("{key} is gone"),
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
    /// An ordinary request, as a test makes it.
    pub fn new(key: Key) -> Self {
        Request {
            key,
            failures: 0,
            priority: 0,
            written: Arc::default(),
        }
    }

    /// Says that something was written that has this version now. The key is not reconciled again before the informer has seen
    /// it, so that no decision is made on what was there before the write. Versions that are no numbers are ignored.
    ///
    /// An informer whose selector does not match what was written may see that version late: the guard gives up after 10 s.
    pub fn record_write<T: Object>(&self, informer: &Informer<T>, resource_version: &str) {
        if let Ok(version) = resource_version.parse() {
            let informer = informer.clone();
            let is_seen = move || informer.version().is_some_and(|seen| seen >= version);
            self.written.note(&self.key, is_seen);
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
    /// Nothing until something happens to the object.
    pub const fn done() -> Self {
        Outcome::Done
    }

    /// The same again after a while.
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

// --- closures ---

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
        let seen = self.store.get(&request.key);
        (self.reconcile)(seen.map_or(CacheLookup::NotFound(request.key), CacheLookup::Found))
    }
}

impl<R: Reconciler> Reconciler for Arc<R> {
    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Outcome, Error>> + Send {
        (**self).reconcile(request)
    }
}
