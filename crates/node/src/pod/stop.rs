//! Stops containers, and pods with all their containers and sandboxes.
//!
//! Promises:
//! - The `preStop` hook and the wait for the termination order are part of the grace period.
//! - Sidecars stop after the containers they serve, in reverse order (KEP-753).
//! - A container always gets a minimum grace period.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::{Container, Pod};
use kubecontroller::events::EventType;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    actions::KillReason,
    events::PodEventRecorder,
    hooks::{self, HookContext},
    spec::{self, ContainerAnnotations},
    status::{PodSnapshot, restart},
};
use crate::{
    images::with_timeout,
    runtime::{self, ContainerState, Runtime, RuntimeError, SandboxState},
};

/// Minimum grace period.
const MINIMUM_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Stops containers of one pod.
pub(super) struct ContainerStopper<'a> {
    pub runtime: &'a dyn Runtime,
    /// `None` if the pod is unknown and only its containers remain.
    pub pod: Option<&'a Pod>,
    /// Pod IPs, for hooks.
    pub addresses: &'a [IpAddr],
    pub events: &'a PodEventRecorder,
    /// Timeout of a runtime call beyond the grace period.
    pub limit: Duration,
}

/// Termination order of the containers of a pod: sidecars after the containers that use them.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_termination_order.go terminationOrdering
struct TerminationOrdering {
    /// The containers that have to terminate before the container of this name.
    before: BTreeMap<String, BTreeSet<String>>,
    /// Names of the terminated containers.
    ended: watch::Sender<BTreeSet<String>>,
}

// --- ContainerStopper ---

impl ContainerStopper<'_> {
    /// Stops all containers, each within its grace period (or `grace`), then the sandboxes.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go killPodWithSyncResult
    pub(super) async fn stop_pod(
        &self,
        snapshot: &PodSnapshot,
        grace: Option<Duration>,
    ) -> Result<(), RuntimeError> {
        let running: Vec<_> = snapshot
            .containers
            .iter()
            .filter(|instance| {
                matches!(
                    instance.state,
                    ContainerState::Running { .. } | ContainerState::Unknown
                )
            })
            .collect();
        let names = running.iter().map(|instance| instance.name.clone()).collect();
        let ordering = self.pod.map(|pod| TerminationOrdering::new(pod, &names));
        let mut stops: Vec<BoxFuture<'_, Result<(), RuntimeError>>> = Vec::new();
        for instance in running {
            stops.push(Box::pin(self.stop_in_order(instance, grace, ordering.as_ref())));
        }
        join_all(stops).await.into_iter().collect::<Result<(), _>>()?;
        for sandbox in &snapshot.sandboxes {
            // An exited sandbox may still have its network, so the newest one is stopped again.
            let is_newest = snapshot
                .sandboxes
                .first()
                .is_some_and(|newest| newest.id == sandbox.id);
            if sandbox.state == SandboxState::Ready || is_newest {
                with_timeout(
                    self.limit,
                    "StopPodSandbox",
                    self.runtime.stop_pod_sandbox(&sandbox.id),
                )
                .await?;
            }
        }
        Ok(())
    }

    /// Stops one container, and notifies those that wait for it.
    async fn stop_in_order(
        &self,
        instance: &runtime::Container,
        grace: Option<Duration>,
        ordering: Option<&TerminationOrdering>,
    ) -> Result<(), RuntimeError> {
        let ended = self
            .stop_container_in_order(instance, None, KillReason::Other, grace, ordering)
            .await;
        if let Some(ordering) = ordering {
            ordering.ended.send_modify(|ended| {
                ended.insert(instance.name.clone());
            });
        }
        ended
    }

    /// Stops one container.
    pub(super) async fn stop_container(
        &self,
        instance: &runtime::Container,
        message: Option<&str>,
        reason: KillReason,
        grace: Option<Duration>,
    ) -> Result<(), RuntimeError> {
        self.stop_container_in_order(instance, message, reason, grace, None)
            .await
    }

    async fn stop_container_in_order(
        &self,
        instance: &runtime::Container,
        message: Option<&str>,
        reason: KillReason,
        grace: Option<Duration>,
        ordering: Option<&TerminationOrdering>,
    ) -> Result<(), RuntimeError> {
        let container_of_pod = self.pod.and_then(|pod| find_container(pod, &instance.name));
        let spec = container_of_pod.unwrap_or_else(|| restore_container_spec(instance));
        let mut remaining = grace.unwrap_or_else(|| self.grace_period(instance, &spec, reason));
        let orphaned_pod = orphaned_pod(instance);
        let pod = self.pod.unwrap_or(&orphaned_pod);
        let stopping = format!("Stopping container {}", instance.name);
        let message = message.unwrap_or(&stopping);
        self.events.record_container_event(
            pod,
            &spec,
            Some(&instance.id),
            EventType::Normal,
            "Killing",
            message,
        );

        if let Some(hook) = spec.lifecycle.as_ref().and_then(|hooks| hooks.pre_stop.as_ref())
            && !remaining.is_zero()
        {
            let started = Instant::now();
            let context = HookContext {
                runtime: self.runtime,
                pod,
                container: &spec,
                id: &instance.id,
                addresses: self.addresses,
            };
            // A hook that is not finished in time continues, and is killed with the container.
            if let Ok(Err(error)) = timeout(remaining, hooks::run_hook(&context, hook, remaining)).await {
                tracing::debug!(pod = %instance.pod, container = instance.name, %error, "preStop hook failed");
                let id = Some(&instance.id);
                self.events.record_container_event(
                    pod,
                    &spec,
                    id,
                    EventType::Warning,
                    "FailedPreStopHook",
                    "PreStopHook failed",
                );
            }
            remaining = remaining.saturating_sub(whole_seconds(started.elapsed()));
        }
        if let Some(ordering) = ordering
            && !remaining.is_zero()
        {
            let started = Instant::now();
            ordering.wait_for_turn(&instance.name, remaining).await;
            remaining = remaining.saturating_sub(whole_seconds(started.elapsed()));
        }
        let remaining = remaining.max(MINIMUM_GRACE_PERIOD);
        let stop = self.runtime.stop_container(&instance.id, remaining);
        match with_timeout(remaining + self.limit, "StopContainer", stop).await {
            Err(RuntimeError::NotFound(_)) => Ok(()),
            stopped => stopped,
        }
    }

    /// The grace period of a container.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go setTerminationGracePeriod
    fn grace_period(&self, instance: &runtime::Container, spec: &Container, reason: KillReason) -> Duration {
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let Some(pod) = self.pod else {
            let annotations = ContainerAnnotations::parse(&instance.annotations);
            return annotations
                .deletion_grace
                .or(annotations.termination_grace)
                .map_or(MINIMUM_GRACE_PERIOD, seconds);
        };
        if let Some(deleted) = pod.metadata.deletion_grace_period_seconds {
            return seconds(deleted);
        }
        let probe = match reason {
            KillReason::Liveness => spec.liveness_probe.as_ref(),
            KillReason::Startup => spec.startup_probe.as_ref(),
            KillReason::Other => None,
        };
        let of_probe = probe.and_then(|probe| probe.termination_grace_period_seconds);
        let of_pod = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        of_pod.map_or(MINIMUM_GRACE_PERIOD, |of_pod| seconds(of_probe.unwrap_or(of_pod)))
    }
}

// --- TerminationOrdering ---

impl TerminationOrdering {
    fn new(pod: &Pod, running: &BTreeSet<String>) -> Self {
        let mut before = BTreeMap::new();
        let spec = pod.spec.as_ref();
        let regular = spec.iter().flat_map(|spec| &spec.containers);
        let mut later: BTreeSet<String> = regular
            .map(|container| container.name.clone())
            .filter(|name| running.contains(name))
            .collect();
        let init = spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten().rev());
        for sidecar in init.filter(|container| restart::is_restartable_init_container(container)) {
            before.insert(sidecar.name.clone(), later.clone());
            if running.contains(&sidecar.name) {
                later.insert(sidecar.name.clone());
            }
        }
        TerminationOrdering {
            before,
            ended: watch::Sender::default(),
        }
    }

    async fn wait_for_turn(&self, name: &str, timeout_after: Duration) {
        if let Some(before) = self.before.get(name) {
            let mut ended = self.ended.subscribe();
            // On timeout the container is stopped out of order.
            let _ = timeout(timeout_after, ended.wait_for(|ended| before.is_subset(ended))).await;
        }
    }
}

/// The grace period is counted in whole seconds, rounded in favour of the container.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

/// A container spec restored from annotations.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go restoreSpecsFromContainerLabels
fn restore_container_spec(instance: &runtime::Container) -> Container {
    let annotations = ContainerAnnotations::parse(&instance.annotations);
    Container {
        name: instance.name.clone(),
        lifecycle: Some(k8s_openapi::api::core::v1::Lifecycle {
            pre_stop: annotations.pre_stop,
            ..Default::default()
        }),
        ..Container::default()
    }
}

/// A pod restored from a container.
pub(super) fn orphaned_pod(instance: &runtime::Container) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.namespace = Some(instance.pod.namespace.clone());
    pod.metadata.name = Some(instance.pod.name.clone());
    pod.metadata.uid = Some(instance.pod.uid.clone());
    pod
}

/// The container spec with this name, of any type.
pub(super) fn find_container(pod: &Pod, name: &str) -> Option<Container> {
    let all = pod.spec.as_ref()?;
    let mut usual = all.containers.iter().chain(all.init_containers.iter().flatten());
    let found = usual.find(|container| container.name == name).cloned();
    found.or_else(|| {
        let mut ephemeral = all.ephemeral_containers.iter().flatten();
        ephemeral
            .find(|container| container.name == name)
            .map(spec::ephemeral_as_container)
    })
}
