//! Objects that were asked for by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::Api;
use kubecontroller::Key;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::SourceError;

/// How long an object is good that may change.
const GOOD_FOR: Duration = Duration::from_mins(1);
/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// A kind that config maps and secrets are kinds of.
pub(super) trait Kind: Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static {
    /// What users are told it is.
    const WHAT: &'static str;

    /// Whether it never changes again.
    fn is_immutable(&self) -> bool;

    /// Those of a namespace.
    fn api(client: &kube::Client, namespace: &str) -> Api<Self>;
}

/// Objects of a kind that were asked for.
pub(super) struct Objects<K> {
    client: kube::Client,
    slots: Mutex<BTreeMap<Key, Slot<K>>>,
}

struct Slot<K> {
    /// Pods that refer to it, by uid.
    pods: BTreeSet<String>,
    /// What is older has to be read again: a pod came then.
    wanted: Instant,
    /// Held while the API is asked, so that it is asked once by all who want it now.
    read: Arc<tokio::sync::Mutex<Option<Read<K>>>>,
}

/// What was read.
struct Read<K> {
    object: Arc<K>,
    /// When the API was asked for it, not when it answered: what was written meanwhile may be missing.
    asked: Instant,
}

// --- Objects ---

impl<K: Kind> Objects<K> {
    pub(super) fn new(client: kube::Client) -> Self {
        Objects {
            client,
            slots: Mutex::default(),
        }
    }

    /// An object, as fresh as the pods that refer to it want it.
    pub(super) async fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>, SourceError> {
        let (read, wanted) = self.slot(&Key::new(namespace, name));
        let mut read = read.lock().await;
        // Who waited for the lock is served with what was read meanwhile.
        if let Some(read) = read.as_ref().filter(|read| read.is_good(wanted, Instant::now())) {
            return Ok(Some(Arc::clone(&read.object)));
        }
        let asked = Instant::now();
        let answer = timeout(LIMIT, K::api(&self.client, namespace).get_opt(name)).await;
        let what = K::WHAT.to_owned();
        let answer = answer.map_err(|_| SourceError::Timeout { what })?;
        let answer = answer.map_err(|error| SourceError::of(K::WHAT, error))?;
        // That it is missing is not remembered: who waits for it wants it as soon as it is there.
        *read = answer.map(|object| Read {
            object: Arc::new(object),
            asked,
        });
        Ok(read.as_ref().map(|read| Arc::clone(&read.object)))
    }

    /// A pod refers to these.
    pub(super) fn keep(&self, uid: &str, names: &BTreeSet<Key>) {
        let mut slots = self.slots();
        for key in names {
            let slot = slots.entry(key.clone()).or_insert_with(Slot::new);
            if slot.pods.insert(uid.to_owned()) {
                slot.wanted = Instant::now();
            }
        }
        // A pod may come to refer to less: an ephemeral container of it is never taken back, but static pods are edited.
        for (key, slot) in slots.iter_mut() {
            if !names.contains(key) {
                slot.pods.remove(uid);
            }
        }
        slots.retain(|_, slot| slot.is_needed());
    }

    /// A pod refers to none any more.
    pub(super) fn forget(&self, uid: &str) {
        self.keep(uid, &BTreeSet::new());
    }

    fn slot(&self, key: &Key) -> (Arc<tokio::sync::Mutex<Option<Read<K>>>>, Instant) {
        let mut slots = self.slots();
        let slot = slots.entry(key.clone()).or_insert_with(Slot::new);
        (Arc::clone(&slot.read), slot.wanted)
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<Key, Slot<K>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- Slot ---

impl<K> Slot<K> {
    fn new() -> Self {
        Slot {
            pods: BTreeSet::new(),
            wanted: Instant::now(),
            read: Arc::default(),
        }
    }

    /// Whether a pod refers to it, somebody reads it, or it was read without a pod but is still good.
    fn is_needed(&self) -> bool {
        !self.pods.is_empty() || Arc::strong_count(&self.read) > 1 || self.wanted.elapsed() < GOOD_FOR
    }
}

// --- Read ---

impl<K: Kind> Read<K> {
    fn is_good(&self, wanted: Instant, now: Instant) -> bool {
        // An immutable object can be deleted and made anew, so that a new pod looks once.
        let is_young = self.object.is_immutable() || now.duration_since(self.asked) < GOOD_FOR;
        self.asked >= wanted && is_young
    }
}
