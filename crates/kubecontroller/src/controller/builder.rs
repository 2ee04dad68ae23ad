//! The builder of controllers.

use std::{hash::BuildHasher, num::NonZeroUsize, sync::Arc, thread::available_parallelism, time::Duration};

use hashbrown::DefaultHashBuilder;
use kube::{Resource, core::ApiResource};

use super::{
    ControllerRunner, KeyFilter, Predicate, Reconciler, Source,
    error_report::{FailureReporter, UidLookup},
    mapped_source, object_source, owner_source,
    rate_limit::ReconcileRateLimiter,
    source::{EnqueueSettings, LabelFilter},
};
use crate::{
    Clock, Key,
    events::EventRecorder,
    informer::{Delta, Informer},
    metrics::Metrics,
    object::Object,
    workqueue,
};

/// The priority of objects that existed before the controller started: lower than that of live changes.
// The value is controller-runtime's handler.LowPriority.
const INITIAL_LIST_PRIORITY: i32 = -100;
const DEFAULT_CACHE_SYNC_TIMEOUT: Duration = Duration::from_mins(2);
/// The default number of workers does not grow beyond this with the number of cores.
const MAX_DEFAULT_WORKERS: usize = 4;

/// Builds a controller from its sources, its options and a reconciler. See the [module](crate::controller) for an example.
#[must_use = "a controller does nothing until it has a reconciler and is run"]
pub struct Controller {
    pub(super) name: String,
    pub(super) sources: Vec<Arc<dyn Source>>,
    pub(super) enqueue: EnqueueSettings,
    pub(super) options: ControllerOptions,
}

pub(super) struct ControllerOptions {
    pub(super) workers: NonZeroUsize,
    pub(super) timeout: Option<Duration>,
    pub(super) rate_limiter: Option<ReconcileRateLimiter>,
    pub(super) cache_sync_timeout: Duration,
    pub(super) queue: workqueue::WorkQueueOptions<Key>,
    pub(super) metrics: Metrics,
    pub(super) clock: Clock,
    pub(super) runs_without_leadership: bool,
    pub(super) reporter: Option<FailureReporter>,
    pub(super) uid_lookup: Option<UidLookup>,
}

// --- Controller ---

impl Controller {
    /// A controller with a name, which appears in logs, metrics and events, and which enables or disables it (`--controllers`).
    pub fn new(name: &str) -> Self {
        let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let max = NonZeroUsize::new(MAX_DEFAULT_WORKERS).unwrap_or(NonZeroUsize::MIN);
        Controller {
            name: name.to_owned(),
            sources: Vec::new(),
            enqueue: EnqueueSettings {
                filter: None,
                label_filter: None,
                initial_list_priority: INITIAL_LIST_PRIORITY,
                is_cluster_scoped: false,
            },
            options: ControllerOptions {
                workers: cores.min(max),
                timeout: None,
                rate_limiter: None,
                cache_sync_timeout: DEFAULT_CACHE_SYNC_TIMEOUT,
                queue: queue_options(),
                metrics: Metrics::default(),
                clock: Clock::system(),
                runs_without_leadership: false,
                reporter: None,
                uid_lookup: None,
            },
        }
    }

    /// Reconciles the objects of an informer: controller-runtime's `For`.
    #[doc(alias = "For")]
    pub fn for_<T: Object>(self, informer: &Informer<T>) -> Self {
        self.with_primary(informer).source(object_source(informer))
    }

    /// Like [`for_`](Self::for_), for changes that pass a predicate.
    pub fn for_where<T: Object>(self, informer: &Informer<T>, predicate: impl Into<Predicate<T>>) -> Self {
        self.with_primary(informer)
            .source(object_source(informer).with_predicate(predicate))
    }

    /// Reconciles the owner that controls a changed object, if the owner is of this kind: controller-runtime's `Owns`. The kind
    /// may be qualified with its group, as in `apps/ReplicaSet`.
    pub fn owns<T: Object>(self, informer: &Informer<T>, kind: &str) -> Self {
        self.source(owner_source(informer, kind))
    }

    /// Like [`owns`](Self::owns), for changes that pass a predicate.
    pub fn owns_where<T: Object>(
        self,
        informer: &Informer<T>,
        kind: &str,
        predicate: impl Into<Predicate<T>>,
    ) -> Self {
        self.source(owner_source(informer, kind).with_predicate(predicate))
    }

    /// Reconciles the keys that a function returns for a change: controller-runtime's `Watches` with
    /// `EnqueueRequestsFromMapFunc`. The function runs in the task of the informer and must not block.
    #[doc(alias = "EnqueueRequestsFromMapFunc")]
    pub fn watches<T: Object>(
        self,
        informer: &Informer<T>,
        map: impl Fn(&Delta<T>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.source(mapped_source(informer, map))
    }

    /// Like [`watches`](Self::watches), for changes that pass a predicate.
    pub fn watches_where<T: Object>(
        self,
        informer: &Informer<T>,
        predicate: impl Into<Predicate<T>>,
        map: impl Fn(&Delta<T>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.source(mapped_source(informer, map).with_predicate(predicate))
    }

    /// Reconciles the keys that a custom source adds: controller-runtime's `WatchesRawSource`.
    pub fn source(mut self, source: impl Source) -> Self {
        self.sources.push(Arc::new(source));
        self
    }

    /// The objects that the controller reconciles are cluster-scoped. Required if they own namespaced objects: otherwise
    /// [`owns`](Self::owns) looks for the owner in the namespace of the owned object.
    pub fn cluster_scoped(mut self) -> Self {
        self.enqueue.is_cluster_scoped = true;
        self
    }

    /// Reconciles only keys that pass a filter.
    pub fn filter(mut self, filter: KeyFilter) -> Self {
        self.enqueue.filter = Some(filter);
        self
    }

    /// How many reconciles may run at once: controller-runtime's `MaxConcurrentReconciles`. The default is the number of cores,
    /// at most 4: after an outage every object is reconciled, and each worker adds to the load of the API server.
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN);
        self
    }

    /// Aborts a reconcile that takes longer, which counts as a failure. The default is no timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Limits the rate of all reconciles, retries or not, with a burst of one second. The default is no limit; a rate of zero or
    /// less is no limit either.
    pub fn rate(mut self, per_second: f64) -> Self {
        self.options.rate_limiter = (per_second > 0.0).then(|| ReconcileRateLimiter::new(per_second));
        self
    }

    /// After how many retries a failing key is dropped until its object changes. The default is never: in a level-driven
    /// controller the desired state stays the desired state.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.options.queue.max_retries = Some(retries);
        self
    }

    /// Waits until an object has not changed for `quiet`, but at most `longest` after the first change.
    pub fn debounce(mut self, quiet: Duration, longest: Duration) -> Self {
        self.options.queue.debounce = Some(workqueue::Debounce { quiet, longest });
        self
    }

    /// Changes the options of the work queue: backoff, rate limit, lanes. By default each namespace is a lane.
    pub fn queue(
        mut self,
        change: impl FnOnce(workqueue::WorkQueueOptions<Key>) -> workqueue::WorkQueueOptions<Key>,
    ) -> Self {
        self.options.queue = change(self.options.queue);
        self
    }

    /// Records a Warning event for an object of kind `K` that failed five times in a row.
    pub fn recorder<K: Resource<DynamicType = ()>>(self, recorder: &EventRecorder) -> Self {
        self.recorder_for(&ApiResource::erase::<K>(&()), recorder)
    }

    /// Like [`recorder`](Self::recorder), for a kind that is known only at run time.
    pub fn recorder_for(mut self, kind: &ApiResource, recorder: &EventRecorder) -> Self {
        self.options.reporter = Some(FailureReporter {
            recorder: recorder.clone(),
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
        });
        self
    }

    /// Exports metrics of the controller.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.options.metrics = metrics.clone();
        self
    }

    /// The clock for the timestamps of errors.
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.options.clock = clock.clone();
        self
    }

    /// The priority of objects from the initial list, from relists without a change and from resyncs. The default is -100; live
    /// changes have priority 0.
    pub fn initial_list_priority(mut self, priority: i32) -> Self {
        self.enqueue.initial_list_priority = priority;
        self
    }

    /// How long the start waits for the informers before it fails with [`CacheSyncTimeout`](super::CacheSyncTimeout). The
    /// default is 2 minutes.
    pub fn cache_sync_timeout(mut self, limit: Duration) -> Self {
        self.options.cache_sync_timeout = limit;
        self
    }

    /// Runs the controller also in replicas that are not the leader: controller-runtime's `NeedLeaderElection: false`.
    pub fn without_leader_election(mut self) -> Self {
        self.options.runs_without_leadership = true;
        self
    }

    /// Completes the controller with its reconciler.
    pub fn reconciler<R: Reconciler>(self, reconciler: R) -> ControllerRunner<R> {
        ControllerRunner::new(self, reconciler)
    }

    /// Uses the informer of the reconciled objects to filter keys from other sources by labels, and to look up uids for events.
    fn with_primary<T: Object>(mut self, informer: &Informer<T>) -> Self {
        let store = informer.store().clone();
        let label_filter: LabelFilter = Arc::new(move |key, filter| {
            let object = store.get(key);
            filter.admits(key, |name| object.as_ref().and_then(|object| object.label(name)))
        });
        self.enqueue.label_filter = Some(label_filter);
        let store = informer.store().clone();
        self.options.uid_lookup = Some(Arc::new(move |key| {
            store.get(key).map(|object| object.uid().to_owned())
        }));
        self
    }
}

/// The default options of a controller's queue: namespaces take turns.
fn queue_options() -> workqueue::WorkQueueOptions<Key> {
    let hasher = DefaultHashBuilder::default();
    workqueue::WorkQueueOptions {
        // `lanes_by` would do, but it would clone the namespace for each key.
        lane: Arc::new(move |key: &Key| hasher.hash_one(key.namespace())),
        ..workqueue::WorkQueueOptions::default()
    }
}
