//! From the store into the caches.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k3_api::rules::Selectable;
use k3_storage::{Batch, Page, Prefix, ReadError, Revision, Store, StoreError, WatchError};
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

use super::{Object, ResourceCache};
use crate::custom::{self, Definitions};

/// Where all objects are stored.
const ROOT: &str = "/registry/";
/// How many entries are read at a time when the caches are filled.
const PAGE: usize = 2000;
/// How long to wait before a lost store is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// The caches of all resources, fed from one watch of the store.
pub(crate) struct Caches {
    store: Arc<dyn Store>,
    /// By the beginning of their keys.
    resources: RwLock<HashMap<Box<str>, Arc<ResourceCache>>>,
    /// Everything up to here is in the caches.
    applied: AtomicU64,
    waiting: Mutex<BinaryHeap<Reverse<Waiting>>>,
    /// The kinds that users define.
    definitions: Definitions,
    /// Which fields objects can be selected by, by the beginning of their keys.
    selectable: fn(&str) -> Arc<[Selectable]>,
}

/// Somebody who waits until a commit is in the caches.
struct Waiting {
    revision: u64,
    done: oneshot::Sender<()>,
}

/// The task that feeds the caches. Ends with this handle.
pub(crate) struct Feed(JoinHandle<()>);

// --- Caches ---

impl Caches {
    /// Fills the caches with what is stored, and keeps them up to date.
    pub(crate) async fn fill(
        store: Arc<dyn Store>,
        selectable: fn(&str) -> Arc<[Selectable]>,
    ) -> Result<(Arc<Self>, Feed), ReadError> {
        let caches = Arc::new(Caches {
            store,
            resources: RwLock::default(),
            applied: AtomicU64::new(0),
            waiting: Mutex::default(),
            definitions: Definitions::default(),
            selectable,
        });
        let revision = caches.load().await?;
        let feeder = Arc::clone(&caches);
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let task = tokio::spawn(async move { feeder.feed(revision).await });
        Ok((caches, Feed(task)))
    }

    /// Reads everything there is, as of one revision.
    async fn load(&self) -> Result<u64, ReadError> {
        let root = Prefix::try_new(ROOT).expect("the root is a prefix");
        let mut page = Page::first(PAGE);
        loop {
            let range = self.store.range(&root, page).await?;
            let revision = number(range.revision);
            for entry in &range.entries {
                let cache = self.of_key(&entry.key, revision);
                let object = Object::new(entry.key.clone(), entry.value.clone(), number(entry.revision));
                self.define(&object.key, Some(&object), object.revision, revision);
                cache.load(object);
            }
            let Some(next) = range.next(PAGE) else {
                self.applied.store(revision, Ordering::Release);
                return Ok(revision);
            };
            page = next;
        }
    }

    async fn feed(&self, mut revision: u64) {
        let root = Prefix::try_new(ROOT).expect("the root is a prefix");
        loop {
            let ended = match self.store.watch(&root, Revision::new(revision)).await {
                Ok(mut events) => loop {
                    match events.next().await {
                        Ok(batch) => {
                            self.take(&batch);
                            revision = number(batch.revision);
                        }
                        Err(error) => break error,
                    }
                },
                Err(error) => error,
            };
            match ended {
                WatchError::Store(StoreError::Closed) => break,
                WatchError::Compacted { .. } => {
                    // Events were missed for good. What is cached cannot be trusted any more, nor any watch.
                    tracing::error!(%ended, "the cache lost the store's history; filling it anew");
                    self.close();
                    if let Ok(mut resources) = self.resources.write() {
                        resources.clear();
                    }
                    self.definitions.clear();
                    if let Ok(loaded) = self.load().await {
                        revision = loaded;
                        self.wake(loaded);
                    }
                }
                error => tracing::warn!(%error, "the watch of the store ended; watching again"),
            }
            tokio::time::sleep(RETRY).await;
        }
        self.close();
    }

    fn take(&self, batch: &Batch) {
        let now = Instant::now();
        let before = self.applied.load(Ordering::Acquire);
        for event in batch.events.iter() {
            let revision = number(event.revision);
            let cache = self.of_key(&event.key, before);
            cache.apply(&event.key, &event.change, revision, now);
            if event.key.starts_with(custom::PREFIX) {
                self.define(&event.key, cache.get(&event.key).as_deref(), revision, revision);
            }
        }
        let revision = number(batch.revision);
        self.applied.store(revision, Ordering::Release);
        self.wake(revision);
    }

    /// Takes a definition in, or its end, as a commit wrote it: from `now` on its objects are served as it says.
    fn define(&self, key: &str, object: Option<&Object>, revision: u64, now: u64) {
        let Some(name) = key.strip_prefix(custom::PREFIX) else {
            return;
        };
        let tree = object.map(Object::tree);
        if let Some(change) = self.definitions.follow(name, tree.as_ref(), revision) {
            let cache = self.under(&change.prefix, now);
            cache.renew(change.selectable, now);
            if change.gone && cache.count() == 0 {
                let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
                resources.remove(change.prefix.as_str());
            }
        }
    }

    /// The kinds that users define.
    pub(crate) fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    fn wait(&self, waiting: Waiting) {
        let mut all = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Reverse(waiting));
    }

    fn wake(&self, revision: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(Reverse(first)) = waiting.peek()
            && first.revision <= revision
        {
            if let Some(Reverse(first)) = waiting.pop() {
                // Whoever waited may have given up.
                let _ = first.done.send(());
            }
        }
    }

    /// The cache of the resource whose keys have this beginning; it is made if it is not there.
    pub(crate) fn resource(&self, prefix: &str) -> Arc<ResourceCache> {
        self.under(prefix, self.applied.load(Ordering::Acquire))
    }

    fn of_key(&self, key: &str, began: u64) -> Arc<ResourceCache> {
        self.under(resource_prefix(key), began)
    }

    fn under(&self, prefix: &str, began: u64) -> Arc<ResourceCache> {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = resources.get(prefix) {
            return Arc::clone(cache);
        }
        drop(resources);
        let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        let cache = resources
            .entry(prefix.into())
            .or_insert_with(|| Arc::new(ResourceCache::new((self.selectable)(prefix), began)));
        Arc::clone(cache)
    }

    /// Everything up to here is in the caches.
    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Waits until a commit is in the caches.
    pub(crate) async fn reach(&self, revision: u64) {
        if self.applied() >= revision {
            return;
        }
        let (done, reached) = oneshot::channel();
        self.wait(Waiting { revision, done });
        // It may have come between the look and the queue.
        self.wake(self.applied());
        let _ = reached.await;
    }

    /// Waits until the caches have everything that is stored now, whoever stored it.
    pub(crate) async fn fresh(&self) -> Result<u64, StoreError> {
        let revision = number(self.store.current_revision().await?);
        self.reach(revision).await;
        Ok(revision)
    }

    /// How many objects each resource has, by group and name.
    pub(crate) fn counts(&self) -> Vec<(String, String, usize)> {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        let mut counts: Vec<_> = resources
            .iter()
            .filter_map(|(prefix, cache)| {
                let mut parts = prefix.trim_end_matches('/').rsplit('/');
                let (resource, group) = (parts.next()?, parts.next()?);
                let group = if group == "core" { "" } else { group };
                Some((group.to_owned(), resource.to_owned(), cache.count()))
            })
            .collect();
        counts.sort();
        counts
    }

    /// The store behind the caches.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Ends all watches.
    pub(crate) fn close(&self) {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        for cache in resources.values() {
            cache.close();
        }
    }
}

/// The first three parts of a key: `/registry/<group>/<resource>/`.
fn resource_prefix(key: &str) -> &str {
    let mut slashes = key.match_indices('/').map(|(at, _)| at);
    match slashes.nth(3) {
        Some(end) => &key[..=end],
        None => key,
    }
}

fn number(revision: Revision) -> u64 {
    revision.get()
}

// --- Feed ---

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// --- Waiting ---

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.revision.cmp(&other.revision)
    }
}
