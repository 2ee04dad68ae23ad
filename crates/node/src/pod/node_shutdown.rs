//! Terminates the pods of a node that shuts down.
// upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go podManager

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    status::{PodWorkerState, TerminationCause},
    store::PodStore,
    workers::PodWorkers,
};

/// Pods that are terminated together at node shutdown.
// upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go podShutdownGroup
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownPriorityBand {
    /// Lowest priority of the band; the next band begins at its own priority.
    pub priority: i32,
    /// Grace period.
    pub grace_period: Duration,
}

/// Terminates pods at node shutdown.
pub(super) struct NodeShutdownManager {
    store: Arc<PodStore>,
    workers: Arc<PodWorkers>,
    /// Whether new pods are rejected.
    is_shutting_down: watch::Sender<bool>,
}

// --- NodeShutdownManager ---

impl NodeShutdownManager {
    pub(super) fn new(
        store: Arc<PodStore>,
        workers: Arc<PodWorkers>,
        is_shutting_down: watch::Sender<bool>,
    ) -> Self {
        NodeShutdownManager {
            store,
            workers,
            is_shutting_down,
        }
    }

    /// Terminates all pods band by band, lowest priority first, and rejects new ones.
    // upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go killPods
    pub(super) async fn kill_pods(&self, bands: &[ShutdownPriorityBand]) {
        self.is_shutting_down.send_replace(true);
        let mut bands = bands.to_vec();
        bands.sort_by_key(|band| band.priority);
        let mut by_band: HashMap<usize, Vec<(String, i64)>> = HashMap::new();
        for (uid, entry) in self.store.lock().iter() {
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
            while Instant::now() < until && !pods.iter().all(|(uid, _)| self.store.is_stopped(uid)) {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
