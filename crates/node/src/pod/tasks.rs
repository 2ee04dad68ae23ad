//! The background tasks of the pods of a node: what triggers syncs, and what runs them.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kubecontroller::{
    informer::{InformerScope, SharedInformerFactory},
    manager::Stop,
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    cache::PodCache, cleaner::PodCleaner, manifests::ManifestFiles, pod_config::PodConfig, queue::PodQueue,
    static_pods::StaticPodSource, status_manager::StatusManager, workers::PodWorkers,
};
use crate::{
    probes::ProbeManager,
    runtime::{PodLifecycleEvent, Runtime, RuntimeError},
};

/// Delay before the stream of runtime events is opened again.
const RECONNECT: Duration = Duration::from_secs(2);

/// What runs while the agent runs.
pub(super) struct PodTasks {
    pub client: kube::Client,
    pub node_name: String,
    pub queue: PodQueue,
    pub workers: Arc<PodWorkers>,
    pub status_manager: StatusManager,
    pub probe_manager: Arc<ProbeManager>,
    pub pod_config: Arc<PodConfig>,
    pub static_pods: StaticPodSource,
    pub cleaner: Arc<PodCleaner>,
    pub runtime: watch::Receiver<Option<Arc<dyn Runtime>>>,
    pub pod_cache: Arc<PodCache>,
    /// Period of a full resync of all pods.
    pub relist: Duration,
    /// Set once all pods of this node are known: the informer has synced and the manifests were read.
    pub all_pods_known: watch::Sender<bool>,
}

// --- PodTasks ---

impl PodTasks {
    /// Runs pods until stopped. Containers keep running after that.
    pub(super) async fn run(&self, stop: Stop) {
        let informers = SharedInformerFactory::new(self.client.clone());
        let scope = InformerScope::default().fields(format!("spec.nodeName={}", self.node_name));
        let pods = informers.typed::<Pod>(scope);
        let handler = Arc::clone(&self.pod_config);
        let subscription = pods.add_event_handler(move |delta| handler.handle_pod_event(delta));
        informers.start();
        let work = async {
            tokio::join!(
                self.dispatch(&stop),
                self.status_manager.run(&stop),
                self.watch_runtime_events(),
                self.watch_probe_results(),
                async {
                    // Orphaned containers can be recognized only when all pods are known.
                    subscription.wait_for_sync().await;
                    let files = self.static_pods.read(ManifestFiles::default()).await;
                    self.all_pods_known.send_replace(true);
                    tokio::join!(self.resync_periodically(), self.static_pods.run(files));
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
                job = self.queue.next() => {
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
        let mut runtimes = self.runtime.clone();
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
                self.queue.enqueue_all();
                while let Some(change) = changes.next().await {
                    match change {
                        PodLifecycleEvent::Pod { uid } => self.queue.enqueue(&uid),
                        PodLifecycleEvent::Any => self.queue.enqueue_all(),
                    }
                }
            }
            sleep(RECONNECT).await;
        }
    }

    async fn watch_probe_results(&self) {
        loop {
            let uid = self.probe_manager.next_changed_pod().await;
            self.queue.enqueue(&uid);
        }
    }

    /// Resyncs all pods and cleans up orphaned ones periodically.
    // upstream: pkg/kubelet/kubelet_pods.go HandlePodCleanups
    async fn resync_periodically(&self) {
        let mut runtimes = self.runtime.clone();
        loop {
            let runtime = runtimes.borrow_and_update().clone();
            let due = match runtime {
                Some(runtime) => match self.clean_up_orphans(&*runtime).await {
                    Ok(()) => self.relist,
                    Err(error) => {
                        tracing::warn!(%error, "failed to list containers");
                        RECONNECT
                    }
                },
                None => self.relist,
            };
            // A new runtime is listed at once.
            let _ = timeout(due, runtimes.changed()).await;
            self.queue.enqueue_all();
        }
    }

    /// Terminates containers, and removes directories, of pods that are not in the store.
    async fn clean_up_orphans(&self, runtime: &dyn Runtime) -> Result<(), RuntimeError> {
        let runtime_snapshot = self.pod_cache.relist(runtime).await?;
        self.cleaner.terminate_orphans(&runtime_snapshot);
        self.cleaner.remove_orphaned_directories().await;
        Ok(())
    }
}
