//! The probe workers of all pods, and their results.
// upstream: pkg/kubelet/prober/prober_manager.go manager

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kubecontroller::{Clock, events::EventRecorder};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::Instant,
};

use super::{
    ProbeOutcome, ProbeResults, ProbeType,
    active_probes::{ActiveProbe, active_probes},
    prober::{ProbeTarget, Prober},
    schedule::{ProbeSchedule, period_fraction},
    worker::run_worker,
};
use crate::{
    NodeFacts,
    pod::status::{PodSnapshot, first_address},
    runtime::{ContainerId, Runtime},
};

/// Probes containers until it is dropped.
pub struct ProbeManager {
    results: Arc<ResultsManager>,
    prober: Prober,
    facts: watch::Receiver<Arc<NodeFacts>>,
    /// Workers by pod UID. Pods without active probes have no entry.
    workers: Mutex<HashMap<String, PodProbeWorkers>>,
}

/// The probe workers of one pod. Dropping a `JoinSet` aborts the worker. A worker that is finished keeps its entry until the
/// container terminates, so that it is not started again.
type PodProbeWorkers = BTreeMap<(ContainerId, ProbeType), JoinSet<()>>;

/// Results of all pods.
// upstream: pkg/kubelet/prober/results/results_manager.go manager
pub(super) struct ResultsManager {
    clock: Clock,
    /// Start time of the agent, to compare with start times of containers.
    started: Timestamp,
    /// The same on the monotonic clock.
    started_instant: Instant,
    /// By pod UID.
    results: Mutex<HashMap<String, ProbeResults>>,
    /// UIDs of pods whose results changed, until they are returned.
    changed_pods: Mutex<VecDeque<String>>,
    /// Notified after each addition to `changed_pods`.
    has_changed: Notify,
}

// --- ProbeManager ---

impl ProbeManager {
    /// `runtime` runs exec probes. `facts` contain the addresses of the node, which hostNetwork pods have.
    pub fn new(
        runtime: watch::Receiver<Option<Arc<dyn Runtime>>>,
        facts: watch::Receiver<Arc<NodeFacts>>,
        clock: Clock,
        recorder: EventRecorder,
    ) -> Self {
        let results = ResultsManager {
            started: clock.now(),
            started_instant: Instant::now(),
            clock,
            results: Mutex::default(),
            changed_pods: Mutex::default(),
            has_changed: Notify::new(),
        };
        ProbeManager {
            results: Arc::new(results),
            prober: Prober { runtime, recorder },
            facts,
            workers: Mutex::default(),
        }
    }

    /// Starts and stops workers, so that exactly the active probes of the pod run. Call it after every change of the pod or its
    /// containers.
    // upstream: pkg/kubelet/prober/prober_manager.go AddPod, StopLivenessAndStartup
    pub fn update_pod(&self, pod: &Pod, snapshot: &PodSnapshot) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.results.retain_running(&uid, snapshot);
        let results = self.results(&uid);
        let active = active_probes(pod, snapshot, &results);
        let mut workers_by_pod = self.workers.lock();
        if active.is_empty() {
            workers_by_pod.remove(&uid);
            return;
        }
        let workers = workers_by_pod.entry(uid.clone()).or_default();
        workers.retain(|(id, kind), _| {
            active
                .iter()
                .any(|probe| probe.container_id == *id && probe.kind == *kind)
        });
        let missing: Vec<_> = active
            .iter()
            .filter(|probe| !workers.contains_key(&(probe.container_id.clone(), probe.kind)))
            .collect();
        // Common: return before cloning the pod.
        if missing.is_empty() {
            return;
        }
        let facts = self.facts.borrow().clone();
        let address = first_address(pod, snapshot, &facts).map_or_else(String::new, |ip| ip.to_string());
        let pod = Arc::new(pod.clone());
        for probe in missing {
            let key = (probe.container_id.clone(), probe.kind);
            workers.insert(key, self.start_worker(&uid, &pod, &address, probe));
        }
    }

    // upstream: pkg/kubelet/prober/worker.go newWorker
    fn start_worker(
        &self,
        uid: &str,
        pod: &Arc<Pod>,
        address: &str,
        active: &ActiveProbe<'_>,
    ) -> JoinSet<()> {
        let target = ProbeTarget {
            pod: pod.clone(),
            container: Arc::new(active.container.clone()),
            id: active.container_id.clone(),
            address: address.to_owned(),
            kind: active.kind,
            probe: active.probe.clone(),
        };
        let schedule = ProbeSchedule::new(active.kind, active.probe);
        let container_age = duration_since(active.started, self.results.clock.now());
        let agent_uptime = self.results.started_instant.elapsed();
        let fraction = period_fraction(&format!("{uid}/{}/{}", active.container.name, active.kind));
        let first = Instant::now() + schedule.first_delay(container_age, agent_uptime, fraction);
        let mut worker = JoinSet::new();
        worker.spawn(run_worker(
            self.results.clone(),
            self.prober.clone(),
            uid.to_owned(),
            target,
            first,
            schedule.period,
        ));
        worker
    }

    /// Stops all probes of a pod and drops their results.
    // upstream: pkg/kubelet/prober/prober_manager.go RemovePod
    pub fn remove_pod(&self, uid: &str) {
        self.workers.lock().remove(uid);
        self.results.results.lock().remove(uid);
    }

    /// The current results of the probes of a pod.
    pub fn results(&self, uid: &str) -> ProbeResults {
        let results = self.results.results.lock().get(uid).cloned();
        results.unwrap_or_else(|| ProbeResults::new(self.results.started))
    }

    /// Waits until a result changes, and returns the UID of the pod. Changes between calls are queued, and each is returned once.
    // upstream: pkg/kubelet/prober/results/results_manager.go Updates
    pub async fn next_changed_pod(&self) -> String {
        loop {
            let next = self.results.changed_pods.lock().pop_front();
            if let Some(uid) = next {
                return uid;
            }
            self.results.has_changed.notified().await;
        }
    }

    #[cfg(test)]
    pub(super) fn worker_count(&self) -> usize {
        self.workers.lock().values().map(BTreeMap::len).sum()
    }

    #[cfg(test)]
    pub(super) fn worker_kinds(&self) -> Vec<ProbeType> {
        let workers = self.workers.lock();
        workers
            .values()
            .flat_map(BTreeMap::keys)
            .map(|(_, kind)| *kind)
            .collect()
    }
}

impl fmt::Debug for ProbeManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pods = self.workers.lock().len();
        f.debug_struct("ProbeManager")
            .field("pods", &pods)
            .finish_non_exhaustive()
    }
}

// --- ResultsManager ---

impl ResultsManager {
    /// Drops the results of containers that are not running.
    fn retain_running(&self, uid: &str, snapshot: &PodSnapshot) {
        let mut results_by_pod = self.results.lock();
        if let Some(results) = results_by_pod.get_mut(uid) {
            results.retain(|id| {
                snapshot
                    .containers
                    .iter()
                    .any(|instance| instance.id == *id && instance.is_running())
            });
        }
    }

    /// Sets the result of a probe, and notifies if it changed.
    // upstream: pkg/kubelet/prober/results/results_manager.go Set
    pub(super) fn set(&self, uid: &str, target: &ProbeTarget, outcome: ProbeOutcome) {
        let changed = {
            let mut results_by_pod = self.results.lock();
            let results = results_by_pod
                .entry(uid.to_owned())
                .or_insert_with(|| ProbeResults::new(self.started));
            results.set(&target.id, target.kind, outcome)
        };
        if changed {
            // Fails only while the agent shuts down.
            self.changed_pods.lock().push_back(uid.to_owned());
            self.has_changed.notify_one();
        }
    }
}

fn duration_since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}
