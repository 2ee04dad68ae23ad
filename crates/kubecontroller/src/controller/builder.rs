//! How a controller is described.

use std::{hash::BuildHasher, num::NonZeroUsize, sync::Arc, thread::available_parallelism, time::Duration};

use hashbrown::DefaultHashBuilder;
use kube::{Resource, core::ApiResource};

use super::{
    ControllerRunner, KeyFilter, Predicate, Reconciler, Source,
    error_report::{Reporter, UidOf},
    mapped_source, object_source, owner_source,
    rate_limit::Pace,
    source::{KeySettings, LabelsMatch},
};
use crate::{
    Clock, Key,
    events::EventRecorder,
    informer::{Delta, Informer},
    metrics::Metrics,
    object::Object,
    workqueue,
};

/// What was there before the controller is this urgent: less than anything that happens.
const INITIAL_PRIORITY: i32 = -100;
/// For how long the first workers wait for informers.
const SYNC_LIMIT: Duration = Duration::from_mins(2);
/// More workers than this have to be asked for.
const MOST_WORKERS: usize = 4;

/// Describes a controller: where its keys come from and how they are worked on. See the [module](crate::controller) for an example.
#[must_use = "a controller does nothing until it has a reconciler and is run"]
pub struct Controller {
    pub(super) name: String,
    pub(super) sources: Vec<Arc<dyn Source>>,
    pub(super) keys: KeySettings,
    pub(super) settings: Settings,
}

pub(super) struct Settings {
    pub(super) workers: NonZeroUsize,
    pub(super) timeout: Option<Duration>,
    pub(super) pace: Option<Pace>,
    pub(super) cache_sync_timeout: Duration,
    pub(super) queue: workqueue::WorkQueueOptions<Key>,
    pub(super) metrics: Metrics,
    pub(super) clock: Clock,
    pub(super) everywhere: bool,
    pub(super) reporter: Option<Reporter>,
    pub(super) uid_of: Option<UidOf>,
}

// --- Controller ---

impl Controller {
    /// A controller of that name: in the log, in figures, in events, and where controllers are switched on and off.
    pub fn new(name: &str) -> Self {
        let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let most = NonZeroUsize::new(MOST_WORKERS).unwrap_or(NonZeroUsize::MIN);
        Controller {
            name: name.to_owned(),
            sources: Vec::new(),
            keys: KeySettings {
                filter: None,
                labels_match: None,
                initial: INITIAL_PRIORITY,
                is_cluster_wide: false,
            },
            settings: Settings {
                workers: cores.min(most),
                timeout: None,
                pace: None,
                cache_sync_timeout: SYNC_LIMIT,
                queue: queue_options(),
                metrics: Metrics::default(),
                clock: Clock::system(),
                everywhere: false,
                reporter: None,
                uid_of: None,
            },
        }
    }

    /// Reconciles the objects of an informer.
    pub fn for_<T: Object>(self, informer: &Informer<T>) -> Self {
        self.knows(informer).source(object_source(informer))
    }

    /// The same for changes that matter.
    pub fn for_where<T: Object>(self, informer: &Informer<T>, predicate: impl Into<Predicate<T>>) -> Self {
        self.knows(informer)
            .source(object_source(informer).with_predicate(predicate))
    }

    /// Reconciles the owner of that kind that controls an object, when something happens to the object. The kind may be
    /// written with its group, as in `apps/ReplicaSet`.
    pub fn owns<T: Object>(self, informer: &Informer<T>, kind: &str) -> Self {
        self.source(owner_source(informer, kind))
    }

    /// The same for changes that matter.
    pub fn owns_where<T: Object>(
        self,
        informer: &Informer<T>,
        kind: &str,
        predicate: impl Into<Predicate<T>>,
    ) -> Self {
        self.source(owner_source(informer, kind).with_predicate(predicate))
    }

    /// Reconciles whatever a function says is concerned by a change. It runs where the informer runs: it must not take long.
    pub fn watches<T: Object>(
        self,
        informer: &Informer<T>,
        keys_of: impl Fn(&Delta<T>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.source(mapped_source(informer, keys_of))
    }

    /// The same for changes that matter.
    pub fn watches_where<T: Object>(
        self,
        informer: &Informer<T>,
        predicate: impl Into<Predicate<T>>,
        keys_of: impl Fn(&Delta<T>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.source(mapped_source(informer, keys_of).with_predicate(predicate))
    }

    /// Reconciles the keys of a source.
    pub fn source(mut self, source: impl Source) -> Self {
        self.sources.push(Arc::new(source));
        self
    }

    /// The objects are in no namespace. Needed where they own objects that are in one.
    pub fn cluster_scoped(mut self) -> Self {
        self.keys.is_cluster_wide = true;
        self
    }

    /// Reconciles only what the filter lets pass.
    pub fn filter(mut self, filter: KeyFilter) -> Self {
        self.keys.filter = Some(filter);
        self
    }

    /// How many reconciles may go on at once. By default as many as there are cores, and no more than 4: each may be a call of
    /// the API, and after an outage all objects want one.
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN);
        self
    }

    /// How long a reconcile may take before it is dropped, which counts as a failure. By default as long as it takes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// How many reconciles there are per second at most, retries or not; a second's worth of them may come at once. By
    /// default as many as there are. A rate that is not more than nothing is no limit.
    pub fn rate(mut self, per_second: f64) -> Self {
        self.settings.pace = (per_second > 0.0).then(|| Pace::new(per_second));
        self
    }

    /// After how many retries a key that fails is given up, until something happens to it. By default never: what should be
    /// still should be.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.settings.queue.max_retries = Some(retries);
        self
    }

    /// Waits until the changes of an object have come to rest for so long, but no longer than `longest` after the first one.
    pub fn debounce(mut self, quiet: Duration, longest: Duration) -> Self {
        self.settings.queue.debounce = Some(workqueue::Debounce { quiet, longest });
        self
    }

    /// Changes the settings of the queue: back-off, bucket, lanes. By default each namespace is a lane.
    pub fn queue(
        mut self,
        change: impl FnOnce(workqueue::WorkQueueOptions<Key>) -> workqueue::WorkQueueOptions<Key>,
    ) -> Self {
        self.settings.queue = change(self.settings.queue);
        self
    }

    /// Tells users by an event when an object, which is a `K`, has failed five times in a row.
    pub fn recorder<K: Resource<DynamicType = ()>>(self, recorder: &EventRecorder) -> Self {
        self.recorder_for(&ApiResource::erase::<K>(&()), recorder)
    }

    /// The same for objects whose kind is not a type.
    pub fn recorder_for(mut self, kind: &ApiResource, recorder: &EventRecorder) -> Self {
        self.settings.reporter = Some(Reporter {
            recorder: recorder.clone(),
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
        });
        self
    }

    /// Where figures are kept.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.settings.metrics = metrics.clone();
        self
    }

    /// The clock by which errors are dated.
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.settings.clock = clock.clone();
        self
    }

    /// How urgent it is what was there before; -100 by default. What happens has priority 0.
    pub fn initial_list_priority(mut self, priority: i32) -> Self {
        self.keys.initial = priority;
        self
    }

    /// For how long a start waits for informers before it fails; 2 minutes by default.
    pub fn cache_sync_timeout(mut self, limit: Duration) -> Self {
        self.settings.cache_sync_timeout = limit;
        self
    }

    /// It runs whether this process leads or not.
    pub fn without_leader_election(mut self) -> Self {
        self.settings.everywhere = true;
        self
    }

    /// What is run for a key. Gives something to run.
    pub fn reconciler<R: Reconciler>(self, reconciler: R) -> ControllerRunner<R> {
        ControllerRunner::new(self, reconciler)
    }

    /// Enqueuer that other sources speak of are filtered by the labels of their object, and events are about it.
    fn knows<T: Object>(mut self, informer: &Informer<T>) -> Self {
        let store = informer.store().clone();
        let labels_match: LabelsMatch = Arc::new(move |key, filter| {
            let object = store.get(key);
            filter.admits(key, |name| object.as_ref().and_then(|object| object.label(name)))
        });
        self.keys.labels_match = Some(labels_match);
        let store = informer.store().clone();
        self.settings.uid_of = Some(Arc::new(move |key| {
            store.get(key).map(|object| object.uid().to_owned())
        }));
        self
    }
}

/// A queue in which namespaces take turns.
fn queue_options() -> workqueue::WorkQueueOptions<Key> {
    let hasher = DefaultHashBuilder::default();
    workqueue::WorkQueueOptions {
        // Not by `lanes_by`, which would copy the namespace.
        lane: Arc::new(move |key: &Key| hasher.hash_one(key.namespace())),
        ..workqueue::WorkQueueOptions::default()
    }
}
