//! Observes eviction signals, sets pressure conditions, reclaims images and evicts pods.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Resource as _;
use kubecontroller::{
    events::{EventRecorder, EventType},
    manager::Stop,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{
    EvictionSignal, EvictionThreshold, local_storage, message,
    node_conditions::ObservedConditions,
    pod_usage::{MeasureVolumes, PodUsageProvider},
    rank::{self, EvictionCandidate, ImageFs},
    signal::{SignalObservation, SignalObservations},
    threshold,
};
use crate::{
    PodIdentity,
    agent::{
        AgentConfig,
        eviction::active_pods::{ActivePods, EvictionRequest, is_critical_pod},
        image_gc_manager::ImageGcManager,
        machine::MachineReader,
        node::{NodeEventRecorder, NodePressures},
        runtime_monitor::RuntimeReceiver,
    },
    blocking::run_blocking,
};

/// Grace period of an eviction for a hard threshold.
// upstream: pkg/kubelet/eviction/eviction_manager.go synchronize; immediateEvictionGracePeriodSeconds
const IMMEDIATE_GRACE_PERIOD: Duration = Duration::from_secs(1);
/// How long to wait for the termination of evicted pods.
const POD_CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);
/// Period of checking the limits of local ephemeral storage.
const LOCAL_STORAGE_PERIOD: Duration = Duration::from_secs(30);
/// Period of asking the runtime for the path of the image file system.
const IMAGE_FS_PERIOD: Duration = Duration::from_mins(5);
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(15);

/// What of a pod's usage is measured. Measuring volumes walks their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsageScope {
    Containers,
    ContainersAndVolumes,
}

/// Dependencies of [`EvictionManager`].
pub(in crate::agent) struct EvictionDependencies {
    pub(in crate::agent) config: Arc<AgentConfig>,
    pub(in crate::agent) machine_reader: MachineReader,
    pub(in crate::agent) runtime: RuntimeReceiver,
    pub(in crate::agent) volumes: MeasureVolumes,
    pub(in crate::agent) images: Arc<ImageGcManager>,
    pub(in crate::agent) pods: Arc<dyn ActivePods>,
    pub(in crate::agent) events: NodeEventRecorder,
    pub(in crate::agent) recorder: EventRecorder,
    pub(in crate::agent) pressures: watch::Sender<NodePressures>,
}

/// Evicts pods under resource pressure.
pub(in crate::agent) struct EvictionManager {
    deps: EvictionDependencies,
    usage_provider: PodUsageProvider,
    observed_conditions: ObservedConditions,
    /// Path of the image file system, and when the runtime reported it.
    image_fs: Option<(PathBuf, Instant)>,
    /// When the limits of local ephemeral storage were checked.
    local_storage_checked: Option<Instant>,
}

impl EvictionManager {
    pub(in crate::agent) fn new(deps: EvictionDependencies) -> Self {
        EvictionManager {
            usage_provider: PodUsageProvider {
                runtime: deps.runtime.clone(),
                volumes: Arc::clone(&deps.volumes),
            },
            deps,
            observed_conditions: ObservedConditions::default(),
            image_fs: None,
            local_storage_checked: None,
        }
    }

    pub(in crate::agent) async fn run(mut self, stop: Stop) {
        let synchronize = async {
            loop {
                if !self.synchronize().await {
                    sleep(self.deps.config.eviction.monitoring_interval).await;
                }
            }
        };
        stop.unless_stopped(synchronize).await;
    }

    /// Returns whether a pod was evicted; the signals are then observed again at once.
    // upstream: pkg/kubelet/eviction/eviction_manager.go synchronize
    async fn synchronize(&mut self) -> bool {
        let observations = self.make_signal_observations().await;
        let thresholds = threshold::thresholds_met(&self.deps.config.eviction.thresholds, &observations);
        let transition = self.deps.config.eviction.pressure_transition_period;
        let pressures = self
            .observed_conditions
            .update(&thresholds, Instant::now(), transition);
        self.deps.pressures.send_if_modified(|current| {
            let is_new = *current != pressures;
            *current = pressures;
            is_new
        });
        if self.local_storage_eviction().await {
            return true;
        }
        // One resource at a time: reclaiming it may relieve the others.
        let Some(first) = thresholds.first().copied() else {
            return false;
        };
        let resource = first.signal.resource();
        let message = format!("Attempting to reclaim {}", resource.name());
        self.deps
            .events
            .event(EventType::Warning, "EvictionThresholdMet", message);
        if first.signal.is_disk() && self.reclaim_node_level_resources().await {
            return false;
        }
        self.evict_first(first.signal, &thresholds, &observations).await
    }

    // upstream: pkg/kubelet/eviction/helpers.go makeSignalObservations
    async fn make_signal_observations(&mut self) -> SignalObservations {
        let image_fs = self.image_fs_path().await;
        let reader = self.deps.machine_reader.clone();
        let config = Arc::clone(&self.deps.config);
        let read_all = move || {
            let memory = reader.memory();
            let processes = reader.rlimit_stats();
            let node = reader.fs_info(&config.data_dir);
            let images = image_fs.and_then(|directory| reader.fs_info(&directory));
            (memory, processes, node, images)
        };
        let (memory, processes, node, images) = run_blocking(read_all).await;
        let mut observations = SignalObservations::from([
            (
                EvictionSignal::MemoryAvailable,
                SignalObservation {
                    capacity: memory.capacity,
                    available: memory.available(),
                },
            ),
            (
                EvictionSignal::PidAvailable,
                SignalObservation {
                    capacity: processes.max_pid,
                    available: processes.available(),
                },
            ),
        ]);
        let mut add = |disk: Option<crate::agent::machine::FsInfo>, bytes, inodes| {
            if let Some(disk) = disk {
                observations.insert(
                    bytes,
                    SignalObservation {
                        capacity: disk.capacity,
                        available: disk.available,
                    },
                );
                observations.insert(
                    inodes,
                    SignalObservation {
                        capacity: disk.inodes,
                        available: disk.inodes_free,
                    },
                );
            }
        };
        add(
            node,
            EvictionSignal::NodeFsAvailable,
            EvictionSignal::NodeFsInodesFree,
        );
        add(
            images,
            EvictionSignal::ImageFsAvailable,
            EvictionSignal::ImageFsInodesFree,
        );
        observations
    }

    /// Path of the image file system.
    async fn image_fs_path(&mut self) -> Option<PathBuf> {
        if let Some((directory, reported_at)) = &self.image_fs
            && reported_at.elapsed() < IMAGE_FS_PERIOD
        {
            return Some(directory.clone());
        }
        let runtime = self.deps.runtime.borrow().clone()?;
        let image_fs = timeout(RUNTIME_TIMEOUT, runtime.image_fs_info())
            .await
            .ok()?
            .ok()?;
        self.image_fs = Some((image_fs.path.clone(), Instant::now()));
        Some(image_fs.path)
    }

    /// Where the writable layers of containers are.
    async fn image_fs_kind(&self) -> ImageFs {
        let reader = self.deps.machine_reader.clone();
        let config = Arc::clone(&self.deps.config);
        let image_fs = self.image_fs.as_ref().map(|(directory, _)| directory.clone());
        let compare = move || {
            let node = reader.fs_info(&config.data_dir);
            let images = image_fs.and_then(|directory| reader.fs_info(&directory));
            matches!((node, images), (Some(node), Some(images)) if node.device != images.device)
        };
        if run_blocking(compare).await {
            ImageFs::Dedicated
        } else {
            ImageFs::Shared
        }
    }

    /// Removes unused images. Returns whether no threshold is met any more.
    // upstream: pkg/kubelet/eviction/eviction_manager.go reclaimNodeLevelResources
    async fn reclaim_node_level_resources(&mut self) -> bool {
        if let Err(error) = self.deps.images.delete_unused_images().await {
            tracing::warn!(%error, "failed to remove unused images");
        }
        let observations = self.make_signal_observations().await;
        threshold::thresholds_met(&self.deps.config.eviction.thresholds, &observations).is_empty()
    }

    /// Evicts pods that exceed their limits of local ephemeral storage, regardless of pressure.
    // upstream: pkg/kubelet/eviction/eviction_manager.go localStorageEviction
    async fn local_storage_eviction(&mut self) -> bool {
        if self
            .local_storage_checked
            .is_some_and(|at| at.elapsed() < LOCAL_STORAGE_PERIOD)
        {
            return false;
        }
        self.local_storage_checked = Some(Instant::now());
        let limited: Vec<_> = self
            .deps
            .pods
            .pods()
            .into_iter()
            .filter(|pod| local_storage::has_limits(pod))
            .collect();
        if limited.is_empty() {
            return false;
        }
        let image_fs = self.image_fs_kind().await;
        let mut evicted = Vec::new();
        for candidate in self.candidates(limited, UsageScope::ContainersAndVolumes).await {
            let exceeded = candidate
                .usage
                .as_ref()
                .and_then(|usage| local_storage::exceeded_limit(&candidate.pod, usage, image_fs));
            if let Some(message) = exceeded
                && self.evict_pod(&candidate.pod, message)
            {
                evicted.push(candidate.pod);
            }
        }
        self.wait_for_pods_cleanup(&evicted).await;
        !evicted.is_empty()
    }

    /// Evicts the first pod in rank order that may be evicted. Returns whether there was one.
    async fn evict_first(
        &self,
        signal: EvictionSignal,
        thresholds: &[EvictionThreshold],
        observations: &SignalObservations,
    ) -> bool {
        let scope = if signal.is_disk() {
            UsageScope::ContainersAndVolumes
        } else {
            UsageScope::Containers
        };
        let mut candidates = self.candidates(self.deps.pods.pods(), scope).await;
        rank::rank(&mut candidates, signal, self.image_fs_kind().await);
        for candidate in candidates {
            let message = message::eviction_message(signal.resource(), &candidate, thresholds, observations);
            if self.evict_pod(&candidate.pod, message) {
                self.wait_for_pods_cleanup(&[candidate.pod]).await;
                return true;
            }
        }
        tracing::warn!(
            resource = signal.resource().name(),
            "no pod can be evicted to reclaim resource"
        );
        false
    }

    async fn candidates(&self, pods: Vec<Arc<Pod>>, scope: UsageScope) -> Vec<EvictionCandidate> {
        let mut usages = self
            .usage_provider
            .container_usage()
            .await
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to measure resource usage of pods");
                BTreeMap::new()
            });
        let mut candidates = Vec::new();
        for pod in pods {
            let identity = PodIdentity::of(&pod);
            let mut usage = usages.remove(&identity.uid);
            if let Some(usage) = &mut usage
                && scope == UsageScope::ContainersAndVolumes
            {
                usage.volumes = (self.usage_provider.volumes)(identity).await;
            }
            candidates.push(EvictionCandidate { pod, usage });
        }
        candidates
    }

    /// Requests the eviction of a pod. Returns false for critical and stopped pods.
    // upstream: pkg/kubelet/eviction/eviction_manager.go evictPod
    fn evict_pod(&self, pod: &Pod, message: String) -> bool {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if is_critical_pod(pod) || self.deps.pods.is_stopped(uid) {
            return false;
        }
        let reference: ObjectReference = pod.object_ref(&());
        self.deps.recorder.event(
            &reference,
            EventType::Warning,
            "Evicted",
            "Evicted",
            message.clone(),
        );
        let request = EvictionRequest {
            message,
            grace: IMMEDIATE_GRACE_PERIOD,
        };
        self.deps.pods.evict(uid, request);
        true
    }

    /// Waits for the termination of evicted pods, up to a timeout.
    // upstream: pkg/kubelet/eviction/eviction_manager.go waitForPodsCleanup
    async fn wait_for_pods_cleanup(&self, pods: &[Arc<Pod>]) {
        let is_stopped = |pod: &Arc<Pod>| {
            self.deps
                .pods
                .is_stopped(pod.metadata.uid.as_deref().unwrap_or_default())
        };
        let stopped = async {
            while !pods.iter().all(is_stopped) {
                sleep(Duration::from_millis(500)).await;
            }
        };
        // Pods that take longer are ranked again by the next synchronization.
        let _ = timeout(POD_CLEANUP_TIMEOUT, stopped).await;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use k8s_openapi::api::core::v1::Event;
    use kubecontroller::{
        events::{EventApi, EventBroadcaster},
        manager::Runnable,
        testing::{FakeApi, eventually},
    };
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::task::JoinSet;

    use super::*;
    use crate::images::PulledImages;

    /// Pods that stop as soon as they are evicted.
    #[derive(Default)]
    struct TestPods {
        pods: Vec<Arc<Pod>>,
        evicted: Mutex<Vec<(String, String)>>,
    }

    impl ActivePods for TestPods {
        fn pods(&self) -> Vec<Arc<Pod>> {
            let pods = self.pods.iter();
            let running = pods.filter(|pod| !self.is_stopped(pod.metadata.uid.as_deref().unwrap()));
            running.cloned().collect()
        }

        fn evict(&self, uid: &str, request: EvictionRequest) {
            self.evicted.lock().push((uid.to_owned(), request.message));
        }

        fn is_stopped(&self, uid: &str) -> bool {
            self.evicted.lock().iter().any(|(evicted, _)| evicted == uid)
        }
    }

    fn pod(name: &str, priority: i32) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"priority": priority, "containers": [{"name": "main"}]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn write(root: &Path, free: u64) {
        std::fs::create_dir_all(root.join("proc")).unwrap();
        let text = format!("MemTotal: 1048576 kB\nMemFree: {free} kB\n");
        std::fs::write(root.join("proc/meminfo"), text).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn evicts_pods_under_memory_pressure() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), 50 << 10);
        let api = FakeApi::new();
        let events = EventBroadcaster::new(api.client());
        let recorder = events.recorder("kubelet").style(EventApi::Core).host("n");
        let test_pods = Arc::new(TestPods {
            pods: vec![pod("critical", 2_000_000_000), pod("low", 0), pod("high", 10)],
            ..TestPods::default()
        });
        let (pressures, mut reported) = watch::channel(NodePressures::default());
        let mut config = AgentConfig::new("n", directory.path());
        config.eviction.thresholds = vec!["memory.available<100Mi".parse().unwrap()];
        let machine_reader = MachineReader::at(directory.path());
        let node = NodeEventRecorder::new(recorder.clone(), "n");
        let runtime = watch::Sender::new(None).subscribe();
        let manager = EvictionManager::new(EvictionDependencies {
            images: Arc::new(ImageGcManager::new(
                config.image_gc,
                PulledImages::open(directory.path()),
                runtime.clone(),
                machine_reader.clone(),
                node.clone(),
            )),
            config: Arc::new(config),
            machine_reader,
            runtime,
            volumes: Arc::new(|_| Box::pin(async { BTreeMap::new() })),
            pods: test_pods.clone(),
            events: node,
            recorder,
            pressures,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(manager.run(Stop::new()));
        tasks.spawn(async move {
            events.run(Stop::new()).await.unwrap();
        });
        reported.wait_for(|pressures| pressures.memory).await.unwrap();
        eventually(async || test_pods.evicted.lock().len() == 2).await;
        let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ";
        let evicted = [
            ("low".to_owned(), message.to_owned()),
            ("high".to_owned(), message.to_owned()),
        ];
        assert_eq!(*test_pods.evicted.lock(), evicted);
        eventually(async || {
            let events = api.list::<Event>();
            let reasons: Vec<_> = events.into_iter().filter_map(|event| event.reason).collect();
            let all = ["EvictionThresholdMet", "Evicted"];
            if all
                .iter()
                .all(|reason| reasons.iter().any(|recorded| recorded == reason))
            {
                Ok(())
            } else {
                Err(reasons)
            }
        })
        .await;
        write(directory.path(), 500 << 10);
        let begin = Instant::now();
        reported.wait_for(|pressures| !pressures.memory).await.unwrap();
        assert!(
            begin.elapsed() >= Duration::from_mins(4),
            "the condition remains for the transition period: {:?}",
            begin.elapsed()
        );
        assert_eq!(
            test_pods.evicted.lock().len(),
            2,
            "the critical pod is not evicted"
        );
    }
}
