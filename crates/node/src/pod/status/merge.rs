//! Decides which part of a computed status is written to the API.

use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStatus, Pod, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

use super::{
    PodWorkerState,
    conditions::{self, DISRUPTION, is_owned_by_kubelet},
    containers::{LOST_MESSAGE, STATUS_UNKNOWN, lost_state},
    is_static_pod, is_terminal, phase,
    restart::is_restartable_init_container,
    truncate_to_seconds,
};
use crate::pod::spec::pod_resources;

/// Maximum size of all termination messages of a pod, in bytes.
const MAX_TERMINATION_MESSAGES: usize = 12 * 1024;

/// The status to write to the API. While containers may run, a terminal phase is withheld: controllers and the
/// scheduler would reuse resources that the pod still holds.
// upstream: pkg/kubelet/status/status_manager.go mergePodStatus
pub fn merge_pod_status(
    pod: &Pod,
    status: &PodStatus,
    worker_state: PodWorkerState,
    now: Timestamp,
) -> PodStatus {
    let nothing = PodStatus::default();
    let api = pod.status.as_ref().unwrap_or(&nothing);
    let mut merged = status.clone();
    let finishes = is_terminal(status) && !is_terminal(api);
    let may_run = worker_state != PodWorkerState::Terminated;

    let others = api
        .conditions
        .iter()
        .flatten()
        .filter(|one| !is_owned_by_kubelet(&one.type_));
    let mut all: Vec<_> = others.cloned().collect();
    for condition in status.conditions.iter().flatten() {
        if is_owned_by_kubelet(&condition.type_) {
            all.push(condition.clone());
        } else if condition.type_ == DISRUPTION && finishes && !may_run {
            all.retain(|one| one.type_ != DISRUPTION);
            all.push(condition.clone());
        }
    }
    merged.conditions = (!all.is_empty()).then_some(all);

    merged
        .resource_claim_statuses
        .clone_from(&api.resource_claim_statuses);
    merged
        .extended_resource_claim_status
        .clone_from(&api.extended_resource_claim_status);
    merged
        .node_allocatable_resource_claim_statuses
        .clone_from(&api.node_allocatable_resource_claim_statuses);
    if finishes && may_run {
        merged.phase.clone_from(&api.phase);
        merged.reason.clone_from(&api.reason);
        merged.message.clone_from(&api.message);
    }
    if is_terminal(&merged) {
        conditions::clear_readiness(&mut merged, now);
    }
    merged
}

/// The final status: containers whose exit was not observed count as failed.
// upstream: pkg/kubelet/status/status_manager.go TerminatePod
pub fn terminated_status(pod: &Pod, status: &PodStatus) -> PodStatus {
    let mut status = status.clone();
    let spec = pod.spec.clone().unwrap_or_default();
    if has_pod_initialized(&spec, pod.status.as_ref()) {
        status
            .container_statuses
            .iter_mut()
            .flatten()
            .for_each(mark_unobserved_exit);
    }
    let init = status.init_container_statuses.as_deref_mut().unwrap_or_default();
    let waits = |status: &ContainerStatus| {
        let state = status.state.as_ref();
        state.is_none_or(|state| state.waiting.is_some()) && !has_last_termination(status)
    };
    // Init containers after the last started one never ran.
    let last_started = init.iter().rposition(|status| !waits(status)).unwrap_or(0);
    init.iter_mut()
        .take(last_started + 1)
        .for_each(mark_unobserved_exit);
    if !is_static_pod(pod) && !is_terminal(&status) {
        status.phase = Some(phase::FAILED.to_owned());
    }
    status
}

/// The status of a pod that this node rejects.
// upstream: pkg/kubelet/kubelet.go rejectPod
pub fn rejected_status(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    PodStatus {
        phase: Some(phase::FAILED.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(format!("Pod was rejected: {message}")),
        qos_class: Some(pod_resources::pod_qos(pod).to_owned()),
        start_time: Some(before.start_time.unwrap_or_else(|| truncate_to_seconds(now))),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

/// Sets `startTime` once.
pub(super) fn set_start_time(status: &mut PodStatus, old: &PodStatus, now: Timestamp) {
    status.start_time = Some(old.start_time.clone().unwrap_or_else(|| truncate_to_seconds(now)));
}

/// Truncates times to seconds, and messages to the limit.
// upstream: pkg/kubelet/status/status_manager.go normalizeStatus
pub(super) fn normalize_status(status: &mut PodStatus, spec: &PodSpec) {
    let ephemeral = spec.ephemeral_containers.as_ref().map_or(0, Vec::len);
    let init = spec.init_containers.as_ref().map_or(0, Vec::len);
    let containers = spec.containers.len() + init + ephemeral;
    let max_length = MAX_TERMINATION_MESSAGES / containers.max(1);
    let lists = [
        &mut status.container_statuses,
        &mut status.init_container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    for status in lists.into_iter().flatten().flatten() {
        for state in [&mut status.state, &mut status.last_state].into_iter().flatten() {
            truncate_message(state, max_length);
        }
    }
    for condition in status.conditions.iter_mut().flatten() {
        truncate_time(&mut condition.last_transition_time);
        truncate_time(&mut condition.last_probe_time);
    }
    truncate_time(&mut status.start_time);
}

fn truncate_time(time: &mut Option<Time>) {
    if let Some(time) = time {
        *time = truncate_to_seconds(time.0);
    }
}

fn truncate_message(state: &mut ContainerState, max_length: usize) {
    let Some(message) = state.terminated.as_mut().and_then(|ended| ended.message.as_mut()) else {
        return;
    };
    if message.len() > max_length {
        let end = (0..=max_length).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
    }
}

fn mark_unobserved_exit(status: &mut ContainerStatus) {
    if status
        .state
        .as_ref()
        .is_none_or(|state| state.terminated.is_none())
    {
        status.state = Some(lost_state(STATUS_UNKNOWN, LOST_MESSAGE));
    }
}

fn has_last_termination(status: &ContainerStatus) -> bool {
    status
        .last_state
        .as_ref()
        .is_some_and(|last| last.terminated.is_some())
}

/// Whether regular containers have started, or were about to.
// upstream: pkg/kubelet/status/status_manager.go hasPodInitialized
fn has_pod_initialized(spec: &PodSpec, status: Option<&PodStatus>) -> bool {
    let init = spec.init_containers.as_deref().unwrap_or_default();
    if init.is_empty() {
        return true;
    }
    let Some(status) = status else {
        return false;
    };
    let mut regular = status.container_statuses.iter().flatten();
    if regular.any(|one| {
        has_last_termination(one) || one.state.as_ref().is_none_or(|state| state.waiting.is_none())
    }) {
        return true;
    }
    let last = status
        .init_container_statuses
        .as_ref()
        .and_then(|statuses| statuses.last());
    let Some(last) = last else {
        return false;
    };
    let Some(container) = init.iter().find(|container| container.name == last.name) else {
        return false;
    };
    if is_restartable_init_container(container) {
        let runs = last.state.as_ref().is_some_and(|state| state.running.is_some());
        return runs && last.started == Some(true);
    }
    let mut states = [&last.state, &last.last_state].into_iter().flatten();
    states.any(|state| {
        state
            .terminated
            .as_ref()
            .is_some_and(|ended| ended.exit_code == 0)
    })
}
