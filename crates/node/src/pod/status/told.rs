//! What of a status is written, and when.

use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStatus, Pod, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

use super::{
    Course,
    conditions::{self, DISRUPTION, is_ours},
    containers::{LOST, UNKNOWN, lost},
    is_over, is_static, phase,
    restart::is_sidecar,
    seconds,
};
use crate::pod::spec::amounts;

/// What all messages of a pod's containers may have in bytes.
const MESSAGES: usize = 12 * 1024;

/// What is written to the API of a computed status. While containers may run, a pod is not told to have ended: others would
/// take what it still uses.
pub fn told(pod: &Pod, status: &PodStatus, course: Course, now: Timestamp) -> PodStatus {
    let nothing = PodStatus::default();
    let api = pod.status.as_ref().unwrap_or(&nothing);
    let mut told = status.clone();
    let ends = is_over(status) && !is_over(api);
    let may_run = course != Course::Stopped;

    let others = api.conditions.iter().flatten().filter(|one| !is_ours(&one.type_));
    let mut all: Vec<_> = others.cloned().collect();
    for condition in status.conditions.iter().flatten() {
        if is_ours(&condition.type_) {
            all.push(condition.clone());
        } else if condition.type_ == DISRUPTION && ends && !may_run {
            all.retain(|one| one.type_ != DISRUPTION);
            all.push(condition.clone());
        }
    }
    told.conditions = (!all.is_empty()).then_some(all);

    told.resource_claim_statuses
        .clone_from(&api.resource_claim_statuses);
    told.extended_resource_claim_status
        .clone_from(&api.extended_resource_claim_status);
    told.node_allocatable_resource_claim_statuses
        .clone_from(&api.node_allocatable_resource_claim_statuses);
    if ends && may_run {
        told.phase.clone_from(&api.phase);
        told.reason.clone_from(&api.reason);
        told.message.clone_from(&api.message);
    }
    if is_over(&told) {
        conditions::end_readiness(&mut told, now);
    }
    told
}

/// The last status of a pod of which nothing is left: containers whose end nobody saw have failed, and so has the pod.
pub fn ended(pod: &Pod, status: &PodStatus) -> PodStatus {
    let mut status = status.clone();
    let spec = pod.spec.clone().unwrap_or_default();
    if was_initialized(&spec, pod.status.as_ref()) {
        status.container_statuses.iter_mut().flatten().for_each(give_up);
    }
    let init = status.init_container_statuses.as_deref_mut().unwrap_or_default();
    let waits = |status: &ContainerStatus| {
        let state = status.state.as_ref();
        state.is_none_or(|state| state.waiting.is_some()) && !has_last(status)
    };
    // Those after the last that began never did.
    let began = init.iter().rposition(|status| !waits(status)).unwrap_or(0);
    init.iter_mut().take(began + 1).for_each(give_up);
    if !is_static(pod) && !is_over(&status) {
        status.phase = Some(phase::FAILED.to_owned());
    }
    status
}

/// The status of a pod that this node will not run: `reason` is the check that refused it.
pub fn rejected(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> PodStatus {
    let before = pod.status.clone().unwrap_or_default();
    PodStatus {
        phase: Some(phase::FAILED.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(format!("Pod was rejected: {message}")),
        qos_class: Some(amounts::qos(pod).to_owned()),
        start_time: Some(before.start_time.unwrap_or_else(|| seconds(now))),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

/// When the node took the pod: that never changes.
pub(super) fn date(status: &mut PodStatus, old: &PodStatus, now: Timestamp) {
    status.start_time = Some(old.start_time.clone().unwrap_or_else(|| seconds(now)));
}

/// Times in whole seconds, and messages that fit.
pub(super) fn normalize(status: &mut PodStatus, spec: &PodSpec) {
    let ephemeral = spec.ephemeral_containers.as_ref().map_or(0, Vec::len);
    let init = spec.init_containers.as_ref().map_or(0, Vec::len);
    let containers = spec.containers.len() + init + ephemeral;
    let most = MESSAGES / containers.max(1);
    let lists = [
        &mut status.container_statuses,
        &mut status.init_container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    for status in lists.into_iter().flatten().flatten() {
        for state in [&mut status.state, &mut status.last_state].into_iter().flatten() {
            shorten(state, most);
        }
    }
    for condition in status.conditions.iter_mut().flatten() {
        whole(&mut condition.last_transition_time);
        whole(&mut condition.last_probe_time);
    }
    whole(&mut status.start_time);
}

fn whole(time: &mut Option<Time>) {
    if let Some(time) = time {
        *time = seconds(time.0);
    }
}

fn shorten(state: &mut ContainerState, most: usize) {
    let Some(message) = state.terminated.as_mut().and_then(|ended| ended.message.as_mut()) else {
        return;
    };
    if message.len() > most {
        let end = (0..=most).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
    }
}

fn give_up(status: &mut ContainerStatus) {
    if status
        .state
        .as_ref()
        .is_none_or(|state| state.terminated.is_none())
    {
        status.state = Some(lost(UNKNOWN, LOST));
    }
}

fn has_last(status: &ContainerStatus) -> bool {
    status
        .last_state
        .as_ref()
        .is_some_and(|last| last.terminated.is_some())
}

/// Whether there is a sign that the containers of a pod were begun, or about to be.
fn was_initialized(spec: &PodSpec, told: Option<&PodStatus>) -> bool {
    let init = spec.init_containers.as_deref().unwrap_or_default();
    if init.is_empty() {
        return true;
    }
    let Some(told) = told else {
        return false;
    };
    let mut regular = told.container_statuses.iter().flatten();
    if regular.any(|one| has_last(one) || one.state.as_ref().is_none_or(|state| state.waiting.is_none())) {
        return true;
    }
    let last = told
        .init_container_statuses
        .as_ref()
        .and_then(|statuses| statuses.last());
    let Some(last) = last else {
        return false;
    };
    let Some(container) = init.iter().find(|container| container.name == last.name) else {
        return false;
    };
    if is_sidecar(container) {
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
