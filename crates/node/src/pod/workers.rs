//! One sync of one pod: relist, report status, apply the missing actions.
//!
//! The agent may stop at any point of a sync. The next sync, of this or another agent process, continues from the state of the
//! runtime.
// upstream: pkg/kubelet/pod_workers.go podWorkers, podWorkerLoop

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use kubecontroller::events::EventType;
use tokio::sync::watch;

use super::{
    actions::{self, PodActionsInput},
    active_deadline::ActiveDeadlineHandler,
    allocation_manager::{AllocationManager, PodAdmission},
    cache::PodCache,
    cleaner::PodCleaner,
    events::PodEventRecorder,
    queue::PodQueue,
    runtime_manager::RuntimeManager,
    status::{self, PodSnapshot, PodWorkerState, TerminationCause},
    status_reporter::StatusReporter,
    stop::ContainerStopper,
    store::{AdmissionState, PodEntry, PodSource, PodStore, had_containers},
    sync::SyncResult,
};
use crate::{
    PodIdentity,
    probes::ProbeManager,
    runtime::{AdoptedPods, Runtime},
};

/// Retry delay after an error without a back-off of its own.
const RETRY: Duration = Duration::from_secs(10);
/// Retry delay while the runtime cannot be reached.
const RUNTIME_RETRY: Duration = Duration::from_secs(5);
const NOW: Duration = Duration::ZERO;

/// Advances pods through their states: syncing, terminating, terminated.
pub(super) struct PodWorkers {
    pub store: Arc<PodStore>,
    pub queue: PodQueue,
    pub runtime: watch::Receiver<Option<Arc<dyn Runtime>>>,
    pub pod_cache: Arc<PodCache>,
    pub allocation_manager: Arc<AllocationManager>,
    pub active_deadline: ActiveDeadlineHandler,
    pub status_reporter: StatusReporter,
    pub probe_manager: Arc<ProbeManager>,
    pub runtime_manager: RuntimeManager,
    pub cleaner: Arc<PodCleaner>,
    pub events: PodEventRecorder,
    /// Forgets pods that are removed.
    pub adopted: AdoptedPods,
    /// Timeout of runtime calls that stop containers, beyond the grace period.
    pub stop_limit: Duration,
}

/// Delay until the next sync, if no event triggers one earlier.
pub(super) type NextSync = Option<Duration>;

// --- PodWorkers ---

impl PodWorkers {
    /// Syncs a pod once.
    // Boxed: the compiler then proves Send per part and not for all lifetimes at once.
    pub(super) fn sync_pod<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, NextSync> {
        Box::pin(self.sync_once(uid))
    }

    async fn sync_once(&self, uid: &str) -> NextSync {
        let worker_state = self.store.read(uid, |entry| entry.worker_state)?;
        let runtime = self.runtime.borrow().clone();
        let Some(runtime) = runtime else {
            return self.sync_without_runtime(uid).await;
        };
        if self.store.waits_for_pod_of_same_name(uid) {
            return None;
        }
        let runtime_snapshot = match self.pod_cache.relist(&*runtime).await {
            Ok(runtime_snapshot) => runtime_snapshot,
            Err(error) => {
                tracing::debug!(pod = uid, %error, "failed to list containers");
                return Some(RUNTIME_RETRY);
            }
        };
        if let Err(error) = self.status_reporter.runtime_name.get(&*runtime).await {
            tracing::debug!(pod = uid, %error, "failed to read the name of the runtime");
            return Some(RUNTIME_RETRY);
        }
        let snapshot = self
            .status_reporter
            .store_snapshot(uid, &*runtime, &runtime_snapshot)
            .await;
        // Boxed, as are the futures below: inlined, the future of a sync would be very large.
        let pass: BoxFuture<'_, NextSync> = match worker_state {
            PodWorkerState::Syncing => Box::pin(self.sync_running_pod(uid, &runtime, &snapshot)),
            PodWorkerState::Terminating => Box::pin(self.sync_terminating_pod(uid, &*runtime, &snapshot)),
            PodWorkerState::Terminated => Box::pin(self.sync_terminated_pod(uid, &*runtime, &snapshot)),
        };
        pass.await
    }

    /// Syncs a pod that should run.
    // upstream: pkg/kubelet/kubelet.go SyncPod
    async fn sync_running_pod(
        &self,
        uid: &str,
        runtime: &Arc<dyn Runtime>,
        snapshot: &Arc<PodSnapshot>,
    ) -> NextSync {
        self.active_deadline.check(uid);
        if self.store.read(uid, PodEntry::is_termination_requested)? {
            self.advance_to(uid, PodWorkerState::Terminating);
            return Some(NOW);
        }
        match self.allocation_manager.add_pod(uid, snapshot) {
            PodAdmission::Admitted => {}
            PodAdmission::Rejected((reason, message)) => {
                self.advance_to(uid, PodWorkerState::Terminated);
                self.status_reporter.report_rejection(uid, &reason, &message);
                return Some(NOW);
            }
            PodAdmission::Inactive => return Some(NOW),
        }
        self.allocation_manager.handle_pod_resources_resize(uid).await;
        let status = self
            .status_reporter
            .update_status(uid, runtime.as_ref(), PodWorkerState::Syncing)
            .await?;
        if status::is_terminal(&status) {
            self.advance_to(uid, PodWorkerState::Terminating);
            return Some(NOW);
        }
        let (pod, mut termination) = self.store.read(uid, |entry| {
            (entry.with_allocated_resources(), entry.termination.subscribe())
        })?;
        self.probe_manager.update_pod(&pod, snapshot);
        let should_all_containers_restart = pod
            .spec
            .as_ref()
            .is_some_and(|spec| status::restart::should_all_containers_restart(spec, snapshot, &status));
        let actions = {
            let probes = self.probe_manager.results(uid);
            let actuated = self.store.read(uid, |entry| {
                entry.resource_info.clone().unwrap_or_default().actuated
            })?;
            let input = PodActionsInput {
                pod: &pod,
                snapshot,
                probes: &probes,
                actuated: &actuated,
            };
            if should_all_containers_restart {
                actions::compute_restart_actions(&input)
            } else {
                actions::compute_pod_actions(&input)
            }
        };
        // An image pull or a hook must not delay termination.
        let acting: BoxFuture<'_, SyncResult> =
            Box::pin(self.runtime_manager.sync_pod(runtime, pod, snapshot, actions));
        let result = tokio::select! {
            biased;
            _ = termination.wait_for(Option::is_some) => return Some(NOW),
            result = acting => result,
        };
        if !result.changed {
            // The reasons why containers wait may have changed.
            self.status_reporter
                .update_status(uid, runtime.as_ref(), PodWorkerState::Syncing)
                .await?;
        }
        let next = self.runtime_manager.next_sync(uid, &result);
        let deadline = self.active_deadline.until(uid);
        [next, deadline].into_iter().flatten().min()
    }

    /// Terminates the containers of a pod.
    // upstream: pkg/kubelet/kubelet.go SyncTerminatingPod
    async fn sync_terminating_pod(
        &self,
        uid: &str,
        runtime: &dyn Runtime,
        snapshot: &PodSnapshot,
    ) -> NextSync {
        self.status_reporter
            .update_status(uid, runtime, PodWorkerState::Terminating)
            .await?;
        let (pod, is_orphan, grace, mut termination) = self.store.read(uid, |entry| {
            entry.notify_termination();
            let is_orphan = matches!(entry.source, PodSource::Runtime);
            // Without a termination request the pod has finished, and each container has its own grace period.
            let grace = entry.is_termination_requested().then(|| entry.effective_grace());
            (
                Arc::clone(&entry.pod),
                is_orphan,
                grace,
                entry.termination.subscribe(),
            )
        })?;
        let started = *termination.borrow_and_update();
        let stopper = ContainerStopper {
            runtime,
            pod: (!is_orphan).then_some(&*pod),
            addresses: snapshot.addresses(),
            events: &self.events,
            limit: self.stop_limit,
        };
        let seconds = grace.map(|grace| Duration::from_secs(u64::try_from(grace).unwrap_or(1)));
        let stopped = tokio::select! {
            biased;
            // The grace period got shorter: start over with the shorter one.
            _ = termination.wait_for(|now| *now != started) => return Some(NOW),
            stopped = stopper.stop_pod(snapshot, seconds) => stopped,
        };
        if let Err(error) = stopped {
            self.events.record_pod_event(
                &pod,
                EventType::Warning,
                "FailedKillPod",
                format!("error killing pod: {error}"),
            );
            return Some(RETRY);
        }
        let Ok(runtime_snapshot) = self.pod_cache.relist(runtime).await else {
            return Some(RUNTIME_RETRY);
        };
        let snapshot = self
            .status_reporter
            .store_snapshot(uid, runtime, &runtime_snapshot)
            .await;
        if snapshot.any_running() {
            return Some(Duration::from_secs(1));
        }
        self.probe_manager.remove_pod(uid);
        self.advance_to(uid, PodWorkerState::Terminated);
        Some(NOW)
    }

    /// Cleans up a pod without running containers.
    // upstream: pkg/kubelet/kubelet.go SyncTerminatedPod
    async fn sync_terminated_pod(
        &self,
        uid: &str,
        runtime: &dyn Runtime,
        snapshot: &PodSnapshot,
    ) -> NextSync {
        let (pod, admission, must_be_removed) = self.store.read(uid, |entry| {
            let must_be_removed = entry.must_be_removed();
            (Arc::clone(&entry.pod), entry.admission.clone(), must_be_removed)
        })?;
        if admission != AdmissionState::Rejected {
            let status = self
                .status_reporter
                .update_status(uid, runtime, PodWorkerState::Terminated)
                .await?;
            if snapshot.any_running() {
                // A container was started meanwhile, for example by a stopping agent process.
                self.store
                    .update(uid, |entry| entry.worker_state = PodWorkerState::Terminating);
                return Some(NOW);
            }
            let last = status::terminated_status(&pod, &status);
            self.status_reporter
                .report_status(uid, &last, PodWorkerState::Terminated);
        }
        let identity = PodIdentity::of(&pod);
        if let Err(error) = self.cleaner.unmount_volumes(&identity).await {
            tracing::warn!(pod = %identity, %error, "failed to unmount volumes");
            return Some(RETRY);
        }
        if !must_be_removed {
            return None;
        }
        if let Err(error) = self.cleaner.remove_pod(&identity, runtime, snapshot).await {
            tracing::warn!(pod = %identity, %error, "failed to clean up a pod");
            return Some(RETRY);
        }
        self.finish(uid)
    }

    /// Removes a pod of which nothing is left on the node, or completes its deletion in the API.
    fn finish(&self, uid: &str) -> NextSync {
        let is_removed = self.store.read(uid, |entry| entry.is_removed)?;
        if is_removed {
            self.remove_pod(uid);
        } else {
            self.status_reporter.terminate_pod(uid);
        }
        None
    }

    /// Without a runtime, only pods that never had containers on this node can be deleted.
    async fn sync_without_runtime(&self, uid: &str) -> NextSync {
        let (pod, must_be_removed, is_orphan) = self.store.read(uid, |entry| {
            let is_orphan = matches!(entry.source, PodSource::Runtime);
            (Arc::clone(&entry.pod), entry.must_be_removed(), is_orphan)
        })?;
        let may_have_containers = is_orphan || self.cleaner.has_directory(uid).await || had_containers(&pod);
        if must_be_removed && !may_have_containers {
            return self.finish(uid);
        }
        None
    }

    fn advance_to(&self, uid: &str, worker_state: PodWorkerState) {
        self.store.update(uid, |entry| entry.worker_state = worker_state);
    }

    /// Removes a pod from the store, and enqueues pods with the same name, which waited for its removal.
    fn remove_pod(&self, uid: &str) {
        self.adopted.remove(uid);
        let Some(removed) = self.store.lock().remove(uid) else {
            return;
        };
        self.probe_manager.remove_pod(uid);
        self.runtime_manager.remove_pod(uid);
        self.status_reporter.remove_pod(uid);
        let waiting = self.store.pods_with_name_of(&removed.pod);
        for uid in waiting {
            self.queue.enqueue(&uid);
        }
    }

    /// Requests termination of a pod. Returns whether the pod could still be terminated.
    // upstream: pkg/kubelet/pod_workers.go UpdatePod
    pub(super) fn request_termination(&self, uid: &str, cause: TerminationCause, grace: Option<i64>) -> bool {
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
        self.queue.enqueue(uid);
        is_requested == Some(true)
    }
}
