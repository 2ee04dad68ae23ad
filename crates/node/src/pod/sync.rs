//! Applies the actions computed for a pod, in order.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go SyncPod

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    jiff::Timestamp,
};
use kubecontroller::events::EventType;

use super::{
    actions::{KillReason, NewSandbox, PodActions},
    container_gc::ContainerGc,
    runtime_class::lookup_runtime_handler,
    runtime_manager::RuntimeManager,
    spec::{self, ContainerType, dns_warnings},
    start::{ContainerStarter, StartError, waiting},
    status::PodSnapshot,
    stop::ContainerStopper,
    time,
    volume_refresher::VolumeRefresh,
    workers::NextSync,
};
use crate::{
    NodeFacts,
    identity::format_pod,
    images::{keyring::DockerKeyring, with_timeout},
    runtime::{ContainerId, ContainerState, Runtime, RuntimeError, SandboxId, SandboxSpec},
};

/// Retry delay after an error without a back-off of its own.
const RETRY: Duration = Duration::from_secs(10);
/// Delay after the first failure of a pull, so that the status shows the back-off soon.
const SHORT_RETRY: Duration = Duration::from_secs(1);
/// Retry delay while volumes cannot be mounted.
const VOLUME_RETRY: Duration = Duration::from_secs(3);

/// One sync of one pod.
pub(super) struct PodSync<'a> {
    pub manager: &'a RuntimeManager,
    pub runtime: Arc<dyn Runtime>,
    /// The pod with its allocated resources.
    pub pod: Arc<Pod>,
    pub snapshot: Arc<PodSnapshot>,
    pub facts: Arc<NodeFacts>,
}

/// Result of applying actions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SyncResult {
    /// Whether anything changed.
    pub changed: bool,
    /// When to retry.
    pub retry_at: Option<Timestamp>,
}

/// The sandbox to start containers in.
struct ActiveSandbox {
    id: SandboxId,
    spec: SandboxSpec,
    addresses: Vec<IpAddr>,
}

// --- SyncResult ---

impl SyncResult {
    /// Delay until the next sync.
    pub(super) fn next_sync(&self, now: Timestamp) -> NextSync {
        if self.changed {
            return Some(Duration::ZERO);
        }
        self.retry_at.map(|retry_at| time::duration_until(now, retry_at))
    }

    fn schedule_retry(&mut self, at: Timestamp) {
        self.retry_at = Some(self.retry_at.map_or(at, |retry_at| retry_at.min(at)));
    }
}

// --- PodSync ---

impl PodSync<'_> {
    /// Applies the actions.
    pub(super) async fn apply(&self, actions: PodActions) -> SyncResult {
        let mut result = SyncResult::default();
        if let Err(error) = self.stop_containers(&actions, &mut result).await {
            tracing::warn!(pod = format_pod(&self.pod), %error, "failed to stop containers");
            result.schedule_retry(self.later_by(RETRY));
            return result;
        }
        if actions.kill_pod && actions.sandbox.is_none() {
            return result;
        }
        let starts = !(actions.ephemeral.is_empty() && actions.init.is_empty() && actions.regular.is_empty());
        let refresh = if starts || actions.sandbox.is_some() {
            VolumeRefresh::BeforeStart
        } else {
            VolumeRefresh::IfDue
        };
        let refresher = &self.manager.volume_refresher;
        if let Err(error) = refresher
            .refresh(self.uid(), &self.pod, &self.facts, refresh)
            .await
        {
            tracing::debug!(pod = format_pod(&self.pod), %error, "failed to mount volumes");
            result.schedule_retry(self.later_by(VOLUME_RETRY));
            // Running containers keep their volumes.
            if refresh == VolumeRefresh::BeforeStart {
                return result;
            }
        }
        let Some(sandbox) = self.ensure_sandbox(&actions, &mut result).await else {
            return result;
        };
        self.update_resources(&actions, &mut result).await;
        if starts {
            Box::pin(self.start_containers(&actions, &sandbox, &mut result)).await;
        }
        // After a change the next sync prunes, with a newer snapshot.
        if !result.changed {
            let gc = ContainerGc {
                runtime: &*self.runtime,
                limit: self.manager.settings.stop_limit,
            };
            gc.prune(&self.snapshot).await;
        }
        result
    }

    /// Stops and removes containers before anything is started.
    async fn stop_containers(
        &self,
        actions: &PodActions,
        result: &mut SyncResult,
    ) -> Result<(), RuntimeError> {
        let stopper = self.stopper();
        let limit = self.manager.settings.stop_limit;
        if actions.kill_pod {
            if actions.sandbox.is_some_and(|sandbox| sandbox.replaces) {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                self.manager
                    .events
                    .record_pod_event(&self.pod, EventType::Normal, "SandboxChanged", message);
            }
            let was_alive = self.snapshot.any_running() || self.snapshot.ready_sandboxes() > 0;
            stopper.stop_pod(&self.snapshot, None).await?;
            result.changed |= was_alive;
            if actions.sandbox.is_some() {
                // Init containers of the old sandbox have to run again in the new one.
                // upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go purgeInitContainers
                for id in self.init_containers() {
                    with_timeout(limit, "RemoveContainer", self.runtime.remove_container(&id)).await?;
                }
            }
            return Ok(());
        }
        for kill in &actions.kill {
            if let Some(instance) = self
                .snapshot
                .containers
                .iter()
                .find(|instance| instance.id == kill.id)
            {
                stopper
                    .stop_container(instance, Some(&kill.message), kill.reason, None)
                    .await?;
                result.changed = true;
            }
        }
        for reset in &actions.reset {
            if let Some(instance) = self
                .snapshot
                .containers
                .iter()
                .find(|instance| instance.id == reset.id)
            {
                if reset.kill {
                    let at_once = Some(Duration::ZERO);
                    stopper
                        .stop_container(instance, Some("killing"), KillReason::Other, at_once)
                        .await?;
                }
                with_timeout(
                    limit,
                    "RemoveContainer",
                    self.runtime.remove_container(&instance.id),
                )
                .await?;
                result.changed = true;
            }
        }
        Ok(())
    }

    /// All instances of init containers.
    fn init_containers(&self) -> Vec<ContainerId> {
        let spec = self.pod.spec.as_ref();
        let init = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let instances = init.flat_map(|init| self.snapshot.all(&init.name));
        instances.map(|instance| instance.id.clone()).collect()
    }

    /// The existing sandbox, or a new one.
    async fn ensure_sandbox(&self, actions: &PodActions, result: &mut SyncResult) -> Option<ActiveSandbox> {
        let settings = &self.manager.settings;
        let attempt = match (actions.sandbox, self.snapshot.sandboxes.first()) {
            (Some(NewSandbox { attempt, .. }), _) => attempt,
            (None, Some(instance)) => instance.attempt,
            (None, None) => 0,
        };
        let logs = settings.log_directory(&crate::PodIdentity::of(&self.pod));
        let spec = match spec::generate_pod_sandbox_config(&self.pod, &self.facts, attempt, &logs) {
            Ok(spec) => spec,
            Err(error) => return self.sandbox_failed(&error, result),
        };
        if let Some(id) = actions.in_sandbox.clone() {
            let addresses = self.addresses();
            return Some(ActiveSandbox { id, spec, addresses });
        }
        for warning in dns_warnings(&self.pod, &self.facts) {
            self.manager.events.record_pod_event(
                &self.pod,
                EventType::Warning,
                warning.reason,
                warning.message,
            );
        }
        // The directory records that the runtime may have a sandbox of the pod, even if its creation is interrupted.
        if let Err(error) = tokio::fs::create_dir_all(self.directory()).await {
            let message = format!("error making pod data directories: {error}");
            self.manager
                .events
                .record_pod_event(&self.pod, EventType::Warning, "Failed", message);
            result.schedule_retry(self.later_by(RETRY));
            return None;
        }
        let mut spec = spec;
        spec.handler = match lookup_runtime_handler(&*self.manager.sources, &self.pod).await {
            Ok(handler) => handler,
            Err(error) => return self.sandbox_failed(&error, result),
        };
        let creation = with_timeout(
            self.manager.settings.start_limit,
            "RunPodSandbox",
            self.runtime.run_pod_sandbox(&spec),
        );
        let id = match self.manager.sandbox_limiter.run(creation).await {
            Ok(id) => id,
            Err(error) => return self.sandbox_failed(&error, result),
        };
        result.changed = true;
        let addresses = match self.addresses_of(&id).await {
            Ok(addresses) => addresses,
            Err(error) => {
                let message = format!("Unable to get pod sandbox status: {error}");
                self.manager.events.record_pod_event(
                    &self.pod,
                    EventType::Warning,
                    "FailedPodSandBoxStatus",
                    message,
                );
                return None;
            }
        };
        Some(ActiveSandbox { id, spec, addresses })
    }

    fn sandbox_failed(
        &self,
        error: &dyn std::fmt::Display,
        result: &mut SyncResult,
    ) -> Option<ActiveSandbox> {
        let message = format!("Failed to create pod sandbox: {error}");
        self.manager.events.record_pod_event(
            &self.pod,
            EventType::Warning,
            "FailedCreatePodSandBox",
            message,
        );
        result.changed = false;
        result.schedule_retry(self.later_by(RETRY));
        None
    }

    /// Addresses of a sandbox that was just created.
    async fn addresses_of(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError> {
        if self.shares_network() {
            return Ok(self.facts.addresses.clone());
        }
        // A relist would wait for other pods that are being started.
        let limit = self.manager.settings.start_limit;
        with_timeout(limit, "PodSandboxStatus", self.runtime.pod_sandbox_ips(id)).await
    }

    /// Updates resources of running containers in place.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go updatePodContainerResources
    async fn update_resources(&self, actions: &PodActions, result: &mut SyncResult) {
        let limit = self.manager.settings.start_limit;
        for (id, name) in &actions.update {
            let Some(container) = super::stop::find_container(&self.pod, name) else {
                continue;
            };
            let resources = spec::generate_container_resources(&self.pod, &container, &self.facts);
            let update = self.runtime.update_container_resources(id, &resources);
            let error = match with_timeout(limit, "UpdateContainerResources", update).await {
                Ok(()) => {
                    self.manager
                        .allocation_manager
                        .set_actuated_resources(self.uid(), &container)
                        .await;
                    result.changed = true;
                    String::new()
                }
                Err(error) => {
                    result.schedule_retry(self.later_by(RETRY));
                    error.to_string()
                }
            };
            self.manager
                .store
                .update(self.uid(), |entry| entry.resize_error = error);
        }
    }

    /// Starts containers: ephemeral, then init, then regular ones.
    async fn start_containers(&self, actions: &PodActions, sandbox: &ActiveSandbox, result: &mut SyncResult) {
        let (keyring, missing) = self.image_pull_secrets().await;
        let directory = self.directory();
        let starter = ContainerStarter {
            manager: self.manager,
            runtime: &*self.runtime,
            pod: &self.pod,
            snapshot: &self.snapshot,
            facts: &self.facts,
            keyring: &keyring,
            directory: &directory,
            sandbox: &sandbox.id,
            sandbox_spec: &sandbox.spec,
            addresses: &sandbox.addresses,
        };
        let Some(spec) = &self.pod.spec else {
            return;
        };
        let mut pull_failed = false;
        let ephemeral = spec.ephemeral_containers.as_deref().unwrap_or_default();
        for container in select(&actions.ephemeral, ephemeral) {
            let container = spec::ephemeral_as_container(container);
            pull_failed |= self
                .start_container(&starter, &container, ContainerType::Ephemeral, result)
                .await
                == StartOutcome::ImageUnavailable;
        }
        let init = spec.init_containers.as_deref().unwrap_or_default();
        for container in select(&actions.init, init) {
            let started = self
                .start_container(&starter, container, ContainerType::Init, result)
                .await;
            pull_failed |= started == StartOutcome::ImageUnavailable;
            let is_sidecar = super::status::restart::is_restartable_init_container(container);
            if started != StartOutcome::Started && !is_sidecar {
                break;
            }
        }
        for container in select(&actions.regular, &spec.containers) {
            pull_failed |= self
                .start_container(&starter, container, ContainerType::Regular, result)
                .await
                == StartOutcome::ImageUnavailable;
        }
        if pull_failed && !missing.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            let reason = "FailedToRetrieveImagePullSecret";
            self.manager
                .events
                .record_pod_event(&self.pod, EventType::Warning, reason, message);
        }
    }

    /// Starts a container, unless it is in back-off.
    async fn start_container(
        &self,
        starter: &ContainerStarter<'_>,
        container: &Container,
        kind: ContainerType,
        result: &mut SyncResult,
    ) -> StartOutcome {
        let uid = self.uid();
        let name = &container.name;
        let now = self.manager.clock.now();
        if let Some(until) = self
            .manager
            .store
            .read(uid, |entry| entry.retry_after.get(name).copied())
            .flatten()
            && until > now
        {
            result.schedule_retry(until);
            return StartOutcome::Waiting;
        }
        let started = match self.check_backoff(container, now) {
            Some(start_error) => Err(start_error),
            None => starter.start(container, kind).await,
        };
        match started {
            Ok(()) => {
                result.changed = true;
                self.manager
                    .allocation_manager
                    .set_actuated_resources(self.uid(), container)
                    .await;
                self.manager.store.update(uid, |entry| {
                    entry.waiting.remove(name);
                    entry.retry_after.remove(name);
                });
                StartOutcome::Started
            }
            Err(StartError { waiting, retry_at }) => {
                let no_image = waiting.reason == "ErrImagePull";
                // A start error is retried soon, so that the status changes to the BackOff reason. A container in back-off is retried when
                // the back-off ends.
                let is_backoff = waiting.reason.ends_with("BackOff");
                let until = match retry_at {
                    Some(_) if !is_backoff => self.later_by(SHORT_RETRY),
                    Some(until) => until,
                    None => self.later_by(RETRY),
                };
                result.schedule_retry(until);
                self.manager.store.update(uid, |entry| {
                    entry.waiting.insert(name.clone(), waiting);
                    if !is_backoff {
                        entry.retry_after.insert(name.clone(), until);
                    }
                });
                if no_image {
                    StartOutcome::ImageUnavailable
                } else {
                    StartOutcome::Waiting
                }
            }
        }
    }

    /// The waiting reason of a container in restart back-off. If the container is not in back-off, returns `None` and
    /// increases its next back-off.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff
    fn check_backoff(&self, container: &Container, now: Timestamp) -> Option<StartError> {
        let mut all = self.snapshot.all(&container.name);
        let finished = all.find_map(|instance| match &instance.state {
            ContainerState::Exited(exit) => Some(exit.finished),
            _ => None,
        })?;
        let (until, time) = self
            .manager
            .restart_backoff
            .next(self.uid(), container, finished, now)?;
        let name = &container.name;
        let pod = format_pod(&self.pod);
        let message = format!("Back-off restarting failed container {name} in pod {pod}");
        self.manager.events.record_container_event(
            &self.pod,
            container,
            None,
            EventType::Warning,
            "BackOff",
            &message,
        );
        let time = k3_duration::format(time);
        let message = format!("back-off {time} restarting failed container={name} pod={pod}");
        Some(StartError {
            waiting: waiting("CrashLoopBackOff", message),
            retry_at: Some(until),
        })
    }

    /// The image pull secrets of the pod, and the names of those that are missing.
    // upstream: pkg/kubelet/kubelet_pods.go getPullSecretsForPod
    async fn image_pull_secrets(&self) -> (DockerKeyring, Vec<String>) {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let spec = self.pod.spec.as_ref();
        let references = spec
            .and_then(|spec| spec.image_pull_secrets.as_deref())
            .unwrap_or_default();
        for reference in references {
            if reference.name.is_empty() {
                continue;
            }
            match self.manager.sources.secret(namespace, &reference.name).await {
                Ok(Some(secret)) => found.push(secret),
                Ok(None) | Err(_) => missing.push(reference.name.clone()),
            }
        }
        (
            DockerKeyring::from_secrets(found.iter().map(|secret| &**secret)),
            missing,
        )
    }

    fn stopper(&self) -> ContainerStopper<'_> {
        ContainerStopper {
            runtime: &*self.runtime,
            pod: Some(&self.pod),
            addresses: self.snapshot.addresses(),
            events: &self.manager.events,
            limit: self.manager.settings.stop_limit,
        }
    }

    /// IPs of the pod.
    fn addresses(&self) -> Vec<IpAddr> {
        if self.shares_network() {
            return self.facts.addresses.clone();
        }
        self.snapshot.addresses().to_vec()
    }

    fn shares_network(&self) -> bool {
        self.pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.host_network == Some(true))
    }

    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    fn directory(&self) -> PathBuf {
        self.manager.directories().pod(self.uid())
    }

    fn later_by(&self, by: Duration) -> Timestamp {
        time::add_duration(self.manager.clock.now(), by)
    }
}

fn select<'a, T>(indexes: &[usize], all: &'a [T]) -> Vec<&'a T> {
    indexes.iter().filter_map(|at| all.get(*at)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartOutcome {
    Started,
    Waiting,
    ImageUnavailable,
}
