//! Which probes of a pod have to run now. Pure functions.

use k8s_openapi::{
    api::core::v1::{Container, Pod, Probe},
    jiff::Timestamp,
};

use super::{ProbeOutcome, ProbeResults, ProbeType};
use crate::{
    pod::status::{PodSnapshot, is_terminal, restart::is_restartable_init_container},
    runtime::{ContainerId, ContainerState},
};

/// A probe that has to run for a running container.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ActiveProbe<'a> {
    pub(super) container: &'a Container,
    pub(super) container_id: ContainerId,
    pub(super) kind: ProbeType,
    pub(super) probe: &'a Probe,
    /// Start time of the container.
    pub(super) started: Timestamp,
}

/// The probes of a pod that have to run now.
// upstream: pkg/kubelet/prober/prober_manager.go AddPod
pub(super) fn active_probes<'a>(
    pod: &'a Pod,
    snapshot: &PodSnapshot,
    results: &ProbeResults,
) -> Vec<ActiveProbe<'a>> {
    let is_terminated = pod.status.as_ref().is_some_and(is_terminal);
    let Some(spec) = pod.spec.as_ref().filter(|_| !is_terminated) else {
        return Vec::new();
    };
    let is_terminating = pod.metadata.deletion_timestamp.is_some();
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|container| is_restartable_init_container(container));
    let mut active = Vec::new();
    for container in sidecars.chain(&spec.containers) {
        let Some(newest) = snapshot.newest(&container.name) else {
            continue;
        };
        let ContainerState::Running { started } = newest.state else {
            continue;
        };
        let is_started = is_container_started(pod, container, &newest.id, results);
        let kinds: &[_] = match (is_started, is_terminating) {
            (false, false) => &[ProbeType::Startup],
            (true, false) => &[ProbeType::Liveness, ProbeType::Readiness],
            // A terminating container is not restarted, but readiness still removes it from load balancing.
            (true, true) => &[ProbeType::Readiness],
            (false, true) => &[],
        };
        let probes = kinds
            .iter()
            .filter_map(|kind| Some((*kind, probe_of_kind(container, *kind)?)));
        active.extend(probes.map(|(kind, probe)| ActiveProbe {
            container,
            container_id: newest.id.clone(),
            kind,
            probe,
            started,
        }));
    }
    active
}

/// Whether the startup probe of a container succeeded. Before its first result, uses the API status of the same container ID. A
/// container without startup probe is started.
// upstream: pkg/kubelet/prober/prober_manager.go isContainerStarted
fn is_container_started(pod: &Pod, container: &Container, id: &ContainerId, results: &ProbeResults) -> bool {
    if let Some(outcome) = results.startup(id) {
        return outcome == ProbeOutcome::Success;
    }
    let mut api_statuses = pod
        .status
        .iter()
        .flat_map(|status| [&status.container_statuses, &status.init_container_statuses])
        .flatten()
        .flatten();
    let api_status = api_statuses.find(|status| {
        let id_parts = status.container_id.as_ref().and_then(|id| id.split_once("://"));
        status.name == container.name && id_parts.is_some_and(|(_, status_id)| status_id == id.0)
    });
    api_status.is_some_and(|status| status.started == Some(true)) || container.startup_probe.is_none()
}

fn probe_of_kind(container: &Container, kind: ProbeType) -> Option<&Probe> {
    match kind {
        ProbeType::Startup => container.startup_probe.as_ref(),
        ProbeType::Liveness => container.liveness_probe.as_ref(),
        ProbeType::Readiness => container.readiness_probe.as_ref(),
    }
}
