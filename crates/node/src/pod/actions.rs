//! Computes the actions for a pod that should run, from its spec and the state of the runtime. Pure.
//!
//! Promises:
//! - A running, healthy container whose spec did not change is left alone.
//! - Init containers run one after the other, each to completion. Restartable init containers (sidecars, KEP-753) keep
//!   running; the next one waits only until they have started. Regular containers start after all of them.
//! - When no container is left to run, the sandbox and everything in it are stopped.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus, ResourceRequirements};

use super::{
    allocation_state::ContainerResources,
    spec::{ContainerAnnotations, hash_container},
    status::{
        PodSnapshot,
        restart::{self, is_restartable_init_container},
    },
};
use crate::{
    probes::{ProbeOutcome, ProbeResults},
    runtime::{self, ContainerId, ContainerState, SandboxId, SandboxState},
};

/// Input of [`compute_pod_actions`].
#[derive(Clone, Copy)]
pub(super) struct PodActionsInput<'a> {
    /// The pod with its allocated resources.
    pub pod: &'a Pod,
    /// The sandboxes and containers of the pod.
    pub snapshot: &'a PodSnapshot,
    pub probes: &'a ProbeResults,
    /// The resources its containers were last started or updated with, by name.
    pub actuated: &'a BTreeMap<String, ResourceRequirements>,
}

/// The actions for a pod, in the order of the fields.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go podActions
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodActions {
    /// Stop all containers and sandboxes.
    pub kill_pod: bool,
    pub kill: Vec<ContainerToKill>,
    /// Remove these containers, after stopping those that run: the pod restarts in its sandbox (`RestartAllContainers`).
    pub reset: Vec<ContainerToRemove>,
    pub sandbox: Option<NewSandbox>,
    /// The sandbox to use, if there is a usable one.
    pub in_sandbox: Option<SandboxId>,
    /// Update resources of these containers in place.
    pub update: Vec<(ContainerId, String)>,
    /// Indexes of ephemeral containers to start.
    pub ephemeral: Vec<usize>,
    /// Indexes of init containers to start.
    pub init: Vec<usize>,
    /// Indexes of regular containers to start.
    pub regular: Vec<usize>,
}

/// A sandbox to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewSandbox {
    /// Number of sandboxes that the pod had before.
    pub attempt: u32,
    /// Whether it replaces an unusable one.
    pub replaces: bool,
}

/// A container to stop.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go containerToKillInfo
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ContainerToKill {
    pub id: ContainerId,
    pub name: String,
    /// Message of the event `Killing`.
    pub message: String,
    pub reason: KillReason,
}

/// A container to remove.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go containerToRemoveInfo
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ContainerToRemove {
    pub id: ContainerId,
    pub name: String,
    /// Whether the container has to be stopped first.
    pub kill: bool,
}

/// Why a container is stopped. A failed probe can have a grace period that differs from the pod's.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go containerKillReason
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillReason {
    Liveness,
    Startup,
    Other,
}

/// The actions for a pod that is not terminating.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions
pub(super) fn compute_pod_actions(input: &PodActionsInput<'_>) -> PodActions {
    let no_spec = PodSpec::default();
    let spec = input.pod.spec.as_ref().unwrap_or(&no_spec);
    let mut actions = PodActions::default();
    match usable_sandbox(spec, input.snapshot) {
        Ok(id) => actions.in_sandbox = Some(id),
        Err(new) => {
            recreate_sandbox(spec, input.snapshot, new, &mut actions);
            return actions;
        }
    }
    for (index, ephemeral) in spec.ephemeral_containers.iter().flatten().enumerate() {
        if input.snapshot.newest(&ephemeral.name).is_none() {
            actions.ephemeral.push(index);
        }
    }
    let initialized = compute_init_container_actions(spec, input, &mut actions);
    if !actions.kill_pod && initialized {
        regular_container_actions(spec, input, &mut actions);
    }
    actions
}

/// The actions for a pod whose containers all restart (KEP-5532).
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions
pub(super) fn compute_restart_actions(input: &PodActionsInput<'_>) -> PodActions {
    let no_spec = PodSpec::default();
    let spec = input.pod.spec.as_ref().unwrap_or(&no_spec);
    PodActions {
        in_sandbox: input.snapshot.sandboxes.first().map(|sandbox| sandbox.id.clone()),
        reset: containers_to_reset(spec, input.snapshot),
        ..PodActions::default()
    }
}

/// The usable sandbox, or the one to create.
// upstream: pkg/kubelet/kuberuntime/util/util.go PodSandboxChanged
fn usable_sandbox(spec: &PodSpec, snapshot: &PodSnapshot) -> Result<SandboxId, NewSandbox> {
    let Some(newest) = snapshot.sandboxes.first() else {
        return Err(NewSandbox {
            attempt: 0,
            replaces: false,
        });
    };
    let ready = snapshot
        .sandboxes
        .iter()
        .filter(|sandbox| sandbox.state == SandboxState::Ready);
    let uses_host_network = spec.host_network == Some(true);
    let is_usable = ready.count() == 1
        && newest.state == SandboxState::Ready
        && (uses_host_network || !newest.addresses.is_empty());
    if is_usable {
        return Ok(newest.id.clone());
    }
    Err(NewSandbox {
        attempt: newest.attempt + 1,
        replaces: true,
    })
}

/// Without a usable sandbox: stop everything, and start from the first init container.
fn recreate_sandbox(spec: &PodSpec, snapshot: &PodSnapshot, new: NewSandbox, actions: &mut PodActions) {
    actions.kill_pod = true;
    // With the restart policy Never, the containers of a lost sandbox do not run again.
    let never = spec.restart_policy.as_deref() == Some("Never");
    if never && new.attempt != 0 && !snapshot.containers.is_empty() {
        return;
    }
    let has_completed = |container: &Container| {
        restart_policy(container, spec) == "OnFailure"
            && snapshot.newest(&container.name).is_some_and(succeeded)
    };
    let containers = spec.containers.iter().enumerate();
    let to_start: Vec<_> = containers
        .filter(|(_, container)| !has_completed(container))
        .map(|(index, _)| index)
        .collect();
    let was_initialized = spec
        .containers
        .iter()
        .filter_map(|container| snapshot.newest(&container.name))
        .any(|container| container.state != ContainerState::Unknown);
    if to_start.is_empty() && was_initialized {
        return;
    }
    actions.sandbox = Some(new);
    if spec.init_containers.as_ref().is_some_and(|init| !init.is_empty()) {
        actions.init = vec![0];
    } else {
        actions.regular = to_start;
    }
}

/// Actions for init containers. Returns whether regular containers may start.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go computeInitContainerActions
fn compute_init_container_actions(
    spec: &PodSpec,
    input: &PodActionsInput<'_>,
    actions: &mut PodActions,
) -> bool {
    let init: &[Container] = spec.init_containers.as_deref().unwrap_or_default();
    if init.is_empty() {
        return true;
    }
    let current = actions.in_sandbox.clone();
    let active = |name: &str| {
        let mut all = input.snapshot.containers.iter();
        all.find(|instance| instance.name == name && Some(&instance.sandbox) == current.as_ref())
    };
    // A regular container in this sandbox proves that all init containers completed, even if the runtime has removed them.
    let mut initialized = spec.containers.iter().any(|container| {
        active(&container.name).is_some_and(|instance| instance.state != ContainerState::Unknown)
    });
    let mut later_container_exists = initialized;
    // In reverse order: the init containers before the last existing one have completed, even if they no longer exist.
    for (index, container) in init.iter().enumerate().rev() {
        let sidecar = is_restartable_init_container(container);
        let Some(instance) = active(&container.name) else {
            if later_container_exists && sidecar {
                actions.init.push(index);
            }
            continue;
        };
        if later_container_exists && !sidecar {
            continue;
        }
        let is_last = index + 1 == init.len();
        match &instance.state {
            ContainerState::Created => actions.init.push(index),
            ContainerState::Running { .. } if sidecar => {
                running_sidecar_actions(
                    init,
                    index,
                    instance,
                    input,
                    &mut later_container_exists,
                    &mut initialized,
                    actions,
                );
            }
            ContainerState::Running { .. } => {
                compute_resize_action(container, instance, input, actions);
            }
            ContainerState::Exited(_) if sidecar => actions.init.push(index),
            ContainerState::Exited(exit) if exit.code == 0 => {
                if is_last {
                    initialized = true;
                } else {
                    actions.init.push(index + 1);
                }
            }
            ContainerState::Exited(exit) => {
                if !should_restart(container, spec, input.pod, exit.code) {
                    return fail_pod(actions);
                }
                actions.init.push(index);
            }
            ContainerState::Unknown => {
                if !sidecar && restart_policy(container, spec) == "Never" {
                    return fail_pod(actions);
                }
                let message = "Init container is in \"unknown\" state, try killing it before restart";
                actions
                    .kill
                    .push(container_to_kill(instance, message.to_owned(), KillReason::Other));
                actions.init.push(index);
            }
        }
        later_container_exists = true;
    }
    if !later_container_exists {
        actions.init.push(0);
    }
    actions.init.reverse();
    initialized
}

/// A failed init container that is not restarted terminates the pod.
fn fail_pod(actions: &mut PodActions) -> bool {
    actions.kill_pod = true;
    actions.init.clear();
    false
}

/// One step of the loop over the init containers, with the variables of the loop.
fn running_sidecar_actions(
    init: &[Container],
    index: usize,
    instance: &runtime::Container,
    input: &PodActionsInput<'_>,
    later_container_exists: &mut bool,
    initialized: &mut bool,
    actions: &mut PodActions,
) {
    let container = &init[index];
    let name = &container.name;
    let started = input.probes.startup(&instance.id);
    if container.startup_probe.is_some() && started != Some(ProbeOutcome::Success) {
        if started == Some(ProbeOutcome::Failure) {
            let message = format!("Init container {name} failed startup probe");
            actions
                .kill
                .push(container_to_kill(instance, message, KillReason::Startup));
            actions.init.push(index);
        }
        return;
    }
    if index + 1 == init.len() {
        *initialized = true;
    } else if !*later_container_exists {
        actions.init.push(index + 1);
    }
    if container_changed(container, instance) {
        let message = format!("Init container {name} definition changed");
        actions
            .kill
            .push(container_to_kill(instance, message, KillReason::Other));
        actions.init.push(index);
    } else if container.liveness_probe.is_some()
        && input.probes.liveness(&instance.id) == Some(ProbeOutcome::Failure)
    {
        let message = format!("Init container {name} failed liveness probe");
        actions
            .kill
            .push(container_to_kill(instance, message, KillReason::Liveness));
        actions.init.push(index);
    } else if compute_resize_action(container, instance, input, actions) == ResizeAction::ByRestart {
        actions.init.push(index);
    }
}

fn regular_container_actions(spec: &PodSpec, input: &PodActionsInput<'_>, actions: &mut PodActions) {
    let mut keep_count = 0;
    for (index, container) in spec.containers.iter().enumerate() {
        let Some(instance) = input.snapshot.newest(&container.name) else {
            if input.pod.metadata.deletion_timestamp.is_none() {
                actions.regular.push(index);
            }
            continue;
        };
        match &instance.state {
            ContainerState::Running { .. } => {}
            ContainerState::Exited(exit) => {
                if should_restart(container, spec, input.pod, exit.code) {
                    actions.regular.push(index);
                }
                continue;
            }
            ContainerState::Created => {
                actions.regular.push(index);
                continue;
            }
            ContainerState::Unknown => {
                let message = "Container is in \"unknown\" state, try killing it before restart";
                actions
                    .kill
                    .push(container_to_kill(instance, message.to_owned(), KillReason::Other));
                actions.regular.push(index);
                continue;
            }
        }
        let name = &container.name;
        let mut restart = restart_policy(container, spec) != "Never";
        let (message, reason) = if container_changed(container, instance) {
            // A container with a changed spec is restarted, whatever its restart policy is.
            restart = true;
            (format!("Container {name} definition changed"), KillReason::Other)
        } else if input.probes.liveness(&instance.id) == Some(ProbeOutcome::Failure) {
            (
                format!("Container {name} failed liveness probe"),
                KillReason::Liveness,
            )
        } else if input.probes.startup(&instance.id) == Some(ProbeOutcome::Failure) {
            (
                format!("Container {name} failed startup probe"),
                KillReason::Startup,
            )
        } else if compute_resize_action(container, instance, input, actions) == ResizeAction::ByRestart {
            actions.regular.push(index);
            continue;
        } else {
            keep_count += 1;
            continue;
        };
        let message = if restart {
            actions.regular.push(index);
            format!("{message}, will be restarted")
        } else {
            message
        };
        actions.kill.push(container_to_kill(instance, message, reason));
    }
    if keep_count == 0 && actions.regular.is_empty() {
        actions.kill_pod = true;
        // Sidecars do not keep a pod running.
        actions.init.clear();
    }
}

fn should_restart(container: &Container, spec: &PodSpec, pod: &Pod, code: i32) -> bool {
    pod.metadata.deletion_timestamp.is_none() && restart::should_container_be_restarted(spec, container, code)
}

/// How a container gets its new resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResizeAction {
    No,
    InPlace,
    ByRestart,
}

fn compute_resize_action(
    container: &Container,
    instance: &runtime::Container,
    input: &PodActionsInput<'_>,
    actions: &mut PodActions,
) -> ResizeAction {
    let desired = ContainerResources::of_container(container);
    let actuated = input
        .actuated
        .get(&container.name)
        .map(ContainerResources::of_resources);
    let Some(current) = actuated.filter(|current| *current != desired) else {
        return ResizeAction::No;
    };
    if desired.needs_restart(&current, container) {
        let message = format!("Container {} resize requires restart", container.name);
        actions
            .kill
            .push(container_to_kill(instance, message, KillReason::Other));
        return ResizeAction::ByRestart;
    }
    actions.update.push((instance.id.clone(), container.name.clone()));
    ResizeAction::InPlace
}

/// All containers in the order of removal. Containers whose exit triggered the restart are last: if the removal is interrupted,
/// the next sync still finds the trigger.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go getContainersToReset
fn containers_to_reset(spec: &PodSpec, snapshot: &PodSnapshot) -> Vec<ContainerToRemove> {
    let init = spec.init_containers.iter().flatten();
    let mut targets = Vec::new();
    let mut triggers = Vec::new();
    for container in spec.containers.iter().chain(init) {
        for instance in snapshot
            .containers
            .iter()
            .filter(|instance| instance.name == container.name)
        {
            let reset = |kill| ContainerToRemove {
                id: instance.id.clone(),
                name: instance.name.clone(),
                kill,
            };
            match &instance.state {
                ContainerState::Exited(_) if triggers_restart_all(container, instance) => {
                    triggers.push(reset(false));
                }
                ContainerState::Exited(_) => targets.push(reset(false)),
                _ => targets.push(reset(true)),
            }
        }
    }
    targets.append(&mut triggers);
    targets
}

/// Whether the exit of this container triggers `RestartAllContainers`.
fn triggers_restart_all(container: &Container, instance: &runtime::Container) -> bool {
    let single_container_spec = PodSpec {
        containers: vec![container.clone()],
        ..PodSpec::default()
    };
    let snapshot = PodSnapshot::new(Vec::new(), vec![instance.clone()]);
    restart::should_all_containers_restart(&single_container_spec, &snapshot, &PodStatus::default())
}

fn container_to_kill(instance: &runtime::Container, message: String, reason: KillReason) -> ContainerToKill {
    ContainerToKill {
        id: instance.id.clone(),
        name: instance.name.clone(),
        message,
        reason,
    }
}

/// The restart policy of the container, or the pod's. Restart rules do not apply to containers that the node kills: there is
/// no exit code.
fn restart_policy<'a>(container: &'a Container, spec: &'a PodSpec) -> &'a str {
    let own = container.restart_policy.as_deref();
    own.or(spec.restart_policy.as_deref()).unwrap_or("Always")
}

/// Whether the spec changed since the container was created.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go containerChanged
fn container_changed(container: &Container, instance: &runtime::Container) -> bool {
    ContainerAnnotations::parse(&instance.annotations)
        .hash
        .is_some_and(|created_hash| created_hash != hash_container(container))
}

fn succeeded(container: &runtime::Container) -> bool {
    matches!(&container.state, ContainerState::Exited(exit) if exit.code == 0)
}
