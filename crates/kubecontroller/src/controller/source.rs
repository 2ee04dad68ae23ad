//! Where keys come from.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{KeyFilter, Predicate};
use crate::{
    Key,
    informer::{Delta, EventHandlerRegistration, Informer},
    object::Object,
    workqueue::WorkQueue,
};

/// Where keys come from. Informers are the usual sources: see [`object_source`], [`owner_source`] and [`mapped_source`].
pub trait Source: Send + Sync + 'static {
    /// Begins to add keys. Dropping what it gives ends that.
    fn start(&self, keys: Enqueuer) -> Box<dyn RunningSource>;
}

/// A source that adds keys, until it is dropped.
pub trait RunningSource: Send + Sync {
    /// Waits until the keys of everything that was there at the beginning have been added.
    fn wait_for_sync(&self) -> BoxFuture<'_, ()>;

    /// What is waited for, and why it does not come, if that is known.
    fn sync_error(&self) -> Option<String> {
        None
    }
}

/// A source of a controller, to be removed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub(super) u64);

/// Takes the keys of a source. Clones are the same.
#[derive(Clone)]
pub struct Enqueuer {
    queue: WorkQueue<Key>,
    settings: Arc<KeySettings>,
}

/// What is done with keys before they are in the queue.
#[derive(Clone)]
pub(super) struct KeySettings {
    pub(super) filter: Option<KeyFilter>,
    /// Whether the labels of an object are those that the filter wants; for keys whose object is not at hand.
    pub(super) labels_match: Option<LabelsMatch>,
    /// The priority of what was there before.
    pub(super) initial: i32,
    /// Whether the objects of the controller are in no namespace.
    pub(super) is_cluster_wide: bool,
}

pub(super) type LabelsMatch = Arc<dyn Fn(&Key, &KeyFilter) -> bool + Send + Sync>;

/// The changes of an informer as a source of keys; made by [`object_source`], [`owner_source`] and [`mapped_source`].
pub struct InformerSource<T> {
    informer: Informer<T>,
    predicate: Option<Predicate<T>>,
    keys: KeysOf<T>,
}

/// Which keys a change is about.
type KeysOf<T> = Arc<dyn Fn(&Delta<T>, &Enqueuer) + Send + Sync>;

/// The keys of the objects themselves.
pub fn object_source<T: Object>(informer: &Informer<T>) -> InformerSource<T> {
    InformerSource::new(informer, |delta, keys| {
        let (object, priority) = (delta.object(), keys.priority(delta));
        let key = object.key();
        let admits = |filter: &KeyFilter| {
            // Also what the change took out of the filter's reach: there may be something to clean up.
            let mut states = delta.old().into_iter().chain([object]);
            states.any(|state| filter.admits(&key, |name| state.label(name)))
        };
        if keys.settings.filter.as_ref().is_none_or(admits) {
            keys.queue.add_with_priority(key, priority);
        }
    })
}

/// The keys of the owners that control the object_source, if they are of that kind: `ReplicaSet`, or `apps/ReplicaSet` where the
/// group matters. If the owner changes, both are meant.
pub fn owner_source<T: Object>(informer: &Informer<T>, kind: &str) -> InformerSource<T> {
    let (group, kind) = match kind.rsplit_once('/') {
        Some((group, kind)) => (Some(group.to_owned()), kind.to_owned()),
        None => (None, kind.to_owned()),
    };
    InformerSource::new(informer, move |delta, keys| {
        let owner_of = |object: &T| {
            let owner = object.controller()?;
            let owner_group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            let is_meant = owner.kind == kind && group.as_ref().is_none_or(|group| group == owner_group);
            is_meant.then(|| keys.own(object.namespace(), owner.name))
        };
        let priority = keys.priority(delta);
        let new = owner_of(delta.object());
        let old = delta.old().and_then(|old| owner_of(old));
        let old = old.filter(|old| new.as_ref() != Some(old));
        for key in new.into_iter().chain(old) {
            keys.add_with_priority(key, priority);
        }
    })
}

/// The keys that a function gives for a change.
pub fn mapped_source<T: Object>(
    informer: &Informer<T>,
    keys_of: impl Fn(&Delta<T>) -> Vec<Key> + Send + Sync + 'static,
) -> InformerSource<T> {
    InformerSource::new(informer, move |delta, keys| {
        for key in keys_of(delta) {
            keys.add_with_priority(key, keys.priority(delta));
        }
    })
}

// --- Enqueuer ---

impl Enqueuer {
    pub(super) fn new(queue: WorkQueue<Key>, settings: Arc<KeySettings>) -> Self {
        Enqueuer { queue, settings }
    }

    /// Something happened to an object.
    pub fn add(&self, key: Key) {
        self.add_with_priority(key, 0);
    }

    /// The same with a priority; 0 is the ordinary one.
    pub fn add_with_priority(&self, key: Key, priority: i32) {
        if self.admits(&key) {
            self.queue.add_with_priority(key, priority);
        }
    }

    fn admits(&self, key: &Key) -> bool {
        let Some(filter) = &self.settings.filter else {
            return true;
        };
        match &self.settings.labels_match {
            Some(labels_match) if filter.has_labels() => labels_match(key, filter),
            _ => filter.admits_name(key),
        }
    }

    /// What was there before is less urgent than what happens.
    fn priority<T: Object>(&self, delta: &Delta<T>) -> i32 {
        let is_old = match delta {
            Delta::Added { initial, .. } => *initial,
            Delta::Replaced { old, new } => old.resource_version() == new.resource_version(),
            Delta::Sync { .. } => true,
            Delta::Updated { .. } | Delta::Deleted { .. } => false,
        };
        if is_old { self.settings.initial } else { 0 }
    }

    /// The key of an object of this controller that an object in a namespace speaks of.
    fn own(&self, namespace: &str, name: &str) -> Key {
        Key::new(
            if self.settings.is_cluster_wide {
                ""
            } else {
                namespace
            },
            name,
        )
    }
}

// --- InformerSource ---

impl<T: Object> InformerSource<T> {
    fn new(informer: &Informer<T>, keys: impl Fn(&Delta<T>, &Enqueuer) + Send + Sync + 'static) -> Self {
        InformerSource {
            informer: informer.clone(),
            predicate: None,
            keys: Arc::new(keys),
        }
    }

    /// Only changes that matter.
    #[must_use]
    pub fn with_predicate(mut self, predicate: impl Into<Predicate<T>>) -> Self {
        let predicate = predicate.into();
        self.predicate = Some(match self.predicate {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }
}

impl<T: Object> Source for InformerSource<T> {
    fn start(&self, keys: Enqueuer) -> Box<dyn RunningSource> {
        let (predicate, keys_of) = (self.predicate.clone(), Arc::clone(&self.keys));
        let subscription = self.informer.add_event_handler(move |delta| {
            if predicate.as_ref().is_none_or(|predicate| predicate.holds(delta)) {
                keys_of(delta, &keys);
            }
        });
        Box::new(RunningInformerSource {
            subscription,
            informer: self.informer.clone(),
        })
    }
}

struct RunningInformerSource<T: Object> {
    subscription: EventHandlerRegistration,
    informer: Informer<T>,
}

impl<T: Object> RunningSource for RunningInformerSource<T> {
    fn wait_for_sync(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.subscription.wait_for_sync())
    }

    fn sync_error(&self) -> Option<String> {
        Some(format!("{:?}", self.informer.health()))
    }
}
