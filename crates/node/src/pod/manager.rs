//! All pods of this node: event handlers that trigger syncs, and queries.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kubecontroller::{
    Backoff, KeyedBackoff,
    informer::{Delta, InformerScope, SharedInformerFactory},
    manager::Stop,
    workqueue::{WorkQueue, WorkQueueOptions},
};
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    PodDependencies,
    cache::PodCache,
    events::PodEventRecorder,
    start_limiter::StartLimiter,
    static_pods,
    status::{PodSnapshot, PodWorkerState, TerminationCause},
    status_manager::StatusManager,
    store::{PodEntry, PodSource, PodStore},
    workers::PodWorkers,
};
use crate::{
    PodIdentity,
    images::{self, ImageManager},
    runtime::{ContainerId, PodLifecycleEvent, Runtime, RuntimeError, SandboxId},
};

/// Delay before the stream of runtime events is opened again.
const RECONNECT: Duration = Duration::from_secs(2);
/// Back-off between restarts of a container.
const RESTART_BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(10), Duration::from_mins(5));

/// The pods of this node. Clones share state.
#[derive(Clone)]
pub struct PodManager {
    workers: Arc<PodWorkers>,
}

/// Runtime IDs of a pod and one of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRuntimeIds {
    /// The pod.
    pub pod: PodIdentity,
    /// The pod's sandbox.
    pub sandbox: Option<SandboxId>,
    /// The newest container with this name.
    pub container: Option<ContainerId>,
    /// The container before it, which has terminated.
    pub previous: Option<ContainerId>,
}

/// Pods that are terminated together at node shutdown.
// upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go podShutdownGroup
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownPriorityBand {
    /// Lowest priority of the band; the next band begins at its own priority.
    pub priority: i32,
    /// Grace period.
    pub grace_period: Duration,
}

// --- PodManager ---

impl PodManager {
    /// Creates a pod manager. It is idle until [`PodManager::run`].
    pub fn new(deps: PodDependencies) -> Self {
        let settings = &deps.settings;
        // A pull is part of starting a container and has the same timeout.
        let limits = images::ImagePullLimits {
            pull: settings.start_limit,
            inspect: settings.start_limit,
            ..settings.images
        };
        let pulled = deps.pulled.clone();
        let images = ImageManager::new(limits, pulled, deps.recorder.clone(), deps.clock.clone());
        let events = PodEventRecorder::new(deps.recorder.clone());
        let client = deps.client.clone();
        let workers = Arc::new_cyclic(|this: &std::sync::Weak<PodWorkers>| {
            let this = this.clone();
            let find_api_pod = Arc::new(move |uid: &str| this.upgrade()?.store.api_pod(uid));
            PodWorkers {
                deps,
                store: PodStore::default(),
                queue: WorkQueue::new(WorkQueueOptions::default()),
                pod_cache: PodCache::default(),
                images,
                status_manager: StatusManager::new(client, find_api_pod),
                events,
                restart_backoff: std::sync::Mutex::new(KeyedBackoff::new(RESTART_BACKOFF)),
                is_shutting_down: watch::Sender::new(false),
                mirrors: std::sync::Mutex::default(),
                all_pods_known: watch::Sender::new(false),
                runtime_name: Mutex::default(),
                sandbox_limiter: StartLimiter::new(),
                container_limiter: StartLimiter::new(),
                admission_lock: Mutex::default(),
            }
        });
        PodManager { workers }
    }

    /// Runs pods until stopped. Containers keep running after that.
    pub async fn run(&self, stop: Stop) {
        let workers = &self.workers;
        let node = workers.deps.facts.borrow().node_name.clone();
        let informers = SharedInformerFactory::new(workers.deps.client.clone());
        let scope = InformerScope::default().fields(format!("spec.nodeName={node}"));
        let pods = informers.typed::<Pod>(scope);
        let handler = Arc::clone(workers);
        let subscription = pods.add_event_handler(move |delta| handler.handle_pod_event(delta));
        informers.start();
        let mut static_pods = static_pods::StaticPodSource::new(Arc::clone(workers));
        let work = async {
            tokio::join!(
                self.dispatch(&stop),
                workers.status_manager.run(&stop),
                self.watch_runtime_events(),
                self.watch_probe_results(),
                async {
                    // Orphaned containers can be recognized only when all pods are known.
                    subscription.wait_for_sync().await;
                    static_pods.read();
                    workers.all_pods_known.send_replace(true);
                    tokio::join!(self.resync_periodically(), static_pods.run());
                },
            );
        };
        stop.unless_stopped(Box::pin(work)).await;
        informers.stop().await;
    }

    /// Starts a worker for each pod that is due.
    async fn dispatch(&self, stop: &Stop) {
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                Some(_) = tasks.join_next() => {}
                job = self.workers.queue.next() => {
                    let Some(job) = job else { return };
                    let workers = Arc::clone(&self.workers);
                    tasks.spawn(async move {
                        match workers.sync_pod(job.key()).await {
                            Some(after) => job.requeue_after(after),
                            None => job.done(),
                        };
                    });
                }
            }
        }
    }

    /// Triggers syncs on runtime events.
    // upstream: pkg/kubelet/pleg/evented.go watchEventsChannel
    async fn watch_runtime_events(&self) {
        let mut runtimes = self.workers.deps.runtime.clone();
        loop {
            let runtime = runtimes.borrow_and_update().clone();
            let Some(runtime) = runtime else {
                if runtimes.changed().await.is_err() {
                    return std::future::pending().await;
                }
                continue;
            };
            if let Ok(mut changes) = runtime.container_events().await {
                // Events before the subscription were missed.
                self.workers.enqueue_all();
                while let Some(change) = changes.next().await {
                    match change {
                        PodLifecycleEvent::Pod { uid } => self.workers.enqueue(&uid),
                        PodLifecycleEvent::Any => self.workers.enqueue_all(),
                    }
                }
            }
            sleep(RECONNECT).await;
        }
    }

    async fn watch_probe_results(&self) {
        loop {
            let uid = self.workers.deps.probe_manager.next_changed_pod().await;
            self.workers.enqueue(&uid);
        }
    }

    /// Resyncs all pods and cleans up orphaned ones periodically.
    // upstream: pkg/kubelet/kubelet_pods.go HandlePodCleanups
    async fn resync_periodically(&self) {
        let mut runtimes = self.workers.deps.runtime.clone();
        loop {
            let runtime = runtimes.borrow_and_update().clone();
            let due = match runtime {
                Some(runtime) => match self.workers.terminate_orphans(&*runtime).await {
                    Ok(()) => self.workers.deps.settings.relist,
                    Err(error) => {
                        tracing::warn!(%error, "failed to list containers");
                        RECONNECT
                    }
                },
                None => self.workers.deps.settings.relist,
            };
            // A new runtime is listed at once.
            let _ = timeout(due, runtimes.changed()).await;
            self.workers.enqueue_all();
        }
    }

    // --- Queries ---

    pub(super) fn workers(&self) -> &PodWorkers {
        &self.workers
    }

    /// The current sandboxes and containers of a pod.
    pub(super) async fn current_snapshot(&self, uid: &str) -> Result<Arc<PodSnapshot>, RuntimeError> {
        let runtime = self.workers.deps.runtime.borrow().clone();
        let runtime = runtime.ok_or_else(|| RuntimeError::Unreachable {
            runtime: "the container runtime".to_owned(),
            reason: "none was found yet".to_owned(),
        })?;
        let limit = self.workers.deps.settings.start_limit;
        Ok(self
            .workers
            .pod_cache
            .relist(&*runtime, limit)
            .await?
            .pod_snapshot(uid))
    }

    /// Runtime IDs of a container. Without a UID the pod is found by name.
    pub fn find(
        &self,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
        container: &str,
    ) -> Option<PodRuntimeIds> {
        let entries = self.workers.store.lock();
        let mut matching: Vec<_> = entries
            .iter()
            .filter(|(id, entry)| {
                entry.pod.metadata.namespace.as_deref() == Some(namespace)
                    && entry.pod.metadata.name.as_deref() == Some(name)
                    && uid.is_none_or(|uid| uid == *id)
            })
            .collect();
        // Of two pods with the same name, prefer the one that is not deleted.
        matching.sort_by_key(|(_, entry)| entry.must_be_removed());
        let (_, entry) = matching.first()?;
        let mut instances = entry.snapshot.all(container);
        let newest = instances.next();
        Some(PodRuntimeIds {
            pod: PodIdentity::of(&entry.pod),
            sandbox: entry.snapshot.ready_sandbox().map(|sandbox| sandbox.id.clone()),
            container: newest.map(|instance| instance.id.clone()),
            previous: instances.next().map(|instance| instance.id.clone()),
        })
    }

    /// A pod by name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let entries = self.workers.store.lock();
        let mut matching: Vec<_> = entries
            .values()
            .filter(|entry| {
                entry.pod.metadata.namespace.as_deref() == Some(namespace)
                    && entry.pod.metadata.name.as_deref() == Some(name)
            })
            .collect();
        matching.sort_by_key(|entry| entry.must_be_removed());
        matching.first().map(|entry| Arc::clone(&entry.pod))
    }

    /// All pods with their newest status.
    pub fn list(&self) -> Vec<Pod> {
        let entries = self.workers.store.lock();
        let mut pods: Vec<_> = entries
            .values()
            .filter(|entry| !matches!(entry.source, PodSource::Runtime))
            .map(|entry| {
                let mut pod = Pod::clone(&entry.pod);
                pod.status = entry.previous.clone().or(pod.status);
                pod
            })
            .collect();
        let key = |pod: &Pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        pods.sort_by_key(key);
        pods
    }

    /// Newest status of a pod.
    pub fn pod_status(&self, uid: &str) -> Option<PodStatus> {
        let status_or_api_status =
            |entry: &PodEntry| entry.previous.clone().or_else(|| entry.pod.status.clone());
        self.workers.store.read(uid, status_or_api_status).flatten()
    }

    /// Terminates a pod because of a condition of the node, within `grace` seconds if given. Its phase becomes Failed.
    pub fn evict(&self, uid: &str, reason: &str, message: &str, grace: Option<i64>) -> bool {
        let cause = TerminationCause {
            reason: reason.to_owned(),
            message: message.to_owned(),
            disruption: true,
        };
        self.workers.request_termination(uid, cause, grace)
    }

    /// Whether no container of a pod runs; true for unknown pods.
    pub fn is_stopped(&self, uid: &str) -> bool {
        self.workers
            .store
            .read(uid, |entry| entry.worker_state == PodWorkerState::Terminated)
            .unwrap_or(true)
    }

    /// Whether all pods of this node are known. Before that, containers without a pod must not be cleaned up.
    pub fn knows_all(&self) -> bool {
        *self.workers.all_pods_known.borrow()
    }

    /// Terminates all pods band by band, lowest priority first, and rejects new ones.
    // upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go killPods
    pub async fn shut_down(&self, bands: &[ShutdownPriorityBand]) {
        self.workers.is_shutting_down.send_replace(true);
        let mut bands = bands.to_vec();
        bands.sort_by_key(|band| band.priority);
        let mut by_band: HashMap<usize, Vec<(String, i64)>> = HashMap::new();
        for (uid, entry) in self.workers.store.lock().iter() {
            if entry.worker_state != PodWorkerState::Terminated {
                let spec = entry.pod.spec.as_ref();
                let priority = spec.and_then(|spec| spec.priority).unwrap_or(0);
                let index = bands
                    .iter()
                    .rposition(|band| band.priority <= priority)
                    .unwrap_or(0);
                by_band
                    .entry(index)
                    .or_default()
                    .push((uid.clone(), entry.effective_grace()));
            }
        }
        for (index, band) in bands.iter().enumerate() {
            let pods = by_band.remove(&index).unwrap_or_default();
            let max_seconds = i64::try_from(band.grace_period.as_secs()).unwrap_or(i64::MAX);
            for (uid, grace) in &pods {
                let cause = TerminationCause {
                    reason: "Terminated".to_owned(),
                    message: "Pod was terminated in response to imminent node shutdown.".to_owned(),
                    disruption: true,
                };
                self.workers
                    .request_termination(uid, cause, Some((*grace).min(max_seconds)));
            }
            let until = Instant::now() + band.grace_period;
            while Instant::now() < until && !pods.iter().all(|(uid, _)| self.is_stopped(uid)) {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

// --- PodWorkers ---

impl PodWorkers {
    /// Triggers a sync of a pod.
    pub(super) fn enqueue(&self, uid: &str) {
        if self.store.lock().contains_key(uid) {
            self.queue.add(uid.to_owned());
        }
    }

    /// Triggers a sync of all pods.
    pub(super) fn enqueue_all(&self) {
        let all: Vec<_> = self.store.lock().keys().cloned().collect();
        for uid in all {
            self.queue.add(uid);
        }
    }

    /// Handles an informer event.
    fn handle_pod_event(&self, delta: &Delta<Pod>) {
        let pod = delta.object();
        let Some(uid) = pod.metadata.uid.clone() else {
            return;
        };
        let is_removed = matches!(delta, Delta::Deleted { .. });
        if static_pods::is_mirror_pod(pod) {
            self.handle_mirror_pod_event(pod, is_removed);
            return;
        }
        let mut entries = self.store.lock();
        if is_removed && !entries.contains_key(&uid) {
            return;
        }
        self.deps.adopted.add(&uid);
        let entry = entries
            .entry(uid.clone())
            .or_insert_with(|| PodEntry::new(Arc::clone(pod), PodSource::Api));
        entry.source = PodSource::Api;
        entry.pod = Arc::clone(pod);
        entry.is_removed = is_removed;
        entry.notify_termination();
        drop(entries);
        self.queue.add(uid);
    }

    /// Requests termination of a pod. Returns whether the pod could still be terminated.
    fn request_termination(&self, uid: &str, cause: TerminationCause, grace: Option<i64>) -> bool {
        let is_requested = self.store.update(uid, |entry| {
            if entry.worker_state == PodWorkerState::Terminated {
                return false;
            }
            entry.termination_cause.get_or_insert(cause);
            entry.grace = match (entry.grace, grace) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            entry.notify_termination();
            true
        });
        self.queue.add(uid.to_owned());
        is_requested == Some(true)
    }

    /// Terminates containers, and removes directories, of pods that are not in the store.
    async fn terminate_orphans(&self, runtime: &dyn Runtime) -> Result<(), RuntimeError> {
        let runtime_snapshot = self
            .pod_cache
            .relist(runtime, self.deps.settings.start_limit)
            .await?;
        for pod in runtime_snapshot.pods() {
            let mut entries = self.store.lock();
            if !entries.contains_key(&pod.uid) {
                tracing::info!(pod = %pod, "terminating containers of an unknown pod");
                let mut orphan = Pod::default();
                orphan.metadata.namespace = Some(pod.namespace.clone());
                orphan.metadata.name = Some(pod.name.clone());
                orphan.metadata.uid = Some(pod.uid.clone());
                let mut entry = PodEntry::new(Arc::new(orphan), PodSource::Runtime);
                entry.is_removed = true;
                entry.worker_state = PodWorkerState::Terminating;
                entries.insert(pod.uid.clone(), entry);
            }
        }
        self.remove_orphaned_directories().await;
        Ok(())
    }

    /// Unmounts volumes and removes directories of removed pods, for example of pods that were deleted while
    /// the agent was down.
    async fn remove_orphaned_directories(&self) {
        let orphaned = match self.deps.volumes.list_pods_from_disk().await {
            Ok(orphaned) => orphaned,
            Err(error) => {
                tracing::warn!(%error, "failed to list directories of removed pods");
                return;
            }
        };
        for uid in orphaned {
            if self.store.lock().contains_key(&uid) {
                continue;
            }
            let pod = PodIdentity {
                uid,
                ..PodIdentity::default()
            };
            if let Err(error) = self.deps.volumes.remove_pod_directory(&pod).await {
                tracing::warn!(pod = pod.uid, %error, "failed to remove the directory of an orphaned pod");
            }
        }
        self.remove_orphaned_logs();
    }

    /// Removes logs of removed pods, if the log directory belongs to this node: in a shared directory, other agents of this machine
    /// may have logs.
    fn remove_orphaned_logs(&self) {
        let settings = &self.deps.settings;
        if !settings.logs.starts_with(&settings.root) {
            return;
        }
        let Ok(directories) = std::fs::read_dir(&settings.logs) else {
            return;
        };
        for directory in directories.flatten() {
            let name = directory.file_name();
            let uid = name
                .to_str()
                .and_then(|name| name.rsplit_once('_'))
                .map(|(_, uid)| uid);
            if uid.is_some_and(|uid| !self.store.lock().contains_key(uid))
                && let Err(error) = std::fs::remove_dir_all(directory.path())
            {
                tracing::warn!(directory = %directory.path().display(), %error, "failed to remove logs of a removed pod");
            }
        }
    }
}
