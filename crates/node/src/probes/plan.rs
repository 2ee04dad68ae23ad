//! Which containers of a pod are looked at, by what is told of them. Pure.

use k8s_openapi::{
    api::core::v1::{Container, ContainerStatus, Pod, PodStatus, Probe},
    jiff::Timestamp,
};

use super::ProbeKind;
use crate::{
    pod::status::{is_over, restart::is_sidecar},
    runtime::ContainerId,
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

/// The containers whose results are still of use: those that run.
pub(super) fn running<'a>(
    pod: &'a Pod,
    status: &'a PodStatus,
) -> Vec<(&'a Container, ContainerId, Timestamp, bool)> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let regular = spec
        .containers
        .iter()
        .map(|one| (one, &status.container_statuses));
    let init = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|one| is_sidecar(one));
    let all = regular.chain(init.map(|one| (one, &status.init_container_statuses)));
    let found = all.filter_map(|(container, statuses)| {
        let mut statuses = statuses.iter().flatten();
        let status = statuses.find(|status| status.name == container.name)?;
        let (id, since) = run(status)?;
        Some((container, id, since, status.started == Some(true)))
    });
    found.collect()
}

/// What is to be looked at now.
pub(super) fn plan<'a>(pod: &'a Pod, status: &'a PodStatus) -> Vec<Wanted<'a>> {
    if is_over(status) {
        return Vec::new();
    }
    let ending = pod.metadata.deletion_timestamp.is_some();
    let mut plan = Vec::new();
    for (container, id, since, started) in running(pod, status) {
        let kinds: &[_] = match (started, ending) {
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
            id: id.clone(),
            kind,
            probe,
            since,
        }));
    }
    plan
}

/// Which run of its container a status tells of, and since when it runs.
fn run(status: &ContainerStatus) -> Option<(ContainerId, Timestamp)> {
    let running = status.state.as_ref()?.running.as_ref()?;
    let (_runtime, id) = status.container_id.as_ref()?.split_once("://")?;
    Some((ContainerId(id.to_owned()), running.started_at.as_ref()?.0))
}

fn probe(container: &Container, kind: ProbeKind) -> Option<&Probe> {
    match kind {
        ProbeKind::Startup => container.startup_probe.as_ref(),
        ProbeKind::Liveness => container.liveness_probe.as_ref(),
        ProbeKind::Readiness => container.readiness_probe.as_ref(),
    }
}
