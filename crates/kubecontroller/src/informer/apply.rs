//! What a source tells becomes what the store holds and what handlers are told.

use std::{collections::HashSet, sync::Arc};

use tokio::time::Instant;

use super::{
    delta::Delta,
    health::{InformerHealth, count},
    informer::Core,
    list_watch::{ListWatchError, ListWatchStart, WatchEvent},
    options::Transform,
    subscribers::{Command, Subscriber},
};
use crate::{Key, object::Object};

/// What the task of an informer knows. It alone writes to the store.
pub(super) struct State<T> {
    pub(super) core: Arc<Core<T>>,
    /// For sources that do not transform on their own.
    transform: Option<Transform<T>>,
    subscribers: Vec<Subscriber<T>>,
    list: Option<List<T>>,
    /// When the list began that was asked for last.
    asked: Instant,
    /// Whether the list that was asked for is the truth even if it is older than what was seen.
    is_truth: bool,
    is_synced: bool,
    /// The newest version seen, as a number.
    newest: Option<u64>,
    /// Where to go on.
    version: String,
}

/// A list that is not complete.
enum List<T> {
    /// There was nothing before it: its objects are told at once.
    First,
    /// What is there is compared with it when it is complete.
    Later {
        objects: Vec<(Key, Arc<T>)>,
        /// Objects that it has, but that cannot be read.
        kept: Vec<Key>,
    },
}

/// How an object was heard of.
#[derive(Clone, Copy, PartialEq)]
enum Heard {
    Listed,
    Watched,
}

// --- State ---

impl<T: Object> State<T> {
    pub(super) fn new(core: Arc<Core<T>>, transform: Option<Transform<T>>) -> Self {
        State {
            core,
            transform,
            subscribers: Vec::new(),
            list: None,
            asked: Instant::now(),
            is_truth: false,
            is_synced: false,
            newest: None,
            version: String::new(),
        }
    }

    /// Where a source has to begin.
    pub(super) fn start(&mut self, trouble: Option<&ListWatchError>) -> ListWatchStart {
        let relists = match trouble {
            // What was told last has not been kept.
            Some(ListWatchError::Expired(_) | ListWatchError::Full { .. }) => true,
            Some(ListWatchError::Refused { code, .. }) => (400..500).contains(code) && *code != 429,
            _ => false,
        };
        let consistent = self.is_synced || relists || self.core.options.consistent;
        if self.is_synced && !relists && self.list.is_none() {
            count(&self.core.counts.watches);
            self.core.metrics.watched();
            return ListWatchStart::Version(self.version.clone());
        }
        count(&self.core.counts.lists);
        self.is_truth = consistent;
        self.asked = Instant::now();
        ListWatchStart::List { consistent }
    }

    /// Whether a list has to be completed.
    pub(super) fn is_listing(&self) -> bool {
        self.list.is_some() || !self.is_synced
    }

    pub(super) fn obey(&mut self, command: Command<T>) {
        match command {
            Command::Add(mut subscriber) => {
                for object in self.core.store.all() {
                    let delta = Delta::Added {
                        new: object,
                        initial: true,
                    };
                    tell(&self.core, &mut subscriber, &delta);
                }
                if self.is_synced {
                    subscriber.synced();
                }
                self.subscribers.push(subscriber);
            }
            Command::Sweep => self.subscribers.retain(|subscriber| !subscriber.is_over()),
        }
    }

    /// Tells of every object again.
    pub(super) fn resync(&mut self) {
        if self.is_synced && !self.subscribers.is_empty() {
            for object in self.core.store.all() {
                self.tell(&Delta::Sync { object });
            }
        }
    }

    /// Takes what a source tells. True if that is a sign of health.
    pub(super) fn apply(&mut self, event: WatchEvent<T>) -> Result<bool, ListWatchError> {
        match event {
            WatchEvent::Restarted => {
                let is_first = !self.is_synced && self.core.store.is_empty();
                self.list = Some(if is_first {
                    List::First
                } else {
                    List::Later {
                        objects: Vec::new(),
                        kept: Vec::new(),
                    }
                });
                return Ok(false);
            }
            WatchEvent::Listed(objects) => {
                self.list_objects(objects)?;
                return Ok(false);
            }
            WatchEvent::Unreadable { key, version, error } => {
                count(&self.core.counts.unreadable);
                tracing::warn!(informer = self.core.name, %key, error, "an object cannot be read; its last known state is kept");
                match &mut self.list {
                    Some(List::Later { kept, .. }) => kept.push(key),
                    Some(List::First) => {}
                    None => self.reach(version),
                }
                return Ok(false);
            }
            WatchEvent::Complete { version } => self.complete(version)?,
            WatchEvent::Applied(object) => self.applied(object)?,
            WatchEvent::Deleted(object) => self.deleted(object),
            WatchEvent::Reached { version } => self.reach(version),
        }
        self.publish();
        Ok(true)
    }

    fn list_objects(&mut self, objects: Vec<Arc<T>>) -> Result<(), ListWatchError> {
        let limit = self.core.options.max_objects.unwrap_or(usize::MAX);
        for mut object in objects {
            self.transform(&mut object);
            let key = object.key();
            match &mut self.list {
                Some(List::Later { objects, .. }) => {
                    if objects.len() >= limit {
                        return Err(ListWatchError::Full { limit });
                    }
                    objects.push((key, self.core.store.same(object)));
                }
                Some(List::First) | None => {
                    self.newest = self.newest.max(object.revision());
                    self.put(key, object, Heard::Listed)?;
                }
            }
        }
        Ok(())
    }

    fn complete(&mut self, version: String) -> Result<(), ListWatchError> {
        let revision = version.parse().ok();
        if !self.is_truth && revision.is_some() && revision < self.newest {
            self.list = None;
            return Err(ListWatchError::Expired(format!(
                "the list is of version {version}, older than what was seen"
            )));
        }
        if let Some(List::Later { objects, kept }) = self.list.take() {
            self.replace(objects, &kept)?;
        }
        // A server that was put back to an earlier state counts on from there.
        self.newest = revision.or(self.newest);
        self.version = version;
        self.is_synced = true;
        self.core.metrics.listed(self.asked.elapsed());
        for subscriber in &self.subscribers {
            subscriber.synced();
        }
        Ok(())
    }

    /// What is there becomes what a list says.
    fn replace(&mut self, objects: Vec<(Key, Arc<T>)>, kept: &[Key]) -> Result<(), ListWatchError> {
        let mut present: HashSet<&Key> = objects.iter().map(|(key, _)| key).collect();
        present.extend(kept);
        let mut gone: Vec<Key> = self.core.store.keys();
        gone.retain(|key| !present.contains(key));
        for key in gone {
            self.remove(&key, None);
        }
        for (key, object) in objects {
            self.put(key, object, Heard::Listed)?;
        }
        Ok(())
    }

    fn applied(&mut self, mut object: Arc<T>) -> Result<(), ListWatchError> {
        if self.is_old(&object) {
            return Ok(());
        }
        self.transform(&mut object);
        self.reach(object.resource_version().to_owned());
        self.put(object.key(), object, Heard::Watched)
    }

    fn deleted(&mut self, mut object: Arc<T>) {
        if self.is_old(&object) {
            return;
        }
        self.transform(&mut object);
        self.reach(object.resource_version().to_owned());
        self.remove(&object.key(), Some(object));
    }

    /// Whether something newer has been seen: then it comes for the second time.
    fn is_old(&self, object: &T) -> bool {
        let revision = object.revision();
        revision.is_some() && revision < self.newest
    }

    fn reach(&mut self, version: String) {
        if version.is_empty() {
            return;
        }
        let revision = version.parse().ok();
        if revision.is_none() || revision >= self.newest {
            self.newest = revision.or(self.newest);
            self.version = version;
        }
    }

    fn put(&mut self, key: Key, new: Arc<T>, heard: Heard) -> Result<(), ListWatchError> {
        let initial = !self.is_synced;
        let Some(old) = self.core.store.get(&key) else {
            self.make_room()?;
            self.core.store.insert(key, Arc::clone(&new));
            self.tell(&Delta::Added { new, initial });
            return Ok(());
        };
        if old.uid() != new.uid() {
            self.remove(&key, None);
            self.core.store.insert(key, Arc::clone(&new));
            self.tell(&Delta::Added { new, initial: false });
            return Ok(());
        }
        let is_same = Arc::ptr_eq(&old, &new)
            || (old.resource_version() == new.resource_version() && !new.resource_version().is_empty());
        match heard {
            Heard::Watched if is_same => {}
            Heard::Listed if is_same => {
                let new = Arc::clone(&old);
                self.tell(&Delta::Replaced { old, new });
            }
            _ => {
                self.core.store.insert(key, Arc::clone(&new));
                self.tell(&match heard {
                    Heard::Listed => Delta::Replaced { old, new },
                    Heard::Watched => Delta::Updated { old, new },
                });
            }
        }
        Ok(())
    }

    fn make_room(&self) -> Result<(), ListWatchError> {
        match self.core.options.max_objects {
            Some(limit) if self.core.store.len() >= limit => Err(ListWatchError::Full { limit }),
            _ => Ok(()),
        }
    }

    /// Takes an object out; `last` is its last state, unless that was missed.
    fn remove(&mut self, key: &Key, last: Option<Arc<T>>) {
        if let Some(old) = self.core.store.remove(key) {
            let missed = last.is_none();
            let last = last.unwrap_or(old);
            self.tell(&Delta::Deleted { last, missed });
        }
    }

    fn transform(&self, object: &mut Arc<T>) {
        if let Some(transform) = &self.transform
            && let Some(object) = Arc::get_mut(object)
        {
            transform(object);
        }
    }

    /// Tells of what the store has by now. Whoever hears of it finds it there, and finds its version reached.
    fn tell(&mut self, delta: &Delta<T>) {
        if self.is_synced {
            self.publish();
        }
        count(&self.core.counts.deltas);
        self.core.metrics.event();
        for subscriber in &mut self.subscribers {
            tell(&self.core, subscriber, delta);
        }
    }

    /// Shows others how far it is.
    fn publish(&self) {
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

fn tell<T: Object>(core: &Core<T>, subscriber: &mut Subscriber<T>, delta: &Delta<T>) {
    if !subscriber.tell(delta) {
        count(&core.counts.panics);
        tracing::error!(informer = core.name, key = %delta.object().key(), "a handler panicked");
    }
}
