//! Sources: what adds keys to the queue of a controller.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{KeyFilter, Predicate};
use crate::{
    Key,
    informer::{Delta, EventHandlerRegistration, Informer},
    object::Object,
    workqueue::WorkQueue,
};

/// Adds keys to the queue of a controller. The usual sources are informers: see [`object_source`], [`owner_source`] and
/// [`mapped_source`].
pub trait Source: Send + Sync + 'static {
    /// Starts adding keys. Dropping the returned value stops it.
    fn start(&self, enqueuer: Enqueuer) -> Box<dyn RunningSource>;
}

/// A started [`Source`]. Dropping it stops the source.
pub trait RunningSource: Send + Sync {
    /// Waits until the keys of all initial objects have been added.
    fn wait_for_sync(&self) -> BoxFuture<'_, ()>;

    /// Why the source has not synced, if that is known.
    fn sync_error(&self) -> Option<String> {
        None
    }
}

/// Identifies a source of a controller; see [`ControllerHandle::remove_source`](super::ControllerHandle::remove_source).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub(super) u64);

/// Adds keys to the queue of a controller, subject to its filter. Clones add to the same queue.
#[derive(Clone)]
pub struct Enqueuer {
    queue: WorkQueue<Key>,
    settings: Arc<EnqueueSettings>,
}

#[derive(Clone)]
pub(super) struct EnqueueSettings {
    pub(super) filter: Option<KeyFilter>,
    /// Checks the labels of a key whose object the source does not have at hand.
    pub(super) label_filter: Option<LabelFilter>,
    pub(super) initial_list_priority: i32,
    /// Whether the reconciled objects are cluster-scoped.
    pub(super) is_cluster_scoped: bool,
}

pub(super) type LabelFilter = Arc<dyn Fn(&Key, &KeyFilter) -> bool + Send + Sync>;

/// The changes of an informer as a source; see [`object_source`], [`owner_source`] and [`mapped_source`].
pub struct InformerSource<T> {
    informer: Informer<T>,
    predicate: Option<Predicate<T>>,
    enqueue: EnqueueFn<T>,
}

/// Adds the keys that a change concerns.
type EnqueueFn<T> = Arc<dyn Fn(&Delta<T>, &Enqueuer) + Send + Sync>;

/// Adds the key of the changed object: controller-runtime's `EnqueueRequestForObject`.
#[doc(alias = "EnqueueRequestForObject")]
pub fn object_source<T: Object>(informer: &Informer<T>) -> InformerSource<T> {
    InformerSource::new(informer, |delta, enqueuer| {
        let object = delta.object();
        let priority = enqueuer.priority(delta);
        let key = object.key();
        let admits = |filter: &KeyFilter| {
            // The old state counts too: an object that leaves the filter may need a last reconcile to clean up.
            let mut states = delta.old().into_iter().chain([object]);
            states.any(|state| filter.admits(&key, |name| state.label(name)))
        };
        if enqueuer.settings.filter.as_ref().is_none_or(admits) {
            enqueuer.queue.add_with_priority(key, priority);
        }
    })
}

/// Adds the key of the owner that controls the changed object, if the owner is of this kind: `ReplicaSet`, or `apps/ReplicaSet` to
/// require a group. If the owner has changed, both owners are added. Controller-runtime's `EnqueueRequestForOwner`.
#[doc(alias = "EnqueueRequestForOwner")]
pub fn owner_source<T: Object>(informer: &Informer<T>, kind: &str) -> InformerSource<T> {
    let (group, kind) = match kind.rsplit_once('/') {
        Some((group, kind)) => (Some(group.to_owned()), kind.to_owned()),
        None => (None, kind.to_owned()),
    };
    InformerSource::new(informer, move |delta, enqueuer| {
        let owner_of = |object: &T| {
            let owner = object.controller()?;
            let owner_group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            let is_match = owner.kind == kind && group.as_ref().is_none_or(|group| group == owner_group);
            is_match.then(|| enqueuer.owner_key(object.namespace(), owner.name))
        };
        let priority = enqueuer.priority(delta);
        let new = owner_of(delta.object());
        let old = delta.old().and_then(|old| owner_of(old));
        let old = old.filter(|old| new.as_ref() != Some(old));
        for key in new.into_iter().chain(old) {
            enqueuer.add_with_priority(key, priority);
        }
    })
}

/// Adds the keys that a function returns for a change: controller-runtime's `EnqueueRequestsFromMapFunc`.
#[doc(alias = "EnqueueRequestsFromMapFunc")]
pub fn mapped_source<T: Object>(
    informer: &Informer<T>,
    map: impl Fn(&Delta<T>) -> Vec<Key> + Send + Sync + 'static,
) -> InformerSource<T> {
    InformerSource::new(informer, move |delta, enqueuer| {
        for key in map(delta) {
            enqueuer.add_with_priority(key, enqueuer.priority(delta));
        }
    })
}

// --- Enqueuer ---

impl Enqueuer {
    pub(super) fn new(queue: WorkQueue<Key>, settings: Arc<EnqueueSettings>) -> Self {
        Enqueuer { queue, settings }
    }

    /// Adds a key with priority 0, that of a live change.
    pub fn add(&self, key: Key) {
        self.add_with_priority(key, 0);
    }

    /// Adds a key with a priority.
    pub fn add_with_priority(&self, key: Key, priority: i32) {
        if self.admits(&key) {
            self.queue.add_with_priority(key, priority);
        }
    }

    fn admits(&self, key: &Key) -> bool {
        let Some(filter) = &self.settings.filter else {
            return true;
        };
        match &self.settings.label_filter {
            Some(label_filter) if filter.has_labels() => label_filter(key, filter),
            _ => filter.admits_name(key),
        }
    }

    /// Changes that bring no new state have a lower priority than live changes.
    fn priority<T: Object>(&self, delta: &Delta<T>) -> i32 {
        let is_low = match delta {
            Delta::Added { initial, .. } => *initial,
            Delta::Replaced { old, new } => old.resource_version() == new.resource_version(),
            Delta::Sync { .. } => true,
            Delta::Updated { .. } | Delta::Deleted { .. } => false,
        };
        if is_low {
            self.settings.initial_list_priority
        } else {
            0
        }
    }

    /// The key of an owner with this name of an object in this namespace.
    fn owner_key(&self, namespace: &str, name: &str) -> Key {
        Key::new(
            if self.settings.is_cluster_scoped {
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
    fn new(informer: &Informer<T>, enqueue: impl Fn(&Delta<T>, &Enqueuer) + Send + Sync + 'static) -> Self {
        InformerSource {
            informer: informer.clone(),
            predicate: None,
            enqueue: Arc::new(enqueue),
        }
    }

    /// Adds a predicate. All predicates of a source must pass.
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
    fn start(&self, enqueuer: Enqueuer) -> Box<dyn RunningSource> {
        let predicate = self.predicate.clone();
        let enqueue = Arc::clone(&self.enqueue);
        let registration = self.informer.add_event_handler(move |delta| {
            if predicate
                .as_ref()
                .is_none_or(|predicate| predicate.matches(delta))
            {
                enqueue(delta, &enqueuer);
            }
        });
        Box::new(RunningInformerSource {
            registration,
            informer: self.informer.clone(),
        })
    }
}

struct RunningInformerSource<T: Object> {
    registration: EventHandlerRegistration,
    informer: Informer<T>,
}

impl<T: Object> RunningSource for RunningInformerSource<T> {
    fn wait_for_sync(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.registration.wait_for_sync())
    }

    fn sync_error(&self) -> Option<String> {
        Some(format!("{:?}", self.informer.health()))
    }
}
