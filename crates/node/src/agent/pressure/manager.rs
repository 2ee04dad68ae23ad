//! Looks what the machine is short of, says so, and throws pods off until it is no more.

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
    Signal, Threshold, local, message,
    rank::{self, Candidate},
    shortage::Shortages,
    signal::{Observation, Observations},
    threshold,
    usage::{MeasureVolumes, Meter},
};
use crate::{
    PodIdentity,
    agent::{
        Config,
        images::ImageKeeper,
        link::RuntimeWatch,
        machine::Eyes,
        node::{NodeEvents, Pressures},
        tenants::{Eviction, Tenants, is_critical},
    },
};

/// How long pods have that must go at once.
const GRACE: Duration = Duration::from_secs(1);
/// How long it is waited until a pod has gone before the next has to.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often pods with limits of disks are measured.
const MEASURE: Duration = Duration::from_secs(30);
/// How often it is asked where images are.
const ASK: Duration = Duration::from_mins(5);
const LIMIT: Duration = Duration::from_secs(15);

/// What a manager needs.
pub(in crate::agent) struct Parts {
    pub(in crate::agent) config: Arc<Config>,
    pub(in crate::agent) eyes: Eyes,
    pub(in crate::agent) runtime: RuntimeWatch,
    pub(in crate::agent) volumes: MeasureVolumes,
    pub(in crate::agent) images: Arc<ImageKeeper>,
    pub(in crate::agent) tenants: Arc<dyn Tenants>,
    pub(in crate::agent) events: NodeEvents,
    pub(in crate::agent) recorder: EventRecorder,
    pub(in crate::agent) pressures: watch::Sender<Pressures>,
}

/// Looks what the machine is short of.
pub(in crate::agent) struct Manager {
    parts: Parts,
    meter: Meter,
    shortages: Shortages,
    /// Where images are, and when that was asked.
    images: Option<(PathBuf, Instant)>,
    /// When pods with limits of disks were measured.
    measured: Option<Instant>,
}

impl Manager {
    pub(in crate::agent) fn new(parts: Parts) -> Self {
        Manager {
            meter: Meter {
                runtime: parts.runtime.clone(),
                volumes: Arc::clone(&parts.volumes),
            },
            parts,
            shortages: Shortages::default(),
            images: None,
            measured: None,
        }
    }

    pub(in crate::agent) async fn run(mut self, stop: Stop) {
        let look = async {
            loop {
                if !self.look().await {
                    sleep(self.parts.config.eviction.period).await;
                }
            }
        };
        stop.unless_stopped(look).await;
    }

    /// Whether a pod had to go, and it has to be looked again at once.
    async fn look(&mut self) -> bool {
        let seen = self.observe().await;
        let thresholds = threshold::met(&self.parts.config.eviction.hard, &seen);
        let transition = self.parts.config.eviction.transition;
        let pressures = self.shortages.step(&thresholds, Instant::now(), transition);
        self.parts.pressures.send_if_modified(|known| {
            let is_new = *known != pressures;
            *known = pressures;
            is_new
        });
        if self.evict_for_disk().await {
            return true;
        }
        let Some(first) = thresholds.first().copied() else {
            return false;
        };
        let resource = first.signal.resource();
        let text = format!("Attempting to reclaim {}", resource.name());
        self.parts
            .events
            .tell(EventType::Warning, "EvictionThresholdMet", text);
        if first.signal.is_disk() && self.reclaim().await {
            return false;
        }
        self.evict_one(first.signal, &thresholds, &seen).await
    }

    /// What there is.
    async fn observe(&mut self) -> Observations {
        let parts = &self.parts;
        let memory = parts.eyes.memory();
        let processes = parts.eyes.processes();
        let node = parts.eyes.disk(&parts.config.data_dir);
        let mut seen = Observations::from([
            (
                Signal::MemoryAvailable,
                Observation {
                    capacity: memory.capacity,
                    available: memory.available(),
                },
            ),
            (
                Signal::PidAvailable,
                Observation {
                    capacity: processes.most,
                    available: processes.available(),
                },
            ),
        ]);
        let mut add = |disk: Option<crate::agent::machine::Disk>, bytes, inodes| {
            if let Some(disk) = disk {
                seen.insert(
                    bytes,
                    Observation {
                        capacity: disk.capacity,
                        available: disk.available,
                    },
                );
                seen.insert(
                    inodes,
                    Observation {
                        capacity: disk.inodes,
                        available: disk.inodes_free,
                    },
                );
            }
        };
        add(node, Signal::NodeFsAvailable, Signal::NodeFsInodesFree);
        let images = self.image_folder().await;
        let images = images.and_then(|folder| self.parts.eyes.disk(&folder));
        add(images, Signal::ImageFsAvailable, Signal::ImageFsInodesFree);
        seen
    }

    /// Where images are, as far as this machine can see it.
    async fn image_folder(&mut self) -> Option<PathBuf> {
        if let Some((folder, asked)) = &self.images
            && asked.elapsed() < ASK
        {
            return Some(folder.clone());
        }
        let runtime = self.parts.runtime.borrow().clone()?;
        let told = timeout(LIMIT, runtime.image_filesystem()).await.ok()?.ok()?;
        self.images = Some((told.path.clone(), Instant::now()));
        Some(told.path)
    }

    /// Whether what containers write is on another disk than what pods keep.
    fn is_split(&self) -> bool {
        let eyes = &self.parts.eyes;
        let node = eyes.disk(&self.parts.config.data_dir);
        let images = self.images.as_ref().and_then(|(folder, _)| eyes.disk(folder));
        matches!((node, images), (Some(node), Some(images)) if node.device != images.device)
    }

    /// Throws away what nobody needs. Whether that was enough.
    async fn reclaim(&mut self) -> bool {
        if let Err(error) = self.parts.images.remove_unused().await {
            tracing::warn!(%error, "cannot remove images that nobody uses");
        }
        let seen = self.observe().await;
        threshold::met(&self.parts.config.eviction.hard, &seen).is_empty()
    }

    /// Pods that use more of the disk than they may have to go, whatever there is left.
    async fn evict_for_disk(&mut self) -> bool {
        if self.measured.is_some_and(|at| at.elapsed() < MEASURE) {
            return false;
        }
        self.measured = Some(Instant::now());
        let limited: Vec<_> = self
            .parts
            .tenants
            .pods()
            .into_iter()
            .filter(|pod| local::is_limited(pod))
            .collect();
        if limited.is_empty() {
            return false;
        }
        let split = self.is_split();
        let mut evicted = Vec::new();
        for candidate in self.candidates(limited, true).await {
            let excess = candidate
                .usage
                .as_ref()
                .and_then(|usage| local::excess(&candidate.pod, usage, split));
            if let Some(text) = excess
                && self.evict(&candidate.pod, text)
            {
                evicted.push(candidate.pod);
            }
        }
        self.wait_for(&evicted).await;
        !evicted.is_empty()
    }

    /// Throws one pod off. Whether there was one.
    async fn evict_one(&self, signal: Signal, thresholds: &[Threshold], seen: &Observations) -> bool {
        let mut candidates = self.candidates(self.parts.tenants.pods(), signal.is_disk()).await;
        rank::rank(&mut candidates, signal, self.is_split());
        for candidate in candidates {
            let text = message::evicted(signal.resource(), &candidate, thresholds, seen);
            if self.evict(&candidate.pod, text) {
                self.wait_for(&[candidate.pod]).await;
                return true;
            }
        }
        tracing::warn!(
            resource = signal.resource().name(),
            "the machine is short of it, and no pod can go"
        );
        false
    }

    async fn candidates(&self, pods: Vec<Arc<Pod>>, with_volumes: bool) -> Vec<Candidate> {
        let mut known = self.meter.containers().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot measure what pods use");
            BTreeMap::new()
        });
        let mut candidates = Vec::new();
        for pod in pods {
            let identity = PodIdentity::of(&pod);
            let mut usage = known.remove(&identity.uid);
            if let Some(usage) = &mut usage
                && with_volumes
            {
                usage.volumes = (self.meter.volumes)(identity).await;
            }
            candidates.push(Candidate { pod, usage });
        }
        candidates
    }

    /// Whether it may go at all.
    fn evict(&self, pod: &Pod, text: String) -> bool {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if is_critical(pod) || self.parts.tenants.has_ended(uid) {
            return false;
        }
        let reference: ObjectReference = pod.object_ref(&());
        self.parts
            .recorder
            .event(&reference, EventType::Warning, "Evicted", "Evicted", text.clone());
        let eviction = Eviction {
            message: text,
            grace: GRACE,
        };
        self.parts.tenants.evict(uid, eviction);
        true
    }

    /// Waits until they have gone, but not for ever.
    async fn wait_for(&self, pods: &[Arc<Pod>]) {
        let has_ended = |pod: &Arc<Pod>| {
            self.parts
                .tenants
                .has_ended(pod.metadata.uid.as_deref().unwrap_or_default())
        };
        let gone = async {
            while !pods.iter().all(has_ended) {
                sleep(Duration::from_millis(500)).await;
            }
        };
        // Those that take longer are seen again when it is looked again.
        let _ = timeout(PATIENCE, gone).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Mutex};

    use k8s_openapi::api::core::v1::Event;
    use kubecontroller::{
        events::{EventApi, EventBroadcaster},
        manager::Runnable,
        testing::{FakeApi, eventually},
    };
    use serde_json::json;
    use tokio::task::JoinSet;

    use super::*;
    use crate::images::PulledImages;

    /// Pods that end when they are told to.
    #[derive(Default)]
    struct Fleet {
        pods: Vec<Arc<Pod>>,
        evicted: Mutex<Vec<(String, String)>>,
    }

    impl Tenants for Fleet {
        fn pods(&self) -> Vec<Arc<Pod>> {
            let pods = self.pods.iter();
            let here = pods.filter(|pod| !self.has_ended(pod.metadata.uid.as_deref().unwrap()));
            here.cloned().collect()
        }

        fn evict(&self, uid: &str, eviction: Eviction) {
            self.evicted
                .lock()
                .unwrap()
                .push((uid.to_owned(), eviction.message));
        }

        fn has_ended(&self, uid: &str) -> bool {
            self.evicted.lock().unwrap().iter().any(|(known, _)| known == uid)
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
    async fn a_machine_that_is_short_of_memory_throws_pods_off_until_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 50 << 10);
        let api = FakeApi::new();
        let events = EventBroadcaster::new(api.client());
        let recorder = events.recorder("kubelet").style(EventApi::Core).host("n");
        let fleet = Arc::new(Fleet {
            pods: vec![pod("critical", 2_000_000_000), pod("low", 0), pod("high", 10)],
            ..Fleet::default()
        });
        let (pressures, mut told) = watch::channel(Pressures::default());
        let mut config = Config::new("n", folder.path());
        config.eviction.hard = vec!["memory.available<100Mi".parse().unwrap()];
        let eyes = Eyes::at(folder.path());
        let node = NodeEvents::new(recorder.clone(), "n");
        let runtime = watch::Sender::new(None).subscribe();
        let manager = Manager::new(Parts {
            images: Arc::new(ImageKeeper::new(
                config.images,
                PulledImages::open(folder.path()),
                runtime.clone(),
                eyes.clone(),
                node.clone(),
            )),
            config: Arc::new(config),
            eyes,
            runtime,
            volumes: Arc::new(|_| Box::pin(async { BTreeMap::new() })),
            tenants: fleet.clone(),
            events: node,
            recorder,
            pressures,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(manager.run(Stop::new()));
        tasks.spawn(async move {
            events.run(Stop::new()).await.unwrap();
        });
        told.wait_for(|pressures| pressures.memory).await.unwrap();
        eventually(async || fleet.evicted.lock().unwrap().len() == 2).await;
        let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ";
        let evicted = [
            ("low".to_owned(), message.to_owned()),
            ("high".to_owned(), message.to_owned()),
        ];
        assert_eq!(*fleet.evicted.lock().unwrap(), evicted);
        eventually(async || {
            let events = api.list::<Event>();
            let reasons: Vec<_> = events.into_iter().filter_map(|event| event.reason).collect();
            let all = ["EvictionThresholdMet", "Evicted"];
            if all
                .iter()
                .all(|reason| reasons.iter().any(|known| known == reason))
            {
                Ok(())
            } else {
                Err(reasons)
            }
        })
        .await;
        write(folder.path(), 500 << 10);
        let begin = Instant::now();
        told.wait_for(|pressures| !pressures.memory).await.unwrap();
        assert!(
            begin.elapsed() >= Duration::from_mins(4),
            "it is told for a while: {:?}",
            begin.elapsed()
        );
        assert_eq!(fleet.evicted.lock().unwrap().len(), 2, "the critical pod stays");
    }
}
