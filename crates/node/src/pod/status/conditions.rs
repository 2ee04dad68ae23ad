//! The conditions of a pod.
// upstream: pkg/kubelet/status/generate.go GeneratePodReadyCondition, GenerateContainersReadyCondition

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodCondition, PodSpec, PodStatus};

use super::{
    PodWorkerState, StatusInput, find_condition, phase,
    restart::{self, is_restartable_init_container},
    truncate_to_seconds,
};

pub(super) const ALL_CONTAINERS_RESTARTING: &str = "AllContainersRestarting";
const READY_TO_START_CONTAINERS: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
pub(super) const READY: &str = "Ready";
pub(super) const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
const RESIZE_PENDING: &str = "PodResizePending";
const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";
pub(super) const DISRUPTION: &str = "DisruptionTarget";

/// A requested resize that has not started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizePending {
    /// Whether the node can never fulfil the resize (`Infeasible`); otherwise the resize waits for resources (`Deferred`).
    pub infeasible: bool,
    /// Human-readable reason.
    pub message: String,
    /// Generation of the pod that requested it.
    pub generation: Option<i64>,
}

/// A resize in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeInProgress {
    /// The last error; empty if none.
    pub error: String,
    /// Generation of the pod that requested it.
    pub generation: Option<i64>,
}

struct DesiredCondition {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

/// Whether only the kubelet writes this condition.
// upstream: pkg/kubelet/types/pod_status.go PodConditionByKubelet
pub(super) fn is_owned_by_kubelet(kind: &str) -> bool {
    [
        SCHEDULED,
        READY,
        INITIALIZED,
        CONTAINERS_READY,
        RESIZE_IN_PROGRESS,
        RESIZE_PENDING,
        READY_TO_START_CONTAINERS,
        ALL_CONTAINERS_RESTARTING,
    ]
    .contains(&kind)
}

/// Sets all conditions: first the conditions of other writers, copied from the API, then the kubelet's.
pub(super) fn fill_conditions(
    status: &mut PodStatus,
    input: &StatusInput<'_>,
    spec: &PodSpec,
    api: &PodStatus,
    old: &PodStatus,
) {
    let mut conditions: Vec<_> = api.conditions.iter().flatten().cloned().collect();
    conditions.retain(|condition| !is_owned_by_kubelet(&condition.type_));
    conditions.extend(resize_conditions(input, old));
    if let Some(disruption) = disruption_condition(input, old) {
        conditions.retain(|condition| condition.type_ != DISRUPTION);
        conditions.push(disruption);
    }
    let phase = status.phase.as_deref().unwrap_or_default();
    let init = status.init_container_statuses.iter().flatten();
    let statuses: Vec<_> = init.chain(status.container_statuses.iter().flatten()).collect();
    let put = |desired: DesiredCondition, conditions: &mut Vec<PodCondition>| {
        let before = find_condition(old.conditions.as_ref(), desired.kind);
        conditions.push(desired.condition(before, input));
    };
    put(pod_ready_to_start_containers_condition(input), &mut conditions);
    put(
        pod_initialized_condition(spec, &statuses, phase, old),
        &mut conditions,
    );
    let containers = containers_ready_condition(spec, &statuses, phase);
    put(
        pod_ready_condition(spec, &containers, &conditions),
        &mut conditions,
    );
    put(containers, &mut conditions);
    put(DesiredCondition::holds(SCHEDULED), &mut conditions);
    if restart::could_restart_all(spec) {
        put(
            all_containers_restarting_condition(input, spec, phase, old),
            &mut conditions,
        );
    }
    status.conditions = Some(conditions);
}

/// Sets Ready and `ContainersReady` of a finished pod to False.
pub(super) fn clear_readiness(status: &mut PodStatus, now: k8s_openapi::jiff::Timestamp) {
    let reason = terminal_reason(status.phase.as_deref().unwrap_or_default());
    let is_true = |condition: &PodCondition| {
        [READY, CONTAINERS_READY].contains(&&*condition.type_) && condition.status == "True"
    };
    for condition in status.conditions.iter_mut().flatten().filter(|one| is_true(one)) {
        "False".clone_into(&mut condition.status);
        condition.reason = reason.map(str::to_owned);
        condition.message = None;
        condition.last_transition_time = Some(truncate_to_seconds(now));
    }
}

// --- Conditions ---

// upstream: pkg/kubelet/status/generate.go GeneratePodReadyToStartContainersCondition
fn pod_ready_to_start_containers_condition(input: &StatusInput<'_>) -> DesiredCondition {
    match pod_sandbox_changed(input) {
        None => DesiredCondition::holds(READY_TO_START_CONTAINERS),
        Some(problem) => DesiredCondition::fails(
            READY_TO_START_CONTAINERS,
            "PodSandboxNotReady",
            problem.to_owned(),
        ),
    }
}

/// Why the pod needs a new sandbox.
// upstream: pkg/kubelet/kuberuntime/util/util.go PodSandboxChanged
fn pod_sandbox_changed(input: &StatusInput<'_>) -> Option<&'static str> {
    let snapshot = input.snapshot;
    if snapshot.sandboxes.is_empty() {
        return Some("no pod sandbox exists");
    }
    if snapshot.ready_sandboxes() > 1 {
        return Some("multiple pod sandboxes are ready and need to be reconciled");
    }
    let Some(sandbox) = snapshot.ready_sandbox() else {
        return Some("pod sandbox is not ready");
    };
    if !is_host_network(input) && sandbox.addresses.is_empty() {
        return Some("pod sandbox has no IP address");
    }
    None
}

fn is_host_network(input: &StatusInput<'_>) -> bool {
    let spec = input.pod.spec.as_ref();
    spec.and_then(|spec| spec.host_network) == Some(true)
}

// upstream: pkg/kubelet/status/generate.go GeneratePodInitializedCondition
fn pod_initialized_condition(
    spec: &PodSpec,
    statuses: &[&ContainerStatus],
    phase: &str,
    old: &PodStatus,
) -> DesiredCondition {
    let init = || spec.init_containers.iter().flatten();
    if statuses.is_empty() && init().next().is_some() {
        return DesiredCondition::fails(INITIALIZED, "UnknownContainerStatuses", String::new());
    }
    let mut unknown = Vec::new();
    let mut incomplete = Vec::new();
    for container in init() {
        match find_status(statuses, container) {
            None => unknown.push(container),
            Some(status) => {
                let is_initialized = if is_restartable_init_container(container) {
                    status.started == Some(true)
                } else {
                    status.ready
                };
                if !is_initialized {
                    incomplete.push(container);
                }
            }
        }
    }
    if phase == phase::SUCCEEDED && unknown.is_empty() {
        return DesiredCondition {
            reason: "PodCompleted",
            ..DesiredCondition::holds(INITIALIZED)
        };
    }
    // A restarted sidecar does not reset a pod whose regular containers have started.
    let has_started_regular = spec.containers.iter().any(|container| {
        let state = find_status(statuses, container).and_then(|status| status.state.as_ref());
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    // RestartAllContainers does not reset it either.
    let was_initialized =
        || find_condition(old.conditions.as_ref(), INITIALIZED).is_some_and(|before| before.status == "True");
    let message = container_list_message(&[("unknown", &unknown), ("incomplete", &incomplete)]);
    if has_started_regular || message.is_empty() || was_initialized() {
        return DesiredCondition::holds(INITIALIZED);
    }
    DesiredCondition::fails(INITIALIZED, "ContainersNotInitialized", message)
}

// upstream: pkg/kubelet/status/generate.go GenerateContainersReadyCondition
fn containers_ready_condition(
    spec: &PodSpec,
    statuses: &[&ContainerStatus],
    phase: &str,
) -> DesiredCondition {
    if statuses.is_empty() {
        return DesiredCondition::fails(CONTAINERS_READY, "UnknownContainerStatuses", String::new());
    }
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|one| is_restartable_init_container(one));
    let mut unknown = Vec::new();
    let mut unready = Vec::new();
    for container in sidecars.chain(&spec.containers) {
        match find_status(statuses, container) {
            None => unknown.push(container),
            Some(status) if !status.ready => unready.push(container),
            Some(_) => {}
        }
    }
    let terminal = terminal_reason(phase).filter(|_| phase == phase::FAILED || unknown.is_empty());
    if let Some(reason) = terminal {
        return DesiredCondition::fails(CONTAINERS_READY, reason, String::new());
    }
    let message = container_list_message(&[("unknown", &unknown), ("unready", &unready)]);
    if message.is_empty() {
        return DesiredCondition::holds(CONTAINERS_READY);
    }
    DesiredCondition::fails(CONTAINERS_READY, "ContainersNotReady", message)
}

// upstream: pkg/kubelet/status/generate.go GeneratePodReadyCondition
fn pod_ready_condition(
    spec: &PodSpec,
    containers: &DesiredCondition,
    conditions: &[PodCondition],
) -> DesiredCondition {
    if !containers.holds {
        return DesiredCondition::fails(READY, containers.reason, containers.message.clone());
    }
    let mut messages = Vec::new();
    for gate in spec.readiness_gates.iter().flatten() {
        let kind = &gate.condition_type;
        match conditions.iter().find(|condition| condition.type_ == *kind) {
            None => messages.push(format!(
                "corresponding condition of pod readiness gate \"{kind}\" does not exist."
            )),
            Some(condition) if condition.status != "True" => messages.push(format!(
                "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                condition.status
            )),
            Some(_) => {}
        }
    }
    if messages.is_empty() {
        return DesiredCondition::holds(READY);
    }
    DesiredCondition::fails(READY, "ReadinessGatesNotReady", messages.join(", "))
}

// upstream: pkg/kubelet/status/generate.go GenerateAllContainersRestartingCondition
fn all_containers_restarting_condition(
    input: &StatusInput<'_>,
    spec: &PodSpec,
    phase: &str,
    old: &PodStatus,
) -> DesiredCondition {
    if let Some(reason) = terminal_reason(phase) {
        return DesiredCondition::fails(ALL_CONTAINERS_RESTARTING, reason, String::new());
    }
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let has_instance = containers.any(|container| input.snapshot.newest(&container.name).is_some());
    if !has_instance || !restart::should_all_containers_restart(spec, input.snapshot, old) {
        return DesiredCondition::fails(ALL_CONTAINERS_RESTARTING, "", String::new());
    }
    DesiredCondition {
        reason: "RestartAllContainersStarted",
        message: "container exited with restart policy rule".to_owned(),
        ..DesiredCondition::holds(ALL_CONTAINERS_RESTARTING)
    }
}

/// Resize conditions keep the generation that requested the resize, and their transition time while the reason is the same.
// upstream: pkg/kubelet/kubelet_pods.go determinePodResizeStatus
fn resize_conditions(input: &StatusInput<'_>, old: &PodStatus) -> Vec<PodCondition> {
    if input.worker_state == PodWorkerState::Terminated {
        return Vec::new();
    }
    let make = |kind: &str, reason: &str, message: &str, generation: Option<i64>| {
        let reason = non_empty(reason);
        let before = find_condition(old.conditions.as_ref(), kind).filter(|before| before.reason == reason);
        let since = before.and_then(|before| before.last_transition_time.clone());
        PodCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            message: non_empty(message),
            reason,
            observed_generation: generation,
            last_transition_time: Some(since.unwrap_or_else(|| truncate_to_seconds(input.now))),
            ..PodCondition::default()
        }
    };
    let (pending, in_progress) = input.resize;
    let pending = pending.map(|resize| {
        let reason = if resize.infeasible {
            "Infeasible"
        } else {
            "Deferred"
        };
        make(RESIZE_PENDING, reason, &resize.message, resize.generation)
    });
    let in_progress = in_progress.map(|resize| {
        let reason = if resize.error.is_empty() { "" } else { "Error" };
        make(RESIZE_IN_PROGRESS, reason, &resize.error, resize.generation)
    });
    pending.into_iter().chain(in_progress).collect()
}

/// The condition `DisruptionTarget` of a pod that the node terminates; kept once set.
fn disruption_condition(input: &StatusInput<'_>, old: &PodStatus) -> Option<PodCondition> {
    let before = find_condition(old.conditions.as_ref(), DISRUPTION);
    let Some(cause) = input.termination_cause.filter(|cause| cause.disruption) else {
        return before.cloned();
    };
    let desired = DesiredCondition {
        reason: "TerminationByKubelet",
        message: cause.message.clone(),
        ..DesiredCondition::holds(DISRUPTION)
    };
    Some(desired.condition(before, input))
}

/// The reason of unready containers in a finished pod.
// upstream: pkg/kubelet/status/generate.go generateContainersReadyConditionForTerminalPhase
fn terminal_reason(phase: &str) -> Option<&'static str> {
    match phase {
        phase::SUCCEEDED => Some("PodCompleted"),
        phase::FAILED => Some("PodFailed"),
        _ => None,
    }
}

fn container_list_message(groups: &[(&str, &[&Container])]) -> String {
    let groups = groups.iter().filter(|(_, containers)| !containers.is_empty());
    let parts = groups.map(|(status, containers)| {
        let names: Vec<_> = containers.iter().map(|container| &*container.name).collect();
        format!("containers with {status} status: [{}]", names.join(" "))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn find_status<'a>(statuses: &[&'a ContainerStatus], container: &Container) -> Option<&'a ContainerStatus> {
    statuses
        .iter()
        .copied()
        .find(|status| status.name == container.name)
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

// --- DesiredCondition ---

impl DesiredCondition {
    fn holds(kind: &'static str) -> Self {
        DesiredCondition {
            kind,
            holds: true,
            reason: "",
            message: String::new(),
        }
    }

    fn fails(kind: &'static str, reason: &'static str, message: String) -> Self {
        DesiredCondition {
            kind,
            holds: false,
            reason,
            message,
        }
    }

    fn condition(self, before: Option<&PodCondition>, input: &StatusInput<'_>) -> PodCondition {
        let status = if self.holds { "True" } else { "False" };
        let before = before.filter(|before| before.status == status);
        let since = before.and_then(|before| before.last_transition_time.clone());
        PodCondition {
            type_: self.kind.to_owned(),
            status: status.to_owned(),
            reason: non_empty(self.reason),
            message: non_empty(&self.message),
            observed_generation: input.pod.metadata.generation,
            last_transition_time: Some(since.unwrap_or_else(|| truncate_to_seconds(input.now))),
            ..PodCondition::default()
        }
    }
}
