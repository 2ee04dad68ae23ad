//! The watch cache of one resource: objects, recent events and watchers.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use imbl::OrdMap;
use k3_api::strategy::SelectableField;
use k3_storage::{Change, Key, Revision};
use parking_lot::{Mutex, MutexGuard, RwLock};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    CacheVersion, CacheWatcher, CachedObject, EventDelivery, Snapshot, WatchFilter,
    event::WatchCacheEvent,
    event_window::EventWindow,
    expected_commits::{ExpectedCommit, ExpectedCommits, ExpectedObject},
    field_values::FieldValues,
    watcher::{self, WatchQueue},
    watcher_index::WatcherIndex,
};

/// How long the snapshot behind a paged list is kept.
const SNAPSHOT_TTL: Duration = Duration::from_mins(5);
/// The maximum number of such snapshots.
const MAX_SNAPSHOTS: usize = 32;

/// The objects of one resource, its event window and its watchers.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go ImmutableWatchCacheConfig
pub(crate) struct WatchCache {
    /// Readers see whole states: objects are parsed before the lock is taken, and what runs under it only moves values. If it
    /// panics all the same while a commit is applied, the reflector ends: then no request is answered from this state, because it
    /// is not proven to be recent any more.
    state: Mutex<CacheState>,
    /// The fields objects can be selected by.
    selectable: RwLock<Arc<[SelectableField]>>,
    /// What writes of this server know of the objects that they commit.
    expected: ExpectedCommits,
}

struct CacheState {
    objects: OrdMap<Key, Arc<CachedObject>>,
    /// The revision of the last event, or of the list that the cache was initialized from.
    revision: Revision,
    version: CacheVersion,
    events: EventWindow,
    watchers: WatcherIndex,
    /// Watchers that have events and are still to be woken.
    due: Vec<Arc<WatchQueue>>,
    snapshots: VecDeque<(Instant, Snapshot)>,
    /// The server stops: watches end as soon as they begin.
    closed: bool,
}

/// A watch cannot start at this resource version: the events after it are no longer in the event window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOldResourceVersion {
    /// The oldest revision that a watch can begin after.
    pub oldest: Revision,
}

/// A cache whose content is being replaced. It cannot be read or watched until this is dropped.
pub(super) struct CacheReplacement<'c> {
    cache: &'c WatchCache,
    state: MutexGuard<'c, CacheState>,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// After this commit.
    Revision(Revision),
    /// With what there is now.
    Now,
}

// --- WatchCache ---

impl WatchCache {
    /// A cache that begins with these objects, complete up to a revision.
    pub(super) fn new(selectable: Arc<[SelectableField]>, revision: Revision) -> Self {
        let state = CacheState {
            objects: OrdMap::new(),
            revision,
            version: CacheVersion::FIRST,
            events: EventWindow::new(revision),
            watchers: WatcherIndex::default(),
            due: Vec::new(),
            snapshots: VecDeque::new(),
            closed: false,
        };
        WatchCache {
            state: Mutex::new(state),
            selectable: RwLock::new(selectable),
            expected: ExpectedCommits::default(),
        }
    }

    /// Begins to replace the content. Holds readers up, so that several caches can be replaced at once.
    pub(super) fn begin_replacement(&self) -> CacheReplacement<'_> {
        CacheReplacement {
            cache: self,
            state: self.lock(),
        }
    }

    /// Announces what a commit will store, before it is made: the fields that objects are selected by are read from the tree
    /// that is there, and not from the bytes later. `None` if objects are not selected by fields.
    pub(crate) fn expect(&self, key: &Key, bytes: &Bytes, tree: &Value) -> Option<ExpectedCommit<'_>> {
        let selectable = self.selectable();
        if selectable.is_empty() {
            return None;
        }
        let object = ExpectedObject {
            bytes: bytes.clone(),
            values: FieldValues::read(&selectable, tree),
            selectable,
        };
        Some(self.expected.add(key, object))
    }

    /// Applies a commit and queues its event for watchers, which are to be woken afterwards. There is one caller, which follows
    /// the store.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go processEvent
    pub(super) fn apply(&self, key: &Key, change: &Change, revision: Revision, now: Instant) {
        let selectable = self.selectable();
        let mut after = match change {
            Change::Created(bytes) | Change::Updated(bytes) => {
                Some(Arc::new(self.committed_object(key, bytes, revision, &selectable)))
            }
            Change::Deleted => None,
        };
        // Objects are parsed before the lock is taken.
        if self.lock().watchers.selects_by_field() {
            let before = self.get(key);
            for object in before.iter().chain(&after) {
                self.read_fields(object);
            }
        }
        let mut locked = self.lock();
        let state = &mut *locked;
        // The loaded snapshot may be newer than the first events of the store's watch.
        if revision <= state.revision {
            return;
        }
        state.revision = revision;
        state.version.advance();
        if !Arc::ptr_eq(&selectable, &self.selectable()) {
            // Other fields have been declared since they were read.
            after = after.map(|object| Arc::new(object.without_derived_state()));
        }
        let before = match &after {
            Some(object) => state.objects.insert(key.clone(), Arc::clone(object)),
            None => state.objects.remove(key),
        };
        if before.is_none() && after.is_none() {
            // It was created and deleted between two loads: no watcher knows it.
            return;
        }
        let event = Arc::new(WatchCacheEvent {
            revision,
            before,
            after,
        });
        // Under the lock of the cache, so that every watcher receives events in order. A watcher whose queue is full is dropped,
        // and its client starts a new watch.
        state.watchers.send(&event, &mut state.due, |object, position| {
            self.field(object, position)
        });
        state.events.append(event, now);
    }

    /// Wakes the watchers that have new events. To be called after all commits that are known have been applied: a watcher then
    /// reads, encrypts and sends them together.
    pub(super) fn wake_watchers(&self) {
        let due = mem::take(&mut self.lock().due);
        for queue in due {
            queue.wake();
        }
    }

    /// The object of a commit, with the fields that its writer has read.
    fn committed_object(
        &self,
        key: &Key,
        bytes: &Bytes,
        revision: Revision,
        selectable: &Arc<[SelectableField]>,
    ) -> CachedObject {
        let object = CachedObject::new(key.clone(), bytes.clone(), revision);
        match self.expected.take(key, bytes) {
            Some(expected) if Arc::ptr_eq(&expected.selectable, selectable) => {
                object.with_fields(expected.values)
            }
            _ => object,
        }
    }

    /// Gives the memory of events back that were kept for watches that are not to be expected any more.
    pub(super) fn shrink_if_quiet(&self, now: Instant) {
        let mut state = self.lock();
        state.forget_snapshots(now);
        let removed = state.events.shrink_if_quiet(now);
        drop(state);
        // Outside of the lock: they may be many.
        drop(removed);
    }

    /// The current objects, with everything up to `applied`.
    pub(crate) fn snapshot(&self, applied: Revision) -> Snapshot {
        let state = self.lock();
        Snapshot {
            revision: state.revision.max(applied),
            version: state.version,
            objects: state.objects.clone(),
        }
    }

    /// Changes with the objects. Equal versions of a cache mean equal objects.
    pub(crate) fn version(&self) -> CacheVersion {
        self.lock().version
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<CachedObject>> {
        self.lock().objects.get(key).cloned()
    }

    /// Replaces an undecrypted object by its decrypted state. Returns whether the undecrypted state was still present.
    pub(super) fn replace_undecrypted(&self, object: &Arc<CachedObject>) -> bool {
        let mut state = self.lock();
        let current = state.objects.get(&object.key);
        if current
            .is_none_or(|current| current.revision != object.revision || current.undecrypted().is_none())
        {
            return false;
        }
        state.objects.insert(object.key.clone(), Arc::clone(object));
        state.version.advance();
        true
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().objects.len()
    }

    /// Keeps a snapshot, so that the next pages of a list read the same state.
    pub(crate) fn keep_snapshot(&self, snapshot: &Snapshot) {
        let now = Instant::now();
        let mut state = self.lock();
        state.forget_snapshots(now);
        if state
            .snapshots
            .iter()
            .all(|(_, snapshots)| snapshots.revision != snapshot.revision)
        {
            if state.snapshots.len() >= MAX_SNAPSHOTS {
                state.snapshots.pop_front();
            }
            state.snapshots.push_back((now, snapshot.clone()));
        }
    }

    /// The snapshot of a revision, if it is kept or nothing has changed since.
    pub(crate) fn at(&self, revision: Revision, applied: Revision) -> Option<Snapshot> {
        let mut state = self.lock();
        if revision >= state.revision && revision <= applied.max(state.revision) {
            return Some(Snapshot {
                revision,
                version: state.version,
                objects: state.objects.clone(),
            });
        }
        state.forget_snapshots(Instant::now());
        let mut snapshots = state.snapshots.iter();
        snapshots
            .find(|(_, snapshots)| snapshots.revision == revision)
            .map(|(_, snapshots)| snapshots.clone())
    }

    /// Starts a watch. With [`WatchStart::Now`] the current objects are returned too. A revision that the cache has not reached
    /// is allowed: the watcher gets no event up to it.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go Watch
    pub(crate) fn watch(
        &self,
        interest: &WatchFilter,
        since: WatchStart,
        applied: Revision,
    ) -> Result<(CacheWatcher, Snapshot), TooOldResourceVersion> {
        if let (WatchFilter::Field(..), WatchStart::Revision(revision)) = (interest, since) {
            // Objects are parsed before the lock is taken; what is added meanwhile is little.
            let events = self
                .lock()
                .events
                .range_after(revision)
                .cloned()
                .collect::<Vec<_>>();
            for object in events
                .iter()
                .flat_map(|event| event.before.iter().chain(&event.after))
            {
                self.read_fields(object);
            }
        }
        let mut state = self.lock();
        let mut backlog = Vec::new();
        if let WatchStart::Revision(revision) = since {
            // "too old resource version": events after that revision are no longer in the window. `registry/watch.rs` writes the
            // message.
            let oldest = state.events.horizon();
            if revision < oldest {
                return Err(TooOldResourceVersion { oldest });
            }
            let concerns =
                |object: &Arc<CachedObject>| interest.concerns(object, |object, at| self.field(object, at));
            for event in state.events.range_after(revision) {
                if event.before.iter().chain(&event.after).any(concerns) {
                    backlog.push(Arc::new(EventDelivery::new(Arc::clone(event))));
                }
            }
        }
        let after = match since {
            WatchStart::Revision(revision) => revision,
            WatchStart::Now => Revision::ZERO,
        };
        let (sender, watcher) = watcher::queue(backlog, after);
        // Without its sending end, the queue has ended.
        if !state.closed {
            state.watchers.add(interest, sender);
        }
        let snapshot = Snapshot {
            revision: state.revision.max(applied),
            version: state.version,
            objects: if since == WatchStart::Now {
                state.objects.clone()
            } else {
                OrdMap::new()
            },
        };
        Ok((watcher, snapshot))
    }

    /// Resets derived state because the selectable fields changed. All watches end, and none can start before `revision`.
    pub(super) fn renew(&self, selectable: Arc<[SelectableField]>, revision: Revision) {
        let mut state = self.lock();
        state.watchers = WatcherIndex::default();
        state.snapshots.clear();
        state.revision = state.revision.max(revision);
        let horizon = state.events.horizon().max(state.revision);
        state.events = EventWindow::new(horizon);
        state.version.advance();
        // Values derived under the previous definition are discarded.
        state.objects = state
            .objects
            .iter()
            .map(|(key, object)| (key.clone(), Arc::new(object.without_derived_state())))
            .collect();
        *self.selectable.write() = selectable;
    }

    /// Ends all watches, also those that begin later.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.watchers = WatcherIndex::default();
    }

    /// The value of a field that objects can be selected by.
    pub(crate) fn field<'o>(&self, object: &'o CachedObject, position: usize) -> &'o str {
        self.read_fields(object).get(position)
    }

    /// The values of the fields that objects can be selected by. They are read from the object unless that has been done.
    fn read_fields<'o>(&self, object: &'o CachedObject) -> &'o FieldValues {
        object.fields(|tree| FieldValues::read(&self.selectable(), tree))
    }

    /// Where a field stands among those that objects can be selected by.
    pub(crate) fn field_position(&self, name: &str) -> Option<usize> {
        self.selectable().iter().position(|field| field.field == name)
    }

    fn selectable(&self) -> Arc<[SelectableField]> {
        Arc::clone(&self.selectable.read())
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock()
    }
}

// --- CacheReplacement ---

impl CacheReplacement<'_> {
    /// Replaces the objects by those complete at a revision, and the fields they can be selected by. The events in between are
    /// unknown, so no watch spans it: running watches end with expired history, and none can start before the revision.
    pub(super) fn put(
        &mut self,
        objects: OrdMap<Key, Arc<CachedObject>>,
        selectable: Arc<[SelectableField]>,
        revision: Revision,
    ) {
        let state = &mut *self.state;
        for sender in state.watchers.take_all() {
            sender.lose_history(revision);
        }
        state.events = EventWindow::new(revision);
        state.snapshots.clear();
        state.revision = revision;
        state.version.advance();
        state.objects = objects;
        *self.cache.selectable.write() = selectable;
    }
}

// --- CacheState ---

impl CacheState {
    fn forget_snapshots(&mut self, now: Instant) {
        while let Some((time, _)) = self.snapshots.front()
            && now.duration_since(*time) > SNAPSHOT_TTL
        {
            self.snapshots.pop_front();
        }
    }
}
