//! Which containers of a pod are looked at, by what is told of them. Pure.

use k8s_openapi::{
    api::core::v1::{Container, Pod, Probe},
    jiff::Timestamp,
};

use super::{Outcome, ProbeKind, ProbeResults};
use crate::{
    pod::status::{PodSnapshot, is_terminal, restart::is_restartable_init_container},
    runtime::{ContainerId, ContainerState},
};

/// One run of a container that is to be looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted<'a> {
    pub(super) container: &'a Container,
    pub(super) id: ContainerId,
    pub(super) kind: ProbeKind,
    pub(super) probe: &'a Probe,
    pub(super) since: Timestamp,
}

/// How many seconds a container has to end that failed this probe; `None` for those of its pod.
pub fn grace(container: &Container, kind: ProbeKind) -> Option<i64> {
    probe(container, kind)?.termination_grace_period_seconds
}

/// What is to be looked at now.
pub(super) fn plan<'a>(pod: &'a Pod, snapshot: &PodSnapshot, results: &ProbeResults) -> Vec<Wanted<'a>> {
    let Some(spec) = pod
        .spec
        .as_ref()
        .filter(|_| !pod.status.as_ref().is_some_and(is_terminal))
    else {
        return Vec::new();
    };
    let ending = pod.metadata.deletion_timestamp.is_some();
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|one| is_restartable_init_container(one));
    let mut plan = Vec::new();
    for container in sidecars.chain(&spec.containers) {
        let Some(newest) = snapshot.newest(&container.name) else {
            continue;
        };
        let ContainerState::Running { started: since } = newest.state else {
            continue;
        };
        let kinds: &[_] = match (is_up(pod, container, &newest.id, results), ending) {
            (false, false) => &[ProbeKind::Startup],
            (true, false) => &[ProbeKind::Liveness, ProbeKind::Readiness],
            // What ends is not begun again, but it says for itself when it takes no more work.
            (true, true) => &[ProbeKind::Readiness],
            (false, true) => &[],
        };
        let probes = kinds
            .iter()
            .filter_map(|kind| Some((*kind, probe(container, *kind)?)));
        plan.extend(probes.map(|(kind, probe)| Wanted {
            container,
            id: newest.id.clone(),
            kind,
            probe,
            since,
        }));
    }
    plan
}

/// Whether a container is up: by its probe, by what the API says of this very run of it, or because nothing says otherwise.
fn is_up(pod: &Pod, container: &Container, id: &ContainerId, results: &ProbeResults) -> bool {
    if let Some(outcome) = results.startup(id) {
        return outcome == Outcome::Success;
    }
    let status = pod.status.iter();
    let mut told = status
        .flat_map(|status| [&status.container_statuses, &status.init_container_statuses])
        .flatten()
        .flatten();
    let told = told.find(|told| {
        let run = told.container_id.as_ref().and_then(|id| id.split_once("://"));
        told.name == container.name && run.is_some_and(|(_, run)| run == id.0)
    });
    told.is_some_and(|told| told.started == Some(true)) || container.startup_probe.is_none()
}

fn probe(container: &Container, kind: ProbeKind) -> Option<&Probe> {
    match kind {
        ProbeKind::Startup => container.startup_probe.as_ref(),
        ProbeKind::Liveness => container.liveness_probe.as_ref(),
        ProbeKind::Readiness => container.readiness_probe.as_ref(),
    }
}
