//! Computes the status of a pod from the state of the runtime. Pure.
//!
//! ```text
//! snapshot    sandboxes and containers of the pod, newest first
//! restart     whether an exited container is restarted
//! containers  one status for each container
//! phase       Pending, Running, Succeeded, Failed
//! conditions  PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled, and conditions of other writers
//! addresses   of the pod and of its node
//! merge       the status written while containers may still run, and the final status
//! ```
//!
//! Usage: [`generate_api_pod_status`] at each sync of a pod. Its result is the next [`StatusInput::previous`]; its
//! phase shows whether the pod has finished. It is written as [`merge_pod_status`] returns it. After all containers of the pod
//! have terminated, [`terminated_status`] is the final status.
//!
//! Promises:
//! - A terminal phase (Succeeded or Failed) never changes.
//! - Restart counts never decrease.
//! - The transition time of a condition changes only with its status.
//! - The same input gives the same status: a status that equals the written one is not written again.

mod addresses;
mod conditions;
mod containers;
mod merge;
mod phase;
pub mod restart;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};

pub use self::{
    addresses::first_address,
    conditions::{ResizeInProgress, ResizePending},
    merge::{merge_pod_status, rejected_status, terminated_status},
    snapshot::PodSnapshot,
};
use crate::{NodeFacts, pod::spec::pod_resources, probes::ProbeResults, runtime::ContainerId};

/// Input of [`generate_api_pod_status`].
#[derive(Clone, Copy)]
pub struct StatusInput<'a> {
    /// The pod of the API with its allocated resources.
    pub pod: &'a Pod,
    /// The previous result; `None` after a start of the agent: then the status in the API counts.
    pub previous: Option<&'a PodStatus>,
    /// The sandboxes and containers of the pod.
    pub snapshot: &'a PodSnapshot,
    /// Probe results of the containers.
    pub probes: &'a ProbeResults,
    /// Why containers wait, by name: `ImagePullBackOff`, `CrashLoopBackOff`, `CreateContainerConfigError` ...
    pub waiting: &'a BTreeMap<String, WaitingReason>,
    /// Termination messages of exited containers.
    pub messages: &'a BTreeMap<ContainerId, String>,
    /// Resources that running containers have, by name, where they differ from the allocated ones.
    pub actuated: &'a BTreeMap<String, ResourceRequirements>,
    /// The pending resize, and the one in progress.
    pub resize: (Option<&'a ResizePending>, Option<&'a ResizeInProgress>),
    /// Name of the runtime: the scheme of container IDs.
    pub runtime: &'a str,
    /// Whether the runtime supports recursive read-only mounts.
    pub recursive_read_only: bool,
    /// Facts about the node.
    pub facts: &'a NodeFacts,
    /// State of the pod worker.
    pub worker_state: PodWorkerState,
    /// Why the node terminates the pod, if it does.
    pub termination_cause: Option<&'a TerminationCause>,
    /// Current time.
    pub now: Timestamp,
}

/// Why a container waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingReason {
    /// `CamelCase` reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

/// State of the worker of a pod.
// upstream: pkg/kubelet/pod_workers.go PodWorkerState
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodWorkerState {
    /// Containers are started and restarted.
    #[default]
    Syncing,
    /// Containers are being stopped; some may still run.
    Terminating,
    /// No container runs, and none will be started.
    Terminated,
}

/// Why the node terminates a pod. The phase becomes Failed, whatever the exit codes of the containers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminationCause {
    /// `CamelCase` reason: `Evicted`, `DeadlineExceeded`, `Terminated` ...
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Whether the pod gets the condition `DisruptionTarget`.
    pub disruption: bool,
}

// --- Status ---

/// Computes the status of a pod.
// upstream: pkg/kubelet/kubelet_pods.go generateAPIPodStatus
pub fn generate_api_pod_status(input: &StatusInput<'_>) -> PodStatus {
    let no_spec = PodSpec::default();
    let no_status = PodStatus::default();
    let pod = input.pod;
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let api = pod.status.as_ref().unwrap_or(&no_status);
    let old = input.previous.unwrap_or(api);

    let mut status = PodStatus {
        qos_class: Some(pod_resources::pod_qos(pod).to_owned()),
        ..PodStatus::default()
    };
    containers::fill_statuses(&mut status, input, spec, old);
    containers::fill_readiness(&mut status, input, spec, api);
    status.phase = Some(phase::get_phase(input, spec, &status).to_owned());
    resolve_phase(&mut status, input, api, old);
    conditions::fill_conditions(&mut status, input, spec, api, old);
    addresses::fill_addresses(&mut status, input, spec, api, old);
    let resources = pod_resources::pod_requests_and_limits(pod);
    status.allocated_resources.clone_from(&resources.requests);
    // A pending pod reports what it will get, a running one what is enforced.
    let runs = status.phase.as_deref() == Some(phase::RUNNING);
    status.resources = Some(if runs {
        pod_resources::enforced_resources(pod)
    } else {
        resources
    });
    merge::set_start_time(&mut status, old, input.now);
    status.observed_generation = pod.metadata.generation.max(old.observed_generation);
    status.volume_health.clone_from(&old.volume_health);
    merge::normalize_status(&mut status, spec);
    status
}

/// Keeps a terminal phase, and sets the reason and message that belong to the phase.
fn resolve_phase(status: &mut PodStatus, input: &StatusInput<'_>, api: &PodStatus, old: &PodStatus) {
    let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if !is_terminal(status) {
        let before = [old, api].into_iter().find(|before| is_terminal(before));
        if let Some(before) = before {
            status.phase.clone_from(&before.phase);
        }
    }
    if status.phase == old.phase {
        status.reason = non_empty(&old.reason).or_else(|| non_empty(&api.reason));
        status.message = non_empty(&old.message).or_else(|| non_empty(&api.message));
    }
    if let Some(cause) = input.termination_cause {
        status.phase = Some(phase::FAILED.to_owned());
        status.reason = Some(cause.reason.clone());
        status.message = Some(cause.message.clone());
    }
    if is_terminal(api) {
        status.phase.clone_from(&api.phase);
    }
}

/// Whether the phase is terminal.
// upstream: pkg/api/v1/pod/util.go IsPodPhaseTerminal
pub fn is_terminal(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some(phase::SUCCEEDED | phase::FAILED))
}

/// Whether a pod comes from a manifest file.
// upstream: pkg/kubelet/types/pod_update.go IsStaticPod
fn is_static_pod(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let source = annotations.and_then(|annotations| annotations.get("kubernetes.io/config.source"));
    source.is_some_and(|source| source != "api")
}

/// Truncates a timestamp to whole seconds, the resolution of `Time` in the API.
fn truncate_to_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn find_condition<'a>(conditions: Option<&'a Vec<PodCondition>>, kind: &str) -> Option<&'a PodCondition> {
    conditions?.iter().find(|condition| condition.type_ == kind)
}
