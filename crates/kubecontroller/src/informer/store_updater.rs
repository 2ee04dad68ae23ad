//! Applies list and watch events to the store and notifies event handlers.

use std::{collections::HashSet, sync::Arc};

use tokio::time::Instant;

use super::{
    delta::Delta,
    event_handlers::{EventHandler, InformerCommand},
    health::{InformerHealth, increment},
    list_watch::{ListWatchError, ListWatchStart, WatchEvent},
    options::Transform,
    shared_informer::InformerCore,
};
use crate::{Key, object::Object};

/// Turns the events of a [`ListWatch`](super::ListWatch) into changes of the store and deltas for the handlers. It belongs to
/// the task of the informer, which is the only writer of the store, so deltas need no lock to be in order.
// upstream: staging/src/k8s.io/client-go/tools/cache/controller.go processDeltas
pub(super) struct StoreUpdater<T> {
    pub(super) core: Arc<InformerCore<T>>,
    /// Set for sources whose decoder does not apply it already.
    transform: Option<Transform<T>>,
    handlers: Vec<EventHandler<T>>,
    list: Option<ListInProgress<T>>,
    list_started_at: Instant,
    /// Whether the last list was requested as a consistent one. Its result counts even if it is older than the store: the
    /// server was restored from a backup.
    is_consistent_list: bool,
    is_synced: bool,
    /// The newest resource version seen, as a number.
    newest: Option<u64>,
    /// The resource version from which the watch continues.
    version: String,
}

/// A list that is not complete.
enum ListInProgress<T> {
    /// The store was empty, so every object is added as it arrives.
    Initial,
    /// The store is not empty. It is compared with the list when that is complete: only then is it known what was deleted.
    Relist {
        objects: Vec<(Key, Arc<T>)>,
        /// Objects of the list that do not decode. They exist, so they are not deleted from the store.
        undecodable: Vec<Key>,
    },
}

/// Whether a list or a watch returned an object.
#[derive(Clone, Copy, PartialEq)]
enum ChangeSource {
    List,
    Watch,
}

// --- StoreUpdater ---

impl<T: Object> StoreUpdater<T> {
    pub(super) fn new(core: Arc<InformerCore<T>>, transform: Option<Transform<T>>) -> Self {
        StoreUpdater {
            core,
            transform,
            handlers: Vec::new(),
            list: None,
            list_started_at: Instant::now(),
            is_consistent_list: false,
            is_synced: false,
            newest: None,
            version: String::new(),
        }
    }

    /// Where the next list or watch starts, after the previous one ended with `error` or without one.
    // upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go relistResourceVersion
    pub(super) fn next_start(&mut self, error: Option<&ListWatchError>) -> ListWatchStart {
        let relists = match error {
            // `TooManyObjects`: the object that did not fit is not in the store, and a watch would not send it again.
            Some(ListWatchError::Expired(_) | ListWatchError::TooManyObjects { .. }) => true,
            // A watch that the server rejects may be rejected for its version. 429 only means "later".
            Some(ListWatchError::Rejected { code, .. }) => (400..500).contains(code) && *code != 429,
            _ => false,
        };
        let consistent = self.is_synced || relists || self.core.options.consistent;
        if self.is_synced && !relists && self.list.is_none() {
            increment(&self.core.counters.watches);
            self.core.metrics.watched();
            return ListWatchStart::Version(self.version.clone());
        }
        increment(&self.core.counters.lists);
        self.is_consistent_list = consistent;
        self.list_started_at = Instant::now();
        ListWatchStart::List { consistent }
    }

    /// Whether a list is in progress or still to be done.
    pub(super) fn is_listing(&self) -> bool {
        self.list.is_some() || !self.is_synced
    }

    pub(super) fn run_command(&mut self, command: InformerCommand<T>) {
        match command {
            InformerCommand::AddHandler(mut handler) => {
                for object in self.core.store.all() {
                    let delta = Delta::Added {
                        new: object,
                        initial: true,
                    };
                    call_handler(&self.core, &mut handler, &delta);
                }
                if self.is_synced {
                    handler.mark_synced();
                }
                self.handlers.push(handler);
            }
            InformerCommand::RemoveClosedHandlers => self.handlers.retain(|handler| !handler.is_closed()),
        }
    }

    /// Sends [`Delta::Sync`] for every object.
    pub(super) fn resync(&mut self) {
        if self.is_synced && !self.handlers.is_empty() {
            for object in self.core.store.all() {
                self.distribute(&Delta::Sync { object });
            }
        }
    }

    /// Applies an event. Returns whether it shows that the connection works: backoff is reset after such events only.
    pub(super) fn apply(&mut self, event: WatchEvent<T>) -> Result<bool, ListWatchError> {
        match event {
            WatchEvent::ListStarted => {
                let is_first = !self.is_synced && self.core.store.is_empty();
                self.list = Some(if is_first {
                    ListInProgress::Initial
                } else {
                    ListInProgress::Relist {
                        objects: Vec::new(),
                        undecodable: Vec::new(),
                    }
                });
                return Ok(false);
            }
            WatchEvent::ListItems(objects) => {
                self.add_list_items(objects)?;
                return Ok(false);
            }
            WatchEvent::Undecodable { key, version, error } => {
                increment(&self.core.counters.undecodable);
                tracing::warn!(informer = self.core.name, %key, error, "failed to decode object, keeping its last known state");
                match &mut self.list {
                    Some(ListInProgress::Relist { undecodable, .. }) => undecodable.push(key),
                    Some(ListInProgress::Initial) => {}
                    None => self.advance_to(version),
                }
                return Ok(false);
            }
            WatchEvent::ListComplete { version } => self.complete_list(version)?,
            WatchEvent::Applied(object) => self.apply_object(object)?,
            WatchEvent::Deleted(object) => self.delete_object(object),
            WatchEvent::Bookmark { version } => self.advance_to(version),
        }
        self.publish_progress();
        Ok(true)
    }

    fn add_list_items(&mut self, objects: Vec<Arc<T>>) -> Result<(), ListWatchError> {
        let limit = self.core.options.max_objects.unwrap_or(usize::MAX);
        for mut object in objects {
            self.transform(&mut object);
            let key = object.key();
            match &mut self.list {
                Some(ListInProgress::Relist { objects, .. }) => {
                    if objects.len() >= limit {
                        return Err(ListWatchError::TooManyObjects { limit });
                    }
                    objects.push((key, self.core.store.reuse_unchanged(object)));
                }
                Some(ListInProgress::Initial) | None => {
                    self.newest = self.newest.max(object.revision());
                    self.upsert(key, object, ChangeSource::List)?;
                }
            }
        }
        Ok(())
    }

    fn complete_list(&mut self, version: String) -> Result<(), ListWatchError> {
        let revision = version.parse().ok();
        // A list from the watch cache of another API server may be older than the store. Ask for a consistent one instead of
        // going back in time.
        if !self.is_consistent_list && revision.is_some() && revision < self.newest {
            self.list = None;
            return Err(ListWatchError::Expired(format!(
                "the list has version {version}, which is older than the store"
            )));
        }
        if let Some(ListInProgress::Relist { objects, undecodable }) = self.list.take() {
            self.replace(objects, &undecodable)?;
        }
        // Also if it is lower: a server that was restored from a backup counts on from there.
        self.newest = revision.or(self.newest);
        self.version = version;
        self.is_synced = true;
        self.core.metrics.listed(self.list_started_at.elapsed());
        for handler in &self.handlers {
            handler.mark_synced();
        }
        Ok(())
    }

    /// Replaces the contents of the store by a complete list.
    // upstream: staging/src/k8s.io/client-go/tools/cache/delta_fifo.go Replace
    fn replace(&mut self, objects: Vec<(Key, Arc<T>)>, undecodable: &[Key]) -> Result<(), ListWatchError> {
        let mut present: HashSet<&Key> = objects.iter().map(|(key, _)| key).collect();
        present.extend(undecodable);
        let mut deleted: Vec<Key> = self.core.store.keys();
        deleted.retain(|key| !present.contains(key));
        for key in deleted {
            self.remove(&key, None);
        }
        for (key, object) in objects {
            self.upsert(key, object, ChangeSource::List)?;
        }
        Ok(())
    }

    fn apply_object(&mut self, mut object: Arc<T>) -> Result<(), ListWatchError> {
        if self.is_old(&object) {
            return Ok(());
        }
        self.transform(&mut object);
        self.advance_to(object.resource_version().to_owned());
        self.upsert(object.key(), object, ChangeSource::Watch)
    }

    fn delete_object(&mut self, mut object: Arc<T>) {
        if self.is_old(&object) {
            return;
        }
        self.transform(&mut object);
        self.advance_to(object.resource_version().to_owned());
        self.remove(&object.key(), Some(object));
    }

    /// Whether the event of an object is a repetition: something newer has been seen.
    fn is_old(&self, object: &T) -> bool {
        let revision = object.revision();
        revision.is_some() && revision < self.newest
    }

    fn advance_to(&mut self, version: String) {
        if version.is_empty() {
            return;
        }
        let revision = version.parse().ok();
        if revision.is_none() || revision >= self.newest {
            self.newest = revision.or(self.newest);
            self.version = version;
        }
    }

    fn upsert(&mut self, key: Key, new: Arc<T>, source: ChangeSource) -> Result<(), ListWatchError> {
        let initial = !self.is_synced;
        let Some(old) = self.core.store.get(&key) else {
            self.check_object_limit()?;
            self.core.store.insert(key, Arc::clone(&new));
            self.distribute(&Delta::Added { new, initial });
            return Ok(());
        };
        if old.uid() != new.uid() {
            // Deleted and recreated: handlers must see both, since the old object may have left something to clean up.
            self.remove(&key, None);
            self.core.store.insert(key, Arc::clone(&new));
            self.distribute(&Delta::Added { new, initial: false });
            return Ok(());
        }
        let is_same = Arc::ptr_eq(&old, &new)
            || (old.resource_version() == new.resource_version() && !new.resource_version().is_empty());
        match source {
            ChangeSource::Watch if is_same => {}
            ChangeSource::List if is_same => {
                let new = Arc::clone(&old);
                self.distribute(&Delta::Replaced { old, new });
            }
            _ => {
                self.core.store.insert(key, Arc::clone(&new));
                self.distribute(&match source {
                    ChangeSource::List => Delta::Replaced { old, new },
                    ChangeSource::Watch => Delta::Updated { old, new },
                });
            }
        }
        Ok(())
    }

    fn check_object_limit(&self) -> Result<(), ListWatchError> {
        match self.core.options.max_objects {
            Some(limit) if self.core.store.len() >= limit => Err(ListWatchError::TooManyObjects { limit }),
            _ => Ok(()),
        }
    }

    /// Removes an object. `last` is its final state; `None` if the deletion event was missed.
    fn remove(&mut self, key: &Key, last: Option<Arc<T>>) {
        if let Some(old) = self.core.store.remove(key) {
            let missed = last.is_none();
            let last = last.unwrap_or(old);
            self.distribute(&Delta::Deleted { last, missed });
        }
    }

    fn transform(&self, object: &mut Arc<T>) {
        if let Some(transform) = &self.transform
            && let Some(object) = Arc::get_mut(object)
        {
            transform(object);
        }
    }

    /// Sends a delta to all handlers. The store and the progress are updated before: a handler finds the new state in the
    /// store, and [`Informer::version`](super::Informer::version) includes it.
    // upstream: staging/src/k8s.io/client-go/tools/cache/shared_informer.go distribute
    fn distribute(&mut self, delta: &Delta<T>) {
        if self.is_synced {
            self.publish_progress();
        }
        increment(&self.core.counters.deltas);
        self.core.metrics.event();
        for handler in &mut self.handlers {
            call_handler(&self.core, handler, delta);
        }
    }

    fn publish_progress(&self) {
        let metrics = &self.core.metrics;
        metrics.objects(self.core.store.len());
        metrics.synced(self.is_synced);
        if let Some(version) = self.newest {
            metrics.version(version);
        }
        self.core.progress.send_modify(|progress| {
            progress.is_synced = self.is_synced;
            progress.version = self.newest;
            if self.is_synced && progress.health != InformerHealth::Synced {
                progress.health = InformerHealth::Synced;
            }
        });
    }
}

fn call_handler<T: Object>(core: &InformerCore<T>, handler: &mut EventHandler<T>, delta: &Delta<T>) {
    if !handler.call(delta) {
        increment(&core.counters.panics);
        tracing::error!(informer = core.name, key = %delta.object().key(), "event handler panicked");
    }
}
