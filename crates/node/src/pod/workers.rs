//! One sync of one pod: relist, report status, apply the missing actions.
//!
//! The agent may stop at any point of a sync. The next sync, of this or another agent process, continues from the state of the
//! runtime.
// upstream: pkg/kubelet/pod_workers.go podWorkers, podWorkerLoop

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use k8s_openapi::{
    api::core::v1::{Pod, PodStatus, ResourceRequirements},
    jiff::Timestamp,
};
use kubecontroller::{KeyedBackoff, events::EventType, workqueue::WorkQueue};
use tokio::sync::{Mutex, watch};

use super::{
    PodDependencies,
    actions::{self, PodActionsInput},
    admission,
    cache::{PodCache, RuntimeSnapshot},
    events::PodEventRecorder,
    start_limiter::StartLimiter,
    status::{
        self, PodSnapshot, PodWorkerState, ResizeInProgress, ResizePending, StatusInput, TerminationCause,
    },
    status_manager::StatusManager,
    stop::ContainerStopper,
    store::{AdmissionState, PodEntry, PodSource, PodStore},
    sync::{PodSync, SyncResult},
    termination_message, time,
};
use crate::{
    PodIdentity,
    images::{ImageManager, with_timeout},
    runtime::{ContainerState, Runtime, RuntimeError},
};

/// Retry delay after an error without a back-off of its own.
const RETRY: Duration = Duration::from_secs(10);
/// Retry delay while the runtime cannot be reached.
const RUNTIME_RETRY: Duration = Duration::from_secs(5);
const NOW: Duration = Duration::ZERO;
/// Reason and message of a pod that exceeded `activeDeadlineSeconds`.
// upstream: pkg/kubelet/active_deadline.go ShouldEvict
const ACTIVE_DEADLINE: (&str, &str) = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
);

/// State shared by all pod workers.
pub(super) struct PodWorkers {
    pub deps: PodDependencies,
    pub store: PodStore,
    /// UIDs of the pods to sync.
    pub queue: WorkQueue<String>,
    pub pod_cache: PodCache,
    pub images: ImageManager,
    pub status_manager: StatusManager,
    pub events: PodEventRecorder,
    /// Restart back-off of containers, by pod UID, container name and container hash.
    pub restart_backoff: std::sync::Mutex<KeyedBackoff<(String, String, String)>>,
    /// Whether new pods are rejected because the node shuts down.
    pub is_shutting_down: watch::Sender<bool>,
    /// Name that the runtime reported with its version; `None` until the first successful call.
    pub runtime_name: Mutex<Option<String>>,
    /// Mirror pods by namespace and name.
    pub mirrors: std::sync::Mutex<Mirrors>,
    /// Whether all pods of this node are known: the informer has synced and the manifests were read.
    pub all_pods_known: watch::Sender<bool>,
    /// Limits concurrent sandbox starts.
    pub sandbox_limiter: StartLimiter,
    /// Limits concurrent container starts. Separate from sandboxes, so that pods with a sandbox make progress.
    pub container_limiter: StartLimiter,
    /// Serializes admission and resize decisions: two pods that fit alone may not fit together.
    pub admission_lock: Mutex<()>,
}

/// Mirror pods by namespace and name.
pub(super) type Mirrors = HashMap<(Option<String>, Option<String>), Arc<Pod>>;

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
        let runtime = self.deps.runtime.borrow().clone();
        let Some(runtime) = runtime else {
            return self.sync_without_runtime(uid);
        };
        if self.waits_for_pod_of_same_name(uid) {
            return None;
        }
        let runtime_snapshot = match self
            .pod_cache
            .relist(&*runtime, self.deps.settings.start_limit)
            .await
        {
            Ok(runtime_snapshot) => runtime_snapshot,
            Err(error) => {
                tracing::debug!(pod = uid, %error, "failed to list containers");
                return Some(RUNTIME_RETRY);
            }
        };
        let snapshot = self.store_snapshot(uid, &*runtime, &runtime_snapshot).await;
        // Boxed, as are the futures below: inlined, the future of a sync would be very large.
        let pass: BoxFuture<'_, NextSync> = match worker_state {
            PodWorkerState::Syncing => Box::pin(self.sync_running_pod(uid, &runtime, &snapshot)),
            PodWorkerState::Terminating => Box::pin(self.sync_terminating_pod(uid, &*runtime, &snapshot)),
            PodWorkerState::Terminated => Box::pin(self.sync_terminated_pod(uid, &*runtime, &snapshot)),
        };
        pass.await
    }

    /// Stores the snapshot, and reads the termination messages of containers that exited.
    async fn store_snapshot(
        &self,
        uid: &str,
        runtime: &dyn Runtime,
        runtime_snapshot: &RuntimeSnapshot,
    ) -> Arc<PodSnapshot> {
        let snapshot = runtime_snapshot.pod_snapshot(uid);
        let unread: Vec<_> = self
            .store
            .update(uid, |entry| {
                entry.snapshot = Arc::clone(&snapshot);
                entry
                    .messages
                    .retain(|id, _| snapshot.containers.iter().any(|instance| instance.id == *id));
                let ended = snapshot
                    .containers
                    .iter()
                    .filter(|instance| matches!(instance.state, ContainerState::Exited(_)));
                ended
                    .filter(|instance| !entry.messages.contains_key(&instance.id))
                    .cloned()
                    .collect()
            })
            .unwrap_or_default();
        let directory = self.deps.settings.directory(uid);
        for instance in unread {
            let message = termination_message::read_termination_message(runtime, &directory, &instance).await;
            self.store
                .update(uid, |entry| entry.messages.insert(instance.id, message));
        }
        snapshot
    }

    /// Syncs a pod that should run.
    // upstream: pkg/kubelet/kubelet.go SyncPod
    async fn sync_running_pod(
        &self,
        uid: &str,
        runtime: &Arc<dyn Runtime>,
        snapshot: &Arc<PodSnapshot>,
    ) -> NextSync {
        self.check_active_deadline(uid);
        if self.store.read(uid, PodEntry::is_termination_requested)? {
            self.advance_to(uid, PodWorkerState::Terminating);
            return Some(NOW);
        }
        if !self.admit(uid, snapshot).await {
            return Some(NOW);
        }
        self.handle_resize(uid).await;
        let status = self
            .update_status(uid, runtime.as_ref(), PodWorkerState::Syncing)
            .await?;
        if status::is_terminal(&status) {
            self.advance_to(uid, PodWorkerState::Terminating);
            return Some(NOW);
        }
        let (pod, mut termination) = self.store.read(uid, |entry| {
            (entry.with_allocated_resources(), entry.termination.subscribe())
        })?;
        self.deps.probe_manager.update_pod(&pod, snapshot);
        let should_all_containers_restart = pod
            .spec
            .as_ref()
            .is_some_and(|spec| status::restart::should_all_containers_restart(spec, snapshot, &status));
        let actions = {
            let probes = self.deps.probe_manager.results(uid);
            let actuated = self.store.read(uid, |entry| {
                entry.resource_info.clone().unwrap_or_default().actuated
            })?;
            let input = PodActionsInput {
                pod: &pod,
                snapshot,
                probes: &probes,
                actuated: &actuated,
            };
            actions::compute_pod_actions(&input, should_all_containers_restart)
        };
        let sync = PodSync {
            workers: self,
            runtime: Arc::clone(runtime),
            pod: Arc::new(pod),
            snapshot: Arc::clone(snapshot),
            facts: self.deps.facts.borrow().clone(),
        };
        // An image pull or a hook must not delay termination.
        let acting: BoxFuture<'_, SyncResult> = Box::pin(sync.apply(actions));
        let result = tokio::select! {
            biased;
            _ = termination.wait_for(Option::is_some) => return Some(NOW),
            result = acting => result,
        };
        if !result.changed {
            // The reasons why containers wait may have changed.
            self.update_status(uid, runtime.as_ref(), PodWorkerState::Syncing)
                .await?;
        }
        let next = result.next_sync(self.deps.clock.now());
        let deadline = self.until_deadline(uid);
        [next, deadline, self.until_volume_refresh(uid)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Terminates the containers of a pod.
    // upstream: pkg/kubelet/kubelet.go SyncTerminatingPod
    async fn sync_terminating_pod(
        &self,
        uid: &str,
        runtime: &dyn Runtime,
        snapshot: &PodSnapshot,
    ) -> NextSync {
        self.update_status(uid, runtime, PodWorkerState::Terminating)
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
            limit: self.deps.settings.stop_limit,
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
        let Ok(runtime_snapshot) = self
            .pod_cache
            .relist(runtime, self.deps.settings.start_limit)
            .await
        else {
            return Some(RUNTIME_RETRY);
        };
        let snapshot = self.store_snapshot(uid, runtime, &runtime_snapshot).await;
        if snapshot.any_running() {
            return Some(Duration::from_secs(1));
        }
        self.deps.probe_manager.remove_pod(uid);
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
        let (pod, admission, volumes_released, must_be_removed) = self.store.read(uid, |entry| {
            let must_be_removed = entry.must_be_removed();
            (
                Arc::clone(&entry.pod),
                entry.admission.clone(),
                entry.volumes_released,
                must_be_removed,
            )
        })?;
        if admission != AdmissionState::Rejected {
            let status = self
                .update_status(uid, runtime, PodWorkerState::Terminated)
                .await?;
            if snapshot.any_running() {
                // A container was started meanwhile, for example by a stopping agent process.
                self.store
                    .update(uid, |entry| entry.worker_state = PodWorkerState::Terminating);
                return Some(NOW);
            }
            let last = status::terminated_status(&pod, &status);
            self.report_status(uid, &last, PodWorkerState::Terminated);
        }
        let identity = PodIdentity::of(&pod);
        if !volumes_released {
            if let Err(error) = self.deps.volumes.unmount_pod_volumes(&identity).await {
                tracing::warn!(pod = %identity, %error, "failed to unmount volumes");
                return Some(RETRY);
            }
            self.deps.sources.unregister_pod(&identity);
            self.store.update(uid, |entry| entry.volumes_released = true);
        }
        if !must_be_removed {
            return None;
        }
        if let Err(error) = self.remove_containers(runtime, snapshot).await {
            tracing::warn!(pod = %identity, %error, "failed to remove containers of a pod");
            return Some(RETRY);
        }
        if let Err(error) = self.deps.volumes.remove_pod_directory(&identity).await {
            tracing::warn!(pod = %identity, %error, "failed to remove the directory of a pod");
            return Some(RETRY);
        }
        self.remove_logs(&identity);
        let is_removed = self.store.read(uid, |entry| entry.is_removed)?;
        if is_removed {
            self.remove_pod(uid);
        } else {
            self.status_manager.terminate_pod(uid);
        }
        None
    }

    /// Without a runtime, only pods that never had containers on this node can be deleted.
    fn sync_without_runtime(&self, uid: &str) -> NextSync {
        let (pod, must_be_removed, is_orphan) = self.store.read(uid, |entry| {
            let is_orphan = matches!(entry.source, PodSource::Runtime);
            (Arc::clone(&entry.pod), entry.must_be_removed(), is_orphan)
        })?;
        let may_have_containers =
            is_orphan || self.deps.settings.directory(uid).exists() || had_containers(&pod);
        if must_be_removed && !may_have_containers {
            let is_removed = self.store.read(uid, |entry| entry.is_removed)?;
            if is_removed {
                self.remove_pod(uid);
            } else {
                self.status_manager.terminate_pod(uid);
            }
        }
        None
    }

    /// Whether the node admits a pod. A pod that already has containers here was admitted before a restart.
    // upstream: pkg/kubelet/allocation/allocation_manager.go canAdmitPod, AddPod
    async fn admit(&self, uid: &str, snapshot: &PodSnapshot) -> bool {
        let Some((pod, admission)) = self
            .store
            .read(uid, |entry| (Arc::clone(&entry.pod), entry.admission.clone()))
        else {
            return false;
        };
        match admission {
            AdmissionState::Admitted => return true,
            AdmissionState::Rejected => return false,
            AdmissionState::Pending => {}
        }
        let _guard = self.admission_lock.lock().await;
        let has_containers =
            !snapshot.sandboxes.is_empty() || !snapshot.containers.is_empty() || had_containers(&pod);
        let facts = self.deps.facts.borrow().clone();
        let rejection = if has_containers || pod.status.as_ref().is_some_and(status::is_terminal) {
            None
        } else {
            let others = self.active_pods(uid);
            let closing = *self.is_shutting_down.borrow();
            admission::rejection(&pod, &others, &facts, closing)
        };
        if let Some((reason, message)) = rejection {
            self.events
                .record_pod_event(&pod, EventType::Warning, &reason, message.clone());
            let status = status::rejected_status(&pod, &reason, &message, self.deps.clock.now());
            self.store.update(uid, |entry| {
                entry.admission = AdmissionState::Rejected;
                entry.previous = Some(status.clone());
                entry.worker_state = PodWorkerState::Terminated;
            });
            self.report_status(uid, &status, PodWorkerState::Terminated);
            return false;
        }
        self.store
            .update(uid, |entry| entry.admission = AdmissionState::Admitted);
        true
    }

    /// The other pods that use resources of this node, with their allocated resources.
    pub(super) fn active_pods(&self, except: &str) -> Vec<Pod> {
        let entries = self.store.lock();
        let others = entries
            .iter()
            .filter(|(uid, entry)| *uid != except && entry.is_active());
        others
            .map(|(_, entry)| entry.with_allocated_resources())
            .collect()
    }

    /// Computes and reports the status. `None` if the pod was removed meanwhile.
    async fn update_status(
        &self,
        uid: &str,
        runtime: &dyn Runtime,
        worker_state: PodWorkerState,
    ) -> Option<PodStatus> {
        let name = self.runtime_name(runtime).await;
        let facts = self.deps.facts.borrow().clone();
        let probes = self.deps.probe_manager.results(uid);
        let now = self.deps.clock.now();
        let status = self.store.update(uid, |entry| {
            let pod = entry.with_allocated_resources();
            let messages = entry.messages.iter();
            let messages = messages
                .filter_map(|(id, text)| text.clone().map(|text| (id.clone(), text)))
                .collect();
            let (pending, progress) = entry.resize_status();
            let resource_info = entry.resource_info.clone().unwrap_or_default();
            let status = status::generate_api_pod_status(&StatusInput {
                pod: &pod,
                previous: entry.previous.as_ref(),
                snapshot: &entry.snapshot,
                probes: &probes,
                waiting: &entry.waiting,
                messages: &messages,
                actuated: &resource_info.actuated,
                resize: (pending.as_ref(), progress.as_ref()),
                runtime: &name,
                recursive_read_only: false,
                facts: &facts,
                worker_state,
                termination_cause: entry.termination_cause.as_ref(),
                now,
            });
            entry.previous = Some(status.clone());
            status
        })?;
        self.report_status(uid, &status, worker_state);
        Some(status)
    }

    fn report_status(&self, uid: &str, status: &PodStatus, worker_state: PodWorkerState) {
        if let Some(api_pod) = self.store.api_pod(uid) {
            let merged = status::merge_pod_status(&api_pod, status, worker_state, self.deps.clock.now());
            self.status_manager.set_pod_status(uid, merged);
        }
    }

    async fn runtime_name(&self, runtime: &dyn Runtime) -> String {
        let mut name = self.runtime_name.lock().await;
        if name.is_none() {
            let version = with_timeout(self.deps.settings.start_limit, "Version", runtime.version()).await;
            *name = version.ok().map(|version| version.name);
        }
        name.clone().unwrap_or_default()
    }

    fn advance_to(&self, uid: &str, worker_state: PodWorkerState) {
        self.store.update(uid, |entry| entry.worker_state = worker_state);
    }

    /// Whether another pod with the same name has to be removed first: container names contain the pod name.
    // upstream: pkg/kubelet/pod_workers.go allowPodStart, allowStaticPodStart; upstream waits for static pods only
    fn waits_for_pod_of_same_name(&self, uid: &str) -> bool {
        let entries = self.store.lock();
        let Some(own) = entries.get(uid) else {
            return false;
        };
        let name = |entry: &PodEntry| {
            (
                entry.pod.metadata.namespace.clone(),
                entry.pod.metadata.name.clone(),
            )
        };
        let is_new = own.snapshot.sandboxes.is_empty() && !own.is_termination_requested();
        is_new
            && entries
                .iter()
                .any(|(other, entry)| other != uid && name(entry) == name(own) && entry.must_be_removed())
    }

    /// Removes a pod from the store, and enqueues pods with the same name, which waited for its removal.
    pub(super) fn remove_pod(&self, uid: &str) {
        self.deps.adopted.remove(uid);
        let Some(removed) = self.store.lock().remove(uid) else {
            return;
        };
        self.deps.probe_manager.remove_pod(uid);
        self.images.remove_pod(uid);
        self.status_manager.remove_pod(uid);
        self.restart_backoff().remove(|(pod, ..)| pod == uid);
        let entries = self.store.lock();
        for (other, entry) in entries.iter() {
            if entry.pod.metadata.name == removed.pod.metadata.name
                && entry.pod.metadata.namespace == removed.pod.metadata.namespace
            {
                self.queue.add(other.clone());
            }
        }
    }

    /// Restart back-off of containers.
    pub(super) fn restart_backoff(
        &self,
    ) -> std::sync::MutexGuard<'_, KeyedBackoff<(String, String, String)>> {
        self.restart_backoff
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    // --- Time ---

    fn deadline(&self, uid: &str) -> Option<Timestamp> {
        self.store.read(uid, |entry| {
            let seconds = entry.pod.spec.as_ref()?.active_deadline_seconds?;
            let status = entry.previous.as_ref().or(entry.pod.status.as_ref())?;
            let started = status.start_time.as_ref()?.0;
            Some(time::add_duration(
                started,
                Duration::from_secs(u64::try_from(seconds).ok()?),
            ))
        })?
    }

    fn until_deadline(&self, uid: &str) -> NextSync {
        Some(time::duration_until(self.deps.clock.now(), self.deadline(uid)?))
    }

    /// Terminates a pod that exceeded `activeDeadlineSeconds`.
    // upstream: pkg/kubelet/active_deadline.go pastActiveDeadline
    fn check_active_deadline(&self, uid: &str) {
        let is_over = self
            .deadline(uid)
            .is_some_and(|deadline| self.deps.clock.now() >= deadline);
        if !is_over {
            return;
        }
        let pod = self.store.update(uid, |entry| {
            entry.termination_cause.get_or_insert_with(|| TerminationCause {
                reason: ACTIVE_DEADLINE.0.to_owned(),
                message: ACTIVE_DEADLINE.1.to_owned(),
                disruption: false,
            });
            Arc::clone(&entry.pod)
        });
        if let Some(pod) = pod {
            self.events
                .record_pod_event(&pod, EventType::Normal, ACTIVE_DEADLINE.0, ACTIVE_DEADLINE.1);
        }
    }

    fn until_volume_refresh(&self, uid: &str) -> NextSync {
        let volumes_refreshed = self.store.read(uid, |entry| entry.volumes_refreshed)??;
        let due = volumes_refreshed + self.volume_refresh_period(uid);
        Some(due.saturating_duration_since(tokio::time::Instant::now()))
    }

    /// Period of volume remounts of this pod, spread over pods to avoid bursts.
    pub(super) fn volume_refresh_period(&self, uid: &str) -> Duration {
        let every = self.deps.settings.refresh;
        let part = uid.bytes().fold(0_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(byte))
        }) % 50;
        every + every * part / 100
    }

    // --- Cleanup ---

    /// Removes all containers and sandboxes of a pod.
    async fn remove_containers(
        &self,
        runtime: &dyn Runtime,
        snapshot: &PodSnapshot,
    ) -> Result<(), RuntimeError> {
        let limit = self.deps.settings.stop_limit;
        for instance in &snapshot.containers {
            with_timeout(limit, "RemoveContainer", runtime.remove_container(&instance.id)).await?;
        }
        for sandbox in &snapshot.sandboxes {
            with_timeout(limit, "StopPodSandbox", runtime.stop_pod_sandbox(&sandbox.id)).await?;
            with_timeout(limit, "RemovePodSandbox", runtime.remove_pod_sandbox(&sandbox.id)).await?;
        }
        Ok(())
    }

    /// Removes the log directory of a pod.
    fn remove_logs(&self, pod: &PodIdentity) {
        let directory = self.deps.settings.log_directory(pod);
        match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(directory = %directory.display(), %error, "failed to remove the logs of a pod");
            }
            _ => {}
        }
    }
}

/// Whether the API status of the pod names any container.
fn had_containers(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return false;
    };
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    all.any(|status| status.container_id.as_ref().is_some_and(|id| !id.is_empty()))
}

// --- PodEntry ---

impl PodEntry {
    /// The pod with its allocated resources.
    // upstream: pkg/kubelet/allocation/allocation_manager.go UpdatePodFromAllocation
    pub(super) fn with_allocated_resources(&self) -> Pod {
        match &self.resource_info {
            Some(resource_info) => resource_info.apply_to(&self.pod),
            None => Pod::clone(&self.pod),
        }
    }

    /// The pending resize, and the resize in progress.
    fn resize_status(&self) -> (Option<ResizePending>, Option<ResizeInProgress>) {
        use super::allocation_state::ResizeRejection;
        let pending = self.resize_rejection.as_ref().map(|(rejection, generation)| {
            let (infeasible, message) = match rejection {
                ResizeRejection::Infeasible(message) => (true, message.clone()),
                ResizeRejection::Deferred(message) => (false, message.clone()),
            };
            ResizePending {
                infeasible,
                message,
                generation: *generation,
            }
        });
        let progress = self
            .resource_info
            .as_ref()
            .filter(|resource_info| resource_info.is_in_progress())
            .map(|_| ResizeInProgress {
                error: self.resize_error.clone(),
                generation: self.pod.metadata.generation,
            });
        (pending, progress)
    }

    /// Records the resources a container was started or updated with.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go setActuatedContainerResources
    pub(super) fn set_actuated(&mut self, name: &str, resources: ResourceRequirements) {
        self.resource_info
            .get_or_insert_default()
            .actuated
            .insert(name.to_owned(), resources);
    }
}
