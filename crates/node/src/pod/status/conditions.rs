//! The conditions of a pod.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodCondition, PodSpec, PodStatus};

use super::{
    Course, Input, Seen, condition, phase,
    restart::{self, is_sidecar},
    seconds,
};

pub(super) const RESTARTING: &str = "AllContainersRestarting";
const SANDBOX: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
pub(super) const READY: &str = "Ready";
pub(super) const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
const RESIZE_PENDING: &str = "PodResizePending";
const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";
pub(super) const DISRUPTION: &str = "DisruptionTarget";

/// A resize that is asked for and not begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizePending {
    /// Whether it can never be done on this node (`Infeasible`), or only not now (`Deferred`).
    pub infeasible: bool,
    /// Why.
    pub message: String,
    /// The generation of the pod that asked for it.
    pub generation: Option<i64>,
}

/// A resize that is being done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeInProgress {
    /// What went wrong, if something did.
    pub error: String,
    /// The generation of the pod that asked for it.
    pub generation: Option<i64>,
}

/// A condition as it should be.
struct Wanted {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

/// Whether the kubelet alone says what the condition is.
pub(super) fn is_ours(kind: &str) -> bool {
    [
        SCHEDULED,
        READY,
        INITIALIZED,
        CONTAINERS_READY,
        RESIZE_IN_PROGRESS,
        RESIZE_PENDING,
        SANDBOX,
        RESTARTING,
    ]
    .contains(&kind)
}

/// All conditions: those of others as the API has them, then ours.
pub(super) fn fill(
    status: &mut PodStatus,
    input: &Input<'_>,
    spec: &PodSpec,
    api: &PodStatus,
    old: &PodStatus,
) {
    let mut conditions: Vec<_> = api.conditions.iter().flatten().cloned().collect();
    conditions.retain(|condition| !is_ours(&condition.type_));
    conditions.extend(resize(input, old));
    if let Some(disruption) = disruption(input, old) {
        conditions.retain(|condition| condition.type_ != DISRUPTION);
        conditions.push(disruption);
    }
    let phase = status.phase.as_deref().unwrap_or_default();
    let init = status.init_container_statuses.iter().flatten();
    let statuses: Vec<_> = init.chain(status.container_statuses.iter().flatten()).collect();
    let put = |wanted: Wanted, conditions: &mut Vec<PodCondition>| {
        let before = condition(old.conditions.as_ref(), wanted.kind);
        conditions.push(wanted.condition(before, input));
    };
    put(sandbox(input), &mut conditions);
    put(initialized(spec, &statuses, phase, old), &mut conditions);
    let containers = containers_ready(spec, &statuses, phase);
    put(ready(spec, &containers, &conditions), &mut conditions);
    put(containers, &mut conditions);
    put(Wanted::holds(SCHEDULED), &mut conditions);
    if restart::may_restart_all(spec) {
        put(restarting(input, spec, phase, old), &mut conditions);
    }
    status.conditions = Some(conditions);
}

/// What the readiness of a pod is that has ended, though it was ready a moment ago.
pub(super) fn end_readiness(status: &mut PodStatus, now: k8s_openapi::jiff::Timestamp) {
    let reason = over(status.phase.as_deref().unwrap_or_default());
    let is_true = |condition: &PodCondition| {
        [READY, CONTAINERS_READY].contains(&&*condition.type_) && condition.status == "True"
    };
    for condition in status.conditions.iter_mut().flatten().filter(|one| is_true(one)) {
        "False".clone_into(&mut condition.status);
        condition.reason = reason.map(str::to_owned);
        condition.message = None;
        condition.last_transition_time = Some(seconds(now));
    }
}

// --- Each of them ---

fn sandbox(input: &Input<'_>) -> Wanted {
    match sandbox_problem(input.seen, is_host_network(input)) {
        None => Wanted::holds(SANDBOX),
        Some(problem) => Wanted::fails(SANDBOX, "PodSandboxNotReady", problem.to_owned()),
    }
}

/// Why the pod needs another sandbox.
fn sandbox_problem(seen: &Seen, host_network: bool) -> Option<&'static str> {
    if seen.sandboxes.is_empty() {
        return Some("no pod sandbox exists");
    }
    if seen.ready_sandboxes() > 1 {
        return Some("multiple pod sandboxes are ready and need to be reconciled");
    }
    let Some(sandbox) = seen.ready_sandbox() else {
        return Some("pod sandbox is not ready");
    };
    if !host_network && sandbox.addresses.is_empty() {
        return Some("pod sandbox has no IP address");
    }
    None
}

fn is_host_network(input: &Input<'_>) -> bool {
    let spec = input.pod.spec.as_ref();
    spec.and_then(|spec| spec.host_network) == Some(true)
}

fn initialized(spec: &PodSpec, statuses: &[&ContainerStatus], phase: &str, old: &PodStatus) -> Wanted {
    let init = || spec.init_containers.iter().flatten();
    if statuses.is_empty() && init().next().is_some() {
        return Wanted::fails(INITIALIZED, "UnknownContainerStatuses", String::new());
    }
    let (mut unknown, mut incomplete) = (Vec::new(), Vec::new());
    for container in init() {
        match find(statuses, container) {
            None => unknown.push(container),
            Some(status) => {
                let through = if is_sidecar(container) {
                    status.started == Some(true)
                } else {
                    status.ready
                };
                if !through {
                    incomplete.push(container);
                }
            }
        }
    }
    if phase == phase::SUCCEEDED && unknown.is_empty() {
        return Wanted {
            reason: "PodCompleted",
            ..Wanted::holds(INITIALIZED)
        };
    }
    // Sidecars that are begun again do not put back a pod whose containers ran.
    let began = spec.containers.iter().any(|container| {
        let state = find(statuses, container).and_then(|status| status.state.as_ref());
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    // Nor does beginning all containers again.
    let was =
        || condition(old.conditions.as_ref(), INITIALIZED).is_some_and(|before| before.status == "True");
    let message = message(&[("unknown", &unknown), ("incomplete", &incomplete)]);
    if began || message.is_empty() || was() {
        return Wanted::holds(INITIALIZED);
    }
    Wanted::fails(INITIALIZED, "ContainersNotInitialized", message)
}

fn containers_ready(spec: &PodSpec, statuses: &[&ContainerStatus], phase: &str) -> Wanted {
    if statuses.is_empty() {
        return Wanted::fails(CONTAINERS_READY, "UnknownContainerStatuses", String::new());
    }
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|one| is_sidecar(one));
    let (mut unknown, mut unready) = (Vec::new(), Vec::new());
    for container in sidecars.chain(&spec.containers) {
        match find(statuses, container) {
            None => unknown.push(container),
            Some(status) if !status.ready => unready.push(container),
            Some(_) => {}
        }
    }
    let over = over(phase).filter(|_| phase == phase::FAILED || unknown.is_empty());
    if let Some(reason) = over {
        return Wanted::fails(CONTAINERS_READY, reason, String::new());
    }
    let message = message(&[("unknown", &unknown), ("unready", &unready)]);
    if message.is_empty() {
        return Wanted::holds(CONTAINERS_READY);
    }
    Wanted::fails(CONTAINERS_READY, "ContainersNotReady", message)
}

fn ready(spec: &PodSpec, containers: &Wanted, conditions: &[PodCondition]) -> Wanted {
    if !containers.holds {
        return Wanted::fails(READY, containers.reason, containers.message.clone());
    }
    let mut words = Vec::new();
    for gate in spec.readiness_gates.iter().flatten() {
        let kind = &gate.condition_type;
        match conditions.iter().find(|condition| condition.type_ == *kind) {
            None => words.push(format!(
                "corresponding condition of pod readiness gate \"{kind}\" does not exist."
            )),
            Some(condition) if condition.status != "True" => words.push(format!(
                "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                condition.status
            )),
            Some(_) => {}
        }
    }
    if words.is_empty() {
        return Wanted::holds(READY);
    }
    Wanted::fails(READY, "ReadinessGatesNotReady", words.join(", "))
}

fn restarting(input: &Input<'_>, spec: &PodSpec, phase: &str, old: &PodStatus) -> Wanted {
    if let Some(reason) = over(phase) {
        return Wanted::fails(RESTARTING, reason, String::new());
    }
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let there = containers.any(|container| input.seen.newest(&container.name).is_some());
    if !there || !restart::restarts_all(spec, input.seen, old) {
        return Wanted::fails(RESTARTING, "", String::new());
    }
    Wanted {
        reason: "RestartAllContainersStarted",
        message: "container exited with restart policy rule".to_owned(),
        ..Wanted::holds(RESTARTING)
    }
}

/// The conditions of a resize keep the generation that asked for it, and their time for as long as the reason is the same.
fn resize(input: &Input<'_>, old: &PodStatus) -> Vec<PodCondition> {
    if input.course == Course::Stopped {
        return Vec::new();
    }
    let make = |kind: &str, reason: &str, message: &str, generation: Option<i64>| {
        let reason = some(reason);
        let before = condition(old.conditions.as_ref(), kind).filter(|before| before.reason == reason);
        let since = before.and_then(|before| before.last_transition_time.clone());
        PodCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            message: some(message),
            reason,
            observed_generation: generation,
            last_transition_time: Some(since.unwrap_or_else(|| seconds(input.now))),
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

/// That the node ends the pod; said once, and kept.
fn disruption(input: &Input<'_>, old: &PodStatus) -> Option<PodCondition> {
    let before = condition(old.conditions.as_ref(), DISRUPTION);
    let Some(end) = input.end.filter(|end| end.disruption) else {
        return before.cloned();
    };
    let wanted = Wanted {
        reason: "TerminationByKubelet",
        message: end.message.clone(),
        ..Wanted::holds(DISRUPTION)
    };
    Some(wanted.condition(before, input))
}

/// Why the containers of a pod are not ready that has ended.
fn over(phase: &str) -> Option<&'static str> {
    match phase {
        phase::SUCCEEDED => Some("PodCompleted"),
        phase::FAILED => Some("PodFailed"),
        _ => None,
    }
}

fn message(groups: &[(&str, &[&Container])]) -> String {
    let groups = groups.iter().filter(|(_, containers)| !containers.is_empty());
    let parts = groups.map(|(word, containers)| {
        let names: Vec<_> = containers.iter().map(|container| &*container.name).collect();
        format!("containers with {word} status: [{}]", names.join(" "))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn find<'a>(statuses: &[&'a ContainerStatus], container: &Container) -> Option<&'a ContainerStatus> {
    statuses
        .iter()
        .copied()
        .find(|status| status.name == container.name)
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

// --- Wanted ---

impl Wanted {
    fn holds(kind: &'static str) -> Self {
        Wanted {
            kind,
            holds: true,
            reason: "",
            message: String::new(),
        }
    }

    fn fails(kind: &'static str, reason: &'static str, message: String) -> Self {
        Wanted {
            kind,
            holds: false,
            reason,
            message,
        }
    }

    fn condition(self, before: Option<&PodCondition>, input: &Input<'_>) -> PodCondition {
        let status = if self.holds { "True" } else { "False" };
        let before = before.filter(|before| before.status == status);
        let since = before.and_then(|before| before.last_transition_time.clone());
        PodCondition {
            type_: self.kind.to_owned(),
            status: status.to_owned(),
            reason: some(self.reason),
            message: some(&self.message),
            observed_generation: input.pod.metadata.generation,
            last_transition_time: Some(since.unwrap_or_else(|| seconds(input.now))),
            ..PodCondition::default()
        }
    }
}
