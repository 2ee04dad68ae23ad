//! A controller that can be run.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use tokio::{task::JoinSet, time::timeout};

use super::{
    Controller, ControllerHandle, Reconciler, RunningSource, Source, SourceId,
    builder::Settings,
    error_report::LastErrors,
    own_writes::OwnWrites,
    source::{Enqueuer, KeySettings},
    worker::Worker,
};
use crate::{
    Key,
    manager::{BoxError, Runnable, Stop},
    workqueue::WorkQueue,
};

/// A controller with its reconciler; made by [`Controller::reconciler`]. It may be run again after it was stopped.
pub struct ControllerRunner<R> {
    shared: Arc<Shared>,
    reconciler: Arc<R>,
}

/// What a run of a controller, its handles and its workers know.
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) settings: Settings,
    keys: Arc<KeySettings>,
    state: Mutex<State>,
    is_synced: AtomicBool,
    pub(super) errors: LastErrors,
    pub(super) written: Arc<OwnWrites>,
}

struct State {
    /// The queue of this run, or of the next one.
    queue: WorkQueue<Key>,
    sources: BTreeMap<SourceId, RegisteredSource>,
    next: u64,
    is_running: bool,
}

struct RegisteredSource {
    source: Arc<dyn Source>,
    /// There while the controller runs.
    started: Option<Arc<dyn RunningSource>>,
}

/// A controller did not begin, for it does not know yet what there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "controller {controller} did not begin: what it watches is not known after {limit:?}{}",
    because(trouble)
)]
pub struct CacheSyncTimeout {
    controller: String,
    limit: Duration,
    trouble: Vec<String>,
}

// --- ControllerRunner ---

impl<R: Reconciler> ControllerRunner<R> {
    pub(super) fn new(controller: Controller, reconciler: R) -> Self {
        let queue = WorkQueue::new(controller.settings.queue.clone());
        let (mut sources, mut next) = (BTreeMap::new(), 0);
        for source in controller.sources {
            let started = None;
            sources.insert(SourceId(next), RegisteredSource { source, started });
            next += 1;
        }
        let shared = Shared {
            name: controller.name,
            settings: controller.settings,
            keys: Arc::new(controller.keys),
            state: Mutex::new(State {
                queue,
                sources,
                next,
                is_running: false,
            }),
            is_synced: AtomicBool::new(false),
            errors: LastErrors::default(),
            written: Arc::default(),
        };
        ControllerRunner {
            shared: Arc::new(shared),
            reconciler: Arc::new(reconciler),
        }
    }

    /// A handle to look at it, and to change what it watches, while it runs.
    pub fn handle(&self) -> ControllerHandle {
        ControllerHandle::new(Arc::clone(&self.shared))
    }

    /// Runs it until it is stopped: waits until its sources are synced, works, and at the end works off what is ready until
    /// the deadline of `stop`.
    pub async fn run(&self, stop: Stop) -> Result<(), BoxError> {
        let run = Run::begin(&self.shared);
        let Some(synced) = stop.unless_stopped(self.shared.synced_in_time()).await else {
            return Ok(());
        };
        synced?;
        self.shared.is_synced.store(true, Ordering::Release);
        let mut workers = self.start_workers(&run.queue);
        tokio::select! {
            () = stop.stopped() => {}
            // A worker survives its reconciles; that it is gone means that something else is broken.
            Some(Err(error)) = workers.join_next() => return Err(error.into()),
        }
        self.shared.unsubscribe();
        run.queue.close();
        let all_done = async { while workers.join_next().await.is_some() {} };
        if stop.until_expired(all_done).await.is_none() {
            let left = run.queue.stats();
            tracing::warn!(
                controller = self.shared.name,
                running = left.running,
                ready = left.depth,
                "stopped in the middle of work: there was no time left"
            );
            workers.shutdown().await;
        }
        Ok(())
    }

    fn start_workers(&self, queue: &WorkQueue<Key>) -> JoinSet<()> {
        let count = self.shared.settings.workers.get();
        let metrics = self.shared.settings.metrics.controller(&self.shared.name);
        metrics.may_run(count);
        let mut workers = JoinSet::new();
        for number in 0..count {
            let worker = Worker {
                counts: metrics.worker(number),
                metrics: Arc::clone(&metrics),
                queue: queue.clone(),
                shared: Arc::clone(&self.shared),
                reconciler: Arc::clone(&self.reconciler),
            };
            // Boxed: tasks of one type are compiled once, not for each reconciler.
            let work: BoxFuture<'static, ()> = Box::pin(worker.work());
            workers.spawn(work);
        }
        workers
    }
}

impl<R: Reconciler> Runnable for ControllerRunner<R> {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn leader_only(&self) -> bool {
        !self.shared.settings.everywhere
    }

    fn is_ready(&self) -> bool {
        self.shared.is_synced.load(Ordering::Acquire)
    }

    fn handle(&self) -> Option<ControllerHandle> {
        Some(ControllerRunner::handle(self))
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(ControllerRunner::run(self, stop))
    }
}

impl<R> fmt::Debug for ControllerRunner<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerRunner")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

// --- Run ---

/// A run: sources are subscribed to and the queue is open, until it is dropped. So a run that is dropped half done leaves
/// nothing behind either.
struct Run<'r> {
    shared: &'r Shared,
    queue: WorkQueue<Key>,
}

impl<'r> Run<'r> {
    fn begin(shared: &'r Shared) -> Self {
        let mut state = shared.state();
        if state.queue.is_closed() {
            state.queue = WorkQueue::new(shared.settings.queue.clone());
        }
        let queue = state.queue.clone();
        state.is_running = true;
        let keys = Enqueuer::new(queue.clone(), Arc::clone(&shared.keys));
        for watched in state.sources.values_mut() {
            watched.started = Some(Arc::from(watched.source.start(keys.clone())));
        }
        shared.settings.metrics.register_workqueue(&shared.name, &queue);
        Run { shared, queue }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.shared.unsubscribe();
        self.queue.close();
    }
}

// --- Shared ---

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue(&self) -> WorkQueue<Key> {
        self.state().queue.clone()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Acquire)
    }

    pub(super) fn add_source(&self, source: Arc<dyn Source>) -> SourceId {
        let mut state = self.state();
        let id = SourceId(state.next);
        state.next += 1;
        let keys = Enqueuer::new(state.queue.clone(), Arc::clone(&self.keys));
        let started = state.is_running.then(|| Arc::from(source.start(keys)));
        state.sources.insert(id, RegisteredSource { source, started });
        id
    }

    pub(super) fn remove_source(&self, id: SourceId) -> bool {
        // Dropped after the lock is given back: a source may have something to do at its end.
        let removed = self.state().sources.remove(&id);
        removed.is_some()
    }

    /// Says that a key has failed so often that somebody should know.
    pub(super) fn report(&self, key: &Key, failures: u32, message: &str) {
        tracing::error!(controller = self.name, %key, failures, error = message, "a key fails again and again");
        if let Some(reporter) = &self.settings.reporter {
            let uid = self.settings.uid_of.as_ref().and_then(|uid_of| uid_of(key));
            reporter.stuck(key, uid, failures, message);
        }
    }

    /// Waits until all sources are.
    pub(super) async fn synced(&self) {
        let started = self.started();
        join_all(started.iter().map(|started| started.wait_for_sync())).await;
    }

    async fn synced_in_time(&self) -> Result<(), CacheSyncTimeout> {
        let limit = self.settings.cache_sync_timeout;
        if timeout(limit, self.synced()).await.is_ok() {
            return Ok(());
        }
        let trouble = self.started();
        Err(CacheSyncTimeout {
            controller: self.name.clone(),
            limit,
            trouble: trouble
                .iter()
                .filter_map(|started| started.sync_error())
                .collect(),
        })
    }

    fn started(&self) -> Vec<Arc<dyn RunningSource>> {
        let state = self.state();
        let started = state
            .sources
            .values()
            .filter_map(|watched| watched.started.clone());
        started.collect()
    }

    fn unsubscribe(&self) {
        self.is_synced.store(false, Ordering::Release);
        let mut state = self.state();
        state.is_running = false;
        let ended: Vec<_> = state
            .sources
            .values_mut()
            .map(|watched| watched.started.take())
            .collect();
        drop(state);
        drop(ended);
    }
}

fn because(trouble: &[String]) -> String {
    if trouble.is_empty() {
        return String::new();
    }
    format!(": {}", trouble.join("; "))
}
