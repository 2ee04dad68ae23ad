//! Runs a controller.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use parking_lot::{Mutex, MutexGuard};
use tokio::{task::JoinSet, time::timeout};

use super::{
    Controller, ControllerHandle, Reconciler, RunningSource, Source, SourceId,
    builder::ControllerOptions,
    error_report::LastErrors,
    own_writes::OwnWrites,
    source::{EnqueueSettings, Enqueuer},
    worker::Worker,
};
use crate::{
    Key,
    manager::{BoxError, Runnable, Stop},
    workqueue::WorkQueue,
};

/// A controller with its reconciler, built by [`Controller::reconciler`]. It can be run again after it was stopped, as when
/// leadership is lost and regained.
pub struct ControllerRunner<R> {
    shared: Arc<ControllerShared>,
    reconciler: Arc<R>,
}

/// The state that the runner, its handles and its workers share.
pub(super) struct ControllerShared {
    pub(super) name: String,
    pub(super) options: ControllerOptions,
    enqueue: Arc<EnqueueSettings>,
    state: Mutex<RunnerState>,
    is_synced: AtomicBool,
    pub(super) errors: LastErrors,
    pub(super) own_writes: Arc<OwnWrites>,
}

struct RunnerState {
    /// The queue of the current run, or of the next one.
    queue: WorkQueue<Key>,
    sources: BTreeMap<SourceId, RegisteredSource>,
    next_source_id: u64,
    is_running: bool,
}

struct RegisteredSource {
    source: Arc<dyn Source>,
    /// Set while the controller is running.
    started: Option<Arc<dyn RunningSource>>,
}

/// A controller did not start because its informers did not sync in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "controller {controller} failed to start: its informers did not sync within {limit:?}{}",
    join_sync_errors(sync_errors)
)]
pub struct CacheSyncTimeout {
    controller: String,
    limit: Duration,
    sync_errors: Vec<String>,
}

// --- ControllerRunner ---

impl<R: Reconciler> ControllerRunner<R> {
    pub(super) fn new(controller: Controller, reconciler: R) -> Self {
        let queue = WorkQueue::new(controller.options.queue.clone());
        let mut sources = BTreeMap::new();
        let mut next_source_id = 0;
        for source in controller.sources {
            let started = None;
            sources.insert(SourceId(next_source_id), RegisteredSource { source, started });
            next_source_id += 1;
        }
        let shared = ControllerShared {
            name: controller.name,
            options: controller.options,
            enqueue: Arc::new(controller.enqueue),
            state: Mutex::new(RunnerState {
                queue,
                sources,
                next_source_id,
                is_running: false,
            }),
            is_synced: AtomicBool::new(false),
            errors: LastErrors::default(),
            own_writes: Arc::default(),
        };
        ControllerRunner {
            shared: Arc::new(shared),
            reconciler: Arc::new(reconciler),
        }
    }

    /// A handle to inspect the controller and to change its sources while it is running.
    pub fn handle(&self) -> ControllerHandle {
        ControllerHandle::new(Arc::clone(&self.shared))
    }

    /// Runs the controller until it is stopped: waits for its sources to sync, starts the workers, and on stop reconciles the keys
    /// that are ready, until the deadline of `stop`.
    pub async fn run(&self, stop: Stop) -> Result<(), BoxError> {
        let run = ControllerRun::start(&self.shared);
        let Some(synced) = stop.unless_stopped(self.shared.wait_for_sync_or_timeout()).await else {
            return Ok(());
        };
        synced?;
        self.shared.is_synced.store(true, Ordering::Release);
        let mut workers = self.start_workers(&run.queue);
        tokio::select! {
            () = stop.stopped() => {}
            // Workers catch the panics of reconcilers, so a worker that ends has hit a bug of the framework.
            Some(Err(error)) = workers.join_next() => return Err(error.into()),
        }
        self.shared.stop_sources();
        run.queue.close();
        let drained = async { while workers.join_next().await.is_some() {} };
        if stop.until_expired(drained).await.is_none() {
            let left = run.queue.stats();
            tracing::warn!(
                controller = self.shared.name,
                running = left.running,
                ready = left.depth,
                "graceful shutdown timed out, aborting reconciles"
            );
            workers.shutdown().await;
        }
        Ok(())
    }

    fn start_workers(&self, queue: &WorkQueue<Key>) -> JoinSet<()> {
        let count = self.shared.options.workers.get();
        let metrics = self.shared.options.metrics.controller(&self.shared.name);
        metrics.set_max_concurrent(count);
        let mut workers = JoinSet::new();
        for number in 0..count {
            let worker = Worker {
                counts: metrics.worker(number),
                metrics: Arc::clone(&metrics),
                queue: queue.clone(),
                shared: Arc::clone(&self.shared),
                reconciler: Arc::clone(&self.reconciler),
            };
            // Boxed, so that the task is compiled once and not for each reconciler.
            let worker: BoxFuture<'static, ()> = Box::pin(worker.run());
            workers.spawn(worker);
        }
        workers
    }
}

impl<R: Reconciler> Runnable for ControllerRunner<R> {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn leader_only(&self) -> bool {
        !self.shared.options.runs_without_leadership
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

// --- ControllerRun ---

/// A run of a controller: its sources are started and its queue is open. Dropping it ends both, so that a run whose future is
/// dropped leaves nothing behind either.
struct ControllerRun<'r> {
    shared: &'r ControllerShared,
    queue: WorkQueue<Key>,
}

impl<'r> ControllerRun<'r> {
    fn start(shared: &'r ControllerShared) -> Self {
        let mut state = shared.state();
        if state.queue.is_closed() {
            state.queue = WorkQueue::new(shared.options.queue.clone());
        }
        let queue = state.queue.clone();
        state.is_running = true;
        let enqueuer = Enqueuer::new(queue.clone(), Arc::clone(&shared.enqueue));
        for registered in state.sources.values_mut() {
            registered.started = Some(Arc::from(registered.source.start(enqueuer.clone())));
        }
        shared.options.metrics.register_workqueue(&shared.name, &queue);
        ControllerRun { shared, queue }
    }
}

impl Drop for ControllerRun<'_> {
    fn drop(&mut self) {
        self.shared.stop_sources();
        self.queue.close();
    }
}

// --- ControllerShared ---

impl ControllerShared {
    fn state(&self) -> MutexGuard<'_, RunnerState> {
        self.state.lock()
    }

    pub(super) fn queue(&self) -> WorkQueue<Key> {
        self.state().queue.clone()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Acquire)
    }

    pub(super) fn add_source(&self, source: Arc<dyn Source>) -> SourceId {
        let mut state = self.state();
        let id = SourceId(state.next_source_id);
        state.next_source_id += 1;
        let enqueuer = Enqueuer::new(state.queue.clone(), Arc::clone(&self.enqueue));
        let started = state.is_running.then(|| Arc::from(source.start(enqueuer)));
        state.sources.insert(id, RegisteredSource { source, started });
        id
    }

    pub(super) fn remove_source(&self, id: SourceId) -> bool {
        // Bound to a variable, so that the source is dropped after the lock is released: its `drop` is foreign code.
        let removed = self.state().sources.remove(&id);
        removed.is_some()
    }

    /// Reports a key that has failed several times in a row.
    pub(super) fn report_repeated_failure(&self, key: &Key, failures: u32, message: &str) {
        tracing::error!(controller = self.name, %key, failures, error = message, "reconcile keeps failing");
        if let Some(reporter) = &self.options.reporter {
            let uid = self
                .options
                .uid_lookup
                .as_ref()
                .and_then(|uid_lookup| uid_lookup(key));
            reporter.report(key, uid, failures, message);
        }
    }

    /// Waits until all sources have synced.
    pub(super) async fn wait_for_sync(&self) {
        let started = self.started_sources();
        join_all(started.iter().map(|started| started.wait_for_sync())).await;
    }

    async fn wait_for_sync_or_timeout(&self) -> Result<(), CacheSyncTimeout> {
        let limit = self.options.cache_sync_timeout;
        if timeout(limit, self.wait_for_sync()).await.is_ok() {
            return Ok(());
        }
        let started = self.started_sources();
        Err(CacheSyncTimeout {
            controller: self.name.clone(),
            limit,
            sync_errors: started
                .iter()
                .filter_map(|started| started.sync_error())
                .collect(),
        })
    }

    fn started_sources(&self) -> Vec<Arc<dyn RunningSource>> {
        let state = self.state();
        let started = state
            .sources
            .values()
            .filter_map(|registered| registered.started.clone());
        started.collect()
    }

    fn stop_sources(&self) {
        self.is_synced.store(false, Ordering::Release);
        let mut state = self.state();
        state.is_running = false;
        let stopped: Vec<_> = state
            .sources
            .values_mut()
            .map(|registered| registered.started.take())
            .collect();
        // Sources are dropped after the lock is released: their `drop` is foreign code.
        drop(state);
        drop(stopped);
    }
}

fn join_sync_errors(sync_errors: &[String]) -> String {
    if sync_errors.is_empty() {
        return String::new();
    }
    format!(": {}", sync_errors.join("; "))
}
