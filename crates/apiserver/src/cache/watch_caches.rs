//! The watch caches of all resources, fed from one watch of the store.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k3_api::strategy::SelectableField;
use k3_storage::{Change, EventBatch, ReadError, Revision, Store, StoreError};
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    AtomicCachesVersion, CachedObject, CachesVersion, ParsedTrees, StoreReflector, WatchCache,
    atomic_revision::AtomicRevision,
    decryption::UndecryptedTracker,
    freshness::{CacheFreshness, ClockReading, ProofAge},
    store_snapshot::{StoreSnapshot, resource_prefix},
    waiters::RevisionWaiters,
};
use crate::{
    custom::{self, DefinitionRegistry},
    read_only_store::ReadOnlyStore,
};

/// How often, and with which pause, a store that seems to have an older revision is read again.
const LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// How often resources are looked for that have had no event for a while.
const SHRINK_INTERVAL: Duration = Duration::from_secs(10);

/// How long the store may take to prove that the caches are recent.
pub(crate) const PROOF_TIME: Duration = Duration::from_secs(10);

/// The caches of all resources, fed from one watch of the store.
///
/// The cache of a resource stays the same instance while it is referenced; only its content changes.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go Cacher
pub(crate) struct WatchCaches {
    store: ReadOnlyStore,
    /// By the prefix of their keys. A panic while all are replaced ends the reflector, and with it the answers of the server: what
    /// is in them is then not used.
    resources: RwLock<HashMap<Box<str>, Arc<WatchCache>>>,
    /// Custom resources whose definition is deleted. Their caches are removed when no longer referenced.
    abandoned: Mutex<BTreeSet<String>>,
    /// A cache that is created now knows of all events after this revision: there were none.
    began: AtomicRevision,
    /// Everything up to here is in the caches.
    applied: AtomicRevision,
    /// The newest revision that the store has answered with.
    newest_known: AtomicRevision,
    /// Counts the states of all caches together.
    version: AtomicCachesVersion,
    waiters: RevisionWaiters,
    trees: ParsedTrees,
    /// Whether the caches follow the store; false while they are loaded after events were lost.
    follows: watch::Sender<bool>,
    freshness: CacheFreshness,
    /// Single flight: held by the request that asks the store, while the others wait for its answer. The last question that got no
    /// answer.
    proof: tokio::sync::Mutex<Option<(ClockReading, StalenessError)>>,
    /// Requests a proof of freshness in the background, so that no request has to wait for it.
    proof_due: Notify,
    /// Whether there may be objects that are not decrypted.
    pub(super) undecrypted: UndecryptedTracker,
    /// Held while a definition is taken in as its cache has it. A definition that panics when it is read leaves the registry as it
    /// was: it is changed afterwards.
    defining: Mutex<()>,
    /// The kinds that users define.
    definitions: DefinitionRegistry,
    /// Which fields objects can be selected by, by the prefix of their keys.
    selectable: fn(&str) -> Arc<[SelectableField]>,
    /// The server stops: watches end as soon as they begin. Changes under the lock of `resources`.
    closed: AtomicBool,
}

/// Why it is not known whether the caches are recent.
#[derive(Clone, Debug)]
pub(crate) enum StalenessError {
    /// The store failed.
    Failed(StoreError),
    /// The store did not answer in time, or the caches did not get everything that is stored in time.
    Late,
}

// --- WatchCaches ---

impl WatchCaches {
    /// Fills the caches from the store, and starts the reflector that keeps them up to date.
    pub(crate) async fn fill(
        store: Arc<dyn Store>,
        selectable: fn(&str) -> Arc<[SelectableField]>,
    ) -> Result<(Arc<Self>, StoreReflector), ReadError> {
        let caches = Arc::new(WatchCaches {
            store: ReadOnlyStore::new(store),
            resources: RwLock::default(),
            abandoned: Mutex::default(),
            began: AtomicRevision::default(),
            applied: AtomicRevision::default(),
            newest_known: AtomicRevision::default(),
            version: AtomicCachesVersion::default(),
            waiters: RevisionWaiters::default(),
            trees: ParsedTrees::default(),
            follows: watch::Sender::new(true),
            freshness: CacheFreshness::unknown(),
            proof: tokio::sync::Mutex::new(None),
            proof_due: Notify::new(),
            undecrypted: UndecryptedTracker::default(),
            defining: Mutex::default(),
            definitions: DefinitionRegistry::default(),
            selectable,
            closed: AtomicBool::new(false),
        });
        let revision = caches.load().await?;
        let feed = StoreReflector::start(Arc::clone(&caches), revision);
        Ok((caches, feed))
    }

    /// Reads everything that is stored, and then replaces the content of all caches at once. Answers with its revision.
    pub(super) async fn load(&self) -> Result<Revision, ReadError> {
        let known = |key: &k3_storage::Key| self.existing(resource_prefix(key))?.get(key);
        let loaded = StoreSnapshot::read(&self.store, known).await?;
        let revision = loaded.revision;
        self.replace(loaded);
        Ok(revision)
    }

    /// Replaces the content of all caches and the definitions atomically. Readers never see a mix of old and new, nor a
    /// revision that the caches do not have.
    fn replace(&self, mut loaded: StoreSnapshot) {
        let revision = loaded.revision;
        let mut objects = loaded.resources.values().flat_map(|objects| objects.values());
        if objects.any(|object| object.undecrypted().is_some()) {
            self.undecrypted.note();
        }
        let stored_definitions = loaded.resources.get(custom::PREFIX);
        let is_known = |object: &Arc<CachedObject>| {
            let cache = self.existing(custom::PREFIX);
            let known = cache.and_then(|cache| cache.get(&object.key));
            known.is_some_and(|known| Arc::ptr_eq(&known, object))
        };
        let definitions = self.definitions.read_all(
            stored_definitions.into_iter().flat_map(|all| all.values()),
            is_known,
        );
        let mut selectable: HashMap<String, Arc<[SelectableField]>> = definitions.selectable().collect();
        // Those of a definition that is deleted have none.
        let mut abandoned = self.abandoned.lock();
        for (prefix, _) in self.definitions.table().selectable() {
            if !selectable.contains_key(&prefix) {
                selectable.insert(prefix.clone(), [].into());
                abandoned.insert(prefix);
            }
        }
        drop(abandoned);

        let mut resources = self.resources.write();
        for prefix in loaded.resources.keys() {
            if !resources.contains_key(prefix) {
                resources.insert(prefix.clone(), self.create(prefix, revision));
            }
        }
        let mut replacements: Vec<_> = resources
            .iter()
            .map(|(prefix, cache)| (prefix, cache.begin_replacement()))
            .collect();
        for (prefix, replacement) in &mut replacements {
            let mut objects = loaded.resources.remove(*prefix).unwrap_or_default();
            let fields = match selectable.get(&***prefix) {
                Some(fields) => {
                    // The values of fields were read as the definition said before.
                    let renewed = objects
                        .iter()
                        .map(|(key, object)| (key.clone(), Arc::new(object.without_derived_state())));
                    objects = renewed.collect();
                    Arc::clone(fields)
                }
                None => (self.selectable)(prefix),
            };
            replacement.put(objects, fields, revision);
        }
        self.definitions.replace(definitions);
        self.began.store(revision);
        self.version.advance();
        self.applied.store(revision);
        drop(replacements);
        drop(resources);
        self.waiters.notify(revision);
    }

    /// Applies a batch of events from the store's watch.
    pub(super) fn apply(&self, batch: &EventBatch) {
        let now = Instant::now();
        let mut changed: Vec<Arc<WatchCache>> = Vec::new();
        for event in batch.events.iter() {
            let revision = event.revision;
            let cache = self.resource(resource_prefix(&event.key));
            if let Change::Created(bytes) | Change::Updated(bytes) = &event.change
                && k3_encryption::undecrypted(bytes).is_some()
            {
                self.undecrypted.note();
            }
            cache.apply(&event.key, &event.change, revision, now);
            if event.key.starts_with(custom::PREFIX) {
                let _defining = self.defining.lock();
                self.define(&event.key, cache.get(&event.key).as_deref(), revision);
            }
            if changed.iter().all(|known| !Arc::ptr_eq(known, &cache)) {
                changed.push(cache);
            }
        }
        if !batch.events.is_empty() {
            self.version.advance();
        }
        let revision = batch.revision;
        self.applied.store(revision);
        self.waiters.notify(revision);
        // After the batch: a watcher that is woken reads all of its events.
        for cache in changed {
            cache.wake_watchers();
        }
    }

    /// Gives the memory of resources without recent events back. Never ends.
    pub(super) async fn shrink_in_time(&self) {
        loop {
            tokio::time::sleep(SHRINK_INTERVAL).await;
            let now = Instant::now();
            for (_, cache) in self.all() {
                cache.shrink_if_quiet(now);
            }
        }
    }

    /// Applies a definition, or its deletion: from then on its objects are served accordingly.
    fn define(&self, key: &str, object: Option<&CachedObject>, revision: Revision) {
        let Some(name) = key.strip_prefix(custom::PREFIX) else {
            return;
        };
        // What it says is not known yet: what it said before stays.
        if object.is_some_and(|object| object.undecrypted().is_some()) {
            return;
        }
        let tree = object.map(CachedObject::tree);
        let Some(change) = self.definitions.follow(name, tree.as_ref(), revision) else {
            return;
        };
        self.resource(&change.prefix).renew(change.selectable, revision);
        let mut abandoned = self.abandoned.lock();
        if change.deleted {
            abandoned.insert(change.prefix);
        } else {
            abandoned.remove(&change.prefix);
        }
        let mut resources = self.resources.write();
        abandoned.retain(|prefix| {
            let cache = resources.get(prefix.as_str());
            // A request that holds it must not be left with one that is fed no more.
            let is_unused = cache.is_some_and(|cache| cache.count() == 0 && Arc::strong_count(cache) == 1);
            if is_unused {
                resources.remove(prefix.as_str());
                self.began.store(revision);
            }
            resources.contains_key(prefix.as_str())
        });
    }

    /// Lets those know who follow an object that it was decrypted.
    pub(super) fn follow_decrypted(&self, cache: &WatchCache, key: &str) {
        if key.starts_with(custom::PREFIX) {
            let _defining = self.defining.lock();
            // It may have changed or gone meanwhile.
            if let Some(object) = cache.get(key) {
                self.define(key, Some(&*object), object.revision);
            }
        }
        self.version.advance();
    }

    /// The kinds that users define.
    pub(crate) fn definitions(&self) -> &DefinitionRegistry {
        &self.definitions
    }

    /// The cache of the resource whose keys have this prefix; it is created if it is not there.
    pub(crate) fn resource(&self, prefix: &str) -> Arc<WatchCache> {
        if let Some(cache) = self.existing(prefix) {
            return cache;
        }
        let mut resources = self.resources.write();
        // Read under the lock: it changes together with the caches.
        let began = self.began.load();
        let cache = resources
            .entry(prefix.into())
            .or_insert_with(|| self.create(prefix, began));
        Arc::clone(cache)
    }

    /// A cache to be put into `resources`, whose lock the caller holds.
    fn create(&self, prefix: &str, revision: Revision) -> Arc<WatchCache> {
        let cache = WatchCache::new((self.selectable)(prefix), revision);
        if self.closed.load(Ordering::Acquire) {
            cache.close();
        }
        Arc::new(cache)
    }

    /// All caches, with the prefixes of their keys.
    pub(super) fn all(&self) -> Vec<(Box<str>, Arc<WatchCache>)> {
        let resources = self.resources.read();
        let all = resources.iter();
        all.map(|(prefix, cache)| (prefix.clone(), Arc::clone(cache)))
            .collect()
    }

    fn existing(&self, prefix: &str) -> Option<Arc<WatchCache>> {
        let resources = self.resources.read();
        resources.get(prefix).cloned()
    }

    /// Everything up to here is in the caches.
    pub(crate) fn applied(&self) -> Revision {
        self.applied.load()
    }

    /// The newest revision that the store has answered with; the caches may not have it yet.
    pub(crate) fn newest_known(&self) -> Revision {
        self.newest_known.load()
    }

    /// Changes with the content of the caches.
    pub(crate) fn version(&self) -> CachesVersion {
        self.version.load()
    }

    /// Whether the caches follow the store. They do not while they are loaded after events were lost.
    pub(crate) fn follows(&self) -> bool {
        *self.follows.borrow()
    }

    pub(super) fn set_follows(&self, follows: bool) {
        self.follows.send_replace(follows);
    }

    /// Waits until a commit is in the caches.
    pub(crate) async fn wait_until_applied(&self, revision: Revision) {
        if self.applied() < revision {
            let reached = self.waiters.add(revision);
            // It may have been applied between the look and the queue.
            self.waiters.notify(self.applied());
            let _ = reached.await;
        }
    }

    /// The newest revision of the store. It is never below what was read before, unless the store was restored from a backup.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/interfaces.go Interface; GetCurrentResourceVersion
    pub(crate) async fn current_revision(&self) -> Result<Revision, StoreError> {
        let applied = self.applied();
        for _ in 0..LOOKS {
            let current = self.store.current_revision().await?;
            self.newest_known.raise(current);
            if current >= applied {
                return Ok(current);
            }
            // A store in this process may count a commit a moment after it can be read.
            tokio::time::sleep(PAUSE).await;
        }
        Err(StoreError::Unavailable {
            backend: "shared",
            message: format!(
                "it is behind revision {applied}, which was read from it before; if it was restored from a backup, restart \
                 this server"
            ),
            source: None,
        })
    }

    /// Waits until the caches have everything that is stored now, whichever server stored it.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go waitUntilWatchCacheFreshAndForceAllEvents
    pub(crate) async fn read_index(&self) -> Result<Revision, StoreError> {
        let asked = ClockReading::now();
        let revision = self.current_revision().await?;
        self.wait_until_current(revision, asked).await;
        Ok(revision)
    }

    /// Waits until the caches have everything up to a revision that was the store's newest at a moment.
    async fn wait_until_current(&self, revision: Revision, asked: ClockReading) {
        self.wait_until_applied(revision).await;
        if !self.follows() {
            // Ends with an error only when the caches are gone.
            let _ = self.follows.subscribe().wait_for(|follows| *follows).await;
        }
        self.freshness.prove(asked);
    }

    /// Whether the caches had everything that was stored a short while ago.
    pub(crate) fn is_recent(&self) -> bool {
        match self.freshness.age() {
            ProofAge::Recent => true,
            ProofAge::Aging => {
                self.proof_due.notify_one();
                true
            }
            ProofAge::Old => false,
        }
    }

    /// Asks the store whenever requests will soon need it.
    pub(super) async fn prove_in_time(&self) {
        loop {
            self.proof_due.notified().await;
            // A request that needs it reads the store itself and reports the error.
            let _ = tokio::time::timeout(PROOF_TIME, self.read_index()).await;
        }
    }

    /// Makes sure that what decides about requests (roles, bindings, policies, webhooks, definitions) is not older than some
    /// seconds: waits for what other servers have stored if that has not been proven for a while.
    ///
    /// Requests share the questions: each waits for the answer to one that was asked after it arrived, however long that takes up
    /// to [`PROOF_TIME`], and before that for one that is on its way.
    pub(crate) async fn ensure_recent(&self) -> Result<(), StalenessError> {
        let arrived = ClockReading::now();
        let mut unanswered = self.proof.lock().await;
        if self.is_recent() || self.freshness.covers(arrived) {
            return Ok(());
        }
        if let Some((asked, error)) = &*unanswered
            && asked.is_since(arrived)
        {
            return Err(error.clone());
        }
        let asked = ClockReading::now();
        let error = match tokio::time::timeout(PROOF_TIME, self.read_index()).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => StalenessError::Failed(error),
            Err(_) => StalenessError::Late,
        };
        *unanswered = Some((asked, error.clone()));
        Err(error)
    }

    /// How many objects each resource has, by group and name.
    pub(crate) fn counts(&self) -> Vec<(String, String, usize)> {
        let resources = self.resources.read();
        let mut counts: Vec<_> = resources
            .iter()
            .filter_map(|(prefix, cache)| {
                let mut parts = prefix.trim_end_matches('/').rsplit('/');
                let resource = parts.next()?;
                let group = parts.next()?;
                let group = if group == "core" { "" } else { group };
                Some((group.to_owned(), resource.to_owned(), cache.count()))
            })
            .collect();
        counts.sort();
        counts
    }

    /// The trees of objects that were written a moment ago.
    pub(crate) fn trees(&self) -> &ParsedTrees {
        &self.trees
    }

    /// The store behind the caches.
    pub(crate) fn store(&self) -> &ReadOnlyStore {
        &self.store
    }

    /// Ends all watches, also those that begin later.
    pub(crate) fn close(&self) {
        let resources = self.resources.write();
        self.closed.store(true, Ordering::Release);
        for cache in resources.values() {
            cache.close();
        }
    }
}
