//! All pods of this node: builds what runs them, and answers queries.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kubecontroller::{Clock, events::EventRecorder, manager::Stop};
use tokio::sync::watch;

use super::{
    PodDependencies, PodSettings, ShutdownPriorityBand,
    active_deadline::ActiveDeadlineHandler,
    allocation_manager::AllocationManager,
    cache::PodCache,
    cleaner::PodCleaner,
    events::PodEventRecorder,
    mirror_client::{MirrorClient, MirrorPods},
    node_shutdown::NodeShutdownManager,
    pod_config::PodConfig,
    queue::PodQueue,
    restart_backoff::RestartBackoff,
    runtime_manager::RuntimeManager,
    start_limiter::StartLimiter,
    static_pods::StaticPodSource,
    status::{PodSnapshot, TerminationCause},
    status_manager::StatusManager,
    status_reporter::{RuntimeName, StatusReporter},
    store::{PodEntry, PodSource, PodStore},
    tasks::PodTasks,
    volume_refresher::VolumeRefresher,
    workers::PodWorkers,
};
use crate::{
    PodIdentity,
    images::{ImageManager, ImagePullLimits, PulledImages},
    runtime::{ContainerId, Runtime, RuntimeError, SandboxId},
};

/// The pods of this node. Clones share state.
#[derive(Clone)]
pub struct PodManager {
    pub(super) store: Arc<PodStore>,
    pub(super) runtime: watch::Receiver<Option<Arc<dyn Runtime>>>,
    pod_cache: Arc<PodCache>,
    workers: Arc<PodWorkers>,
    node_shutdown: Arc<NodeShutdownManager>,
    tasks: Arc<PodTasks>,
    all_pods_known: watch::Receiver<bool>,
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

// --- PodManager ---

impl PodManager {
    /// Creates a pod manager. It is idle until [`PodManager::run`].
    pub fn new(deps: PodDependencies) -> Self {
        let settings = deps.settings;
        let node_name = deps.facts.borrow().node_name.clone();
        let directories = deps.volumes.directories().clone();
        let store = Arc::new(PodStore::default());
        let queue = PodQueue::new(Arc::clone(&store));
        let pod_cache = Arc::new(PodCache::new(settings.start_limit));
        let events = PodEventRecorder::new(deps.recorder.clone());
        let is_shutting_down = watch::Sender::new(false);
        let all_pods_known = watch::Sender::new(false);
        let mirror_pods = Arc::new(MirrorPods::default());
        let status_manager = status_manager(deps.client.clone(), Arc::clone(&store));
        let cleaner = PodCleaner::new(Arc::clone(&store), Arc::clone(&deps.volumes), settings.clone());
        let cleaner = Arc::new(cleaner);
        let allocation_manager = Arc::new(AllocationManager::new(
            Arc::clone(&store),
            events.clone(),
            deps.facts.clone(),
            directories.clone(),
            is_shutting_down.subscribe(),
        ));
        let runtime_manager = RuntimeManager {
            store: Arc::clone(&store),
            allocation_manager: Arc::clone(&allocation_manager),
            images: image_manager(&settings, deps.pulled, deps.recorder, &deps.clock),
            volume_refresher: VolumeRefresher::new(&store, &deps.volumes, &events, settings.refresh),
            volumes: deps.volumes,
            sources: deps.sources,
            events: events.clone(),
            facts: deps.facts.clone(),
            clock: deps.clock.clone(),
            restart_backoff: RestartBackoff::new(),
            sandbox_limiter: StartLimiter::new(),
            container_limiter: StartLimiter::new(),
            settings: settings.clone(),
        };
        let status_reporter = StatusReporter {
            store: Arc::clone(&store),
            status_manager: status_manager.clone(),
            probe_manager: Arc::clone(&deps.probe_manager),
            facts: deps.facts,
            clock: deps.clock.clone(),
            directories,
            runtime_name: RuntimeName::new(settings.start_limit),
        };
        let workers = Arc::new(PodWorkers {
            store: Arc::clone(&store),
            queue: queue.clone(),
            runtime: deps.runtime.clone(),
            pod_cache: Arc::clone(&pod_cache),
            allocation_manager,
            active_deadline: ActiveDeadlineHandler::new(
                Arc::clone(&store),
                events.clone(),
                deps.clock.clone(),
            ),
            status_reporter,
            probe_manager: Arc::clone(&deps.probe_manager),
            runtime_manager,
            cleaner: Arc::clone(&cleaner),
            events,
            adopted: deps.adopted.clone(),
            stop_limit: settings.stop_limit,
        });
        let static_pods = StaticPodSource {
            store: Arc::clone(&store),
            queue: queue.clone(),
            mirror_pods: Arc::clone(&mirror_pods),
            mirror_client: MirrorClient::new(deps.client.clone(), node_name.clone()),
            adopted: deps.adopted.clone(),
            clock: deps.clock,
            node_name: node_name.clone(),
            directory: settings.manifests,
            period: settings.manifests_every,
        };
        let pod_config = PodConfig::new(Arc::clone(&store), queue.clone(), mirror_pods, deps.adopted);
        let node_shutdown =
            NodeShutdownManager::new(Arc::clone(&store), Arc::clone(&workers), is_shutting_down);
        PodManager {
            runtime: deps.runtime.clone(),
            pod_cache: Arc::clone(&pod_cache),
            workers: Arc::clone(&workers),
            node_shutdown: Arc::new(node_shutdown),
            all_pods_known: all_pods_known.subscribe(),
            store,
            tasks: Arc::new(PodTasks {
                client: deps.client,
                node_name,
                queue,
                workers,
                status_manager,
                probe_manager: deps.probe_manager,
                pod_config: Arc::new(pod_config),
                static_pods,
                cleaner,
                runtime: deps.runtime,
                pod_cache,
                relist: settings.relist,
                all_pods_known,
            }),
        }
    }

    /// Runs pods until stopped. Containers keep running after that.
    pub async fn run(&self, stop: Stop) {
        self.tasks.run(stop).await;
    }

    /// The current sandboxes and containers of a pod.
    pub(super) async fn current_snapshot(&self, uid: &str) -> Result<Arc<PodSnapshot>, RuntimeError> {
        let runtime = self.runtime.borrow().clone();
        let runtime = runtime.ok_or_else(|| RuntimeError::Unreachable {
            runtime: "the container runtime".to_owned(),
            reason: "none was found yet".to_owned(),
        })?;
        Ok(self.pod_cache.relist(&*runtime).await?.pod_snapshot(uid))
    }

    /// Runtime IDs of a container. Without a UID the pod is found by name.
    pub fn find(
        &self,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
        container: &str,
    ) -> Option<PodRuntimeIds> {
        let entries = self.store.lock();
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
        let entries = self.store.lock();
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
        let entries = self.store.lock();
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
        self.store.read(uid, status_or_api_status).flatten()
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
        self.store.is_stopped(uid)
    }

    /// Whether all pods of this node are known. Before that, containers without a pod must not be cleaned up.
    pub fn knows_all(&self) -> bool {
        *self.all_pods_known.borrow()
    }

    /// Terminates all pods band by band, lowest priority first, and rejects new ones.
    pub async fn shut_down(&self, bands: &[ShutdownPriorityBand]) {
        self.node_shutdown.kill_pods(bands).await;
    }
}

fn status_manager(client: kube::Client, store: Arc<PodStore>) -> StatusManager {
    StatusManager::new(client, Arc::new(move |uid| store.api_pod(uid)))
}

fn image_manager(
    settings: &PodSettings,
    pulled: PulledImages,
    recorder: EventRecorder,
    clock: &Clock,
) -> ImageManager {
    // A pull is part of starting a container and has the same timeout.
    let limits = ImagePullLimits {
        pull: settings.start_limit,
        inspect: settings.start_limit,
        ..settings.images
    };
    ImageManager::new(limits, pulled, recorder, clock.clone())
}
