//! Container statuses.
// upstream: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    self as core, ContainerState as State, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, PodSpec, PodStatus, ResourceRequirements, VolumeMount,
    VolumeMountStatus,
};

use super::{
    StatusInput, restart,
    restart::{is_restartable_init_container, should_container_be_restarted},
    truncate_to_seconds,
};
use crate::{
    pod::spec::{ContainerType, ephemeral_as_container},
    probes::ProbeOutcome,
    runtime::{Container, ContainerExit, ContainerState},
};

/// Reason of containers that are removed by `RestartAllContainers`.
pub(super) const RESTARTING_ALL: &str = "RestartingAllContainers";
const REMOVED_FOR_RESTART: &str = "The container is removed because RestartAllContainers in place";
/// Reason of a container whose exit was not observed.
pub(super) const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
pub(super) const LOST_MESSAGE: &str = "The container could not be located when the pod was terminated";
const LOST_WHILE_RUNNING: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";
const INIT_STATUS_UNAVAILABLE: &str = "Unable to get init container status from container runtime and pod has been initialized, \
                         treat it as exited normally";
/// Exit code of a process killed by SIGKILL.
pub(super) const EXIT_CODE_SIGKILL: i32 = 137;

/// Computes the statuses of one container type.
struct ContainerStatusBuilder<'a> {
    input: &'a StatusInput<'a>,
    spec: &'a PodSpec,
    kind: ContainerType,
    /// Previous statuses by container name.
    old: BTreeMap<&'a str, &'a ContainerStatus>,
    /// Whether `RestartAllContainers` is in progress.
    restarting_all: bool,
}

/// Sets the statuses of all containers.
pub(super) fn fill_statuses(
    status: &mut PodStatus,
    input: &StatusInput<'_>,
    spec: &PodSpec,
    old: &PodStatus,
) {
    let restarting_all = restart::should_all_containers_restart(spec, input.snapshot, old);
    let statuses = |kind, old: &Option<Vec<ContainerStatus>>, containers: &[core::Container]| {
        let old = old.iter().flatten();
        let builder = ContainerStatusBuilder {
            input,
            spec,
            kind,
            old: old.map(|status| (&*status.name, status)).collect(),
            restarting_all,
        };
        let mut statuses: Vec<_> = containers
            .iter()
            .map(|container| builder.status(container))
            .collect();
        if kind != ContainerType::Init {
            statuses.sort_by(|one, other| one.name.cmp(&other.name));
        }
        (!statuses.is_empty()).then_some(statuses)
    };
    status.container_statuses = statuses(ContainerType::Regular, &old.container_statuses, &spec.containers);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    status.init_container_statuses = statuses(ContainerType::Init, &old.init_container_statuses, init);
    let ephemeral: Vec<_> = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .map(ephemeral_as_container)
        .collect();
    status.ephemeral_container_statuses = statuses(
        ContainerType::Ephemeral,
        &old.ephemeral_container_statuses,
        &ephemeral,
    );
}

/// Sets `started` and `ready` from probe results.
// upstream: pkg/kubelet/prober/prober_manager.go UpdatePodStatus
pub(super) fn fill_readiness(
    status: &mut PodStatus,
    input: &StatusInput<'_>,
    spec: &PodSpec,
    api: &PodStatus,
) {
    let init = spec.init_containers.iter().flatten();
    for (status, container) in status.init_container_statuses.iter_mut().flatten().zip(init) {
        let before = find_same_container(api.init_container_statuses.as_ref(), status);
        if is_restartable_init_container(container) {
            set_readiness(status, container, input, before);
            continue;
        }
        status.started = Some(is_running(status));
        let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        status.ready = ended.is_some_and(|ended| ended.exit_code == 0);
    }
    for status in status.container_statuses.iter_mut().flatten() {
        let container = spec
            .containers
            .iter()
            .find(|container| container.name == status.name);
        let before = find_same_container(api.container_statuses.as_ref(), status);
        if let Some(container) = container {
            set_readiness(status, container, input, before);
        }
    }
}

/// The API status of the same container instance.
fn find_same_container<'a>(
    statuses: Option<&'a Vec<ContainerStatus>>,
    status: &ContainerStatus,
) -> Option<&'a ContainerStatus> {
    let mut statuses = statuses?.iter().filter(|one| one.container_id.is_some());
    statuses.find(|one| one.name == status.name && one.container_id == status.container_id)
}

fn set_readiness(
    status: &mut ContainerStatus,
    container: &core::Container,
    input: &StatusInput<'_>,
    before: Option<&ContainerStatus>,
) {
    let instance = input.snapshot.newest(&container.name);
    let (Some(instance), true) = (instance, is_running(status)) else {
        status.started = Some(false);
        status.ready = false;
        return;
    };
    let started = match input.probes.startup(&instance.id) {
        Some(outcome) => outcome == ProbeOutcome::Success,
        // Without a result, as after a restart of the agent, a container that had started counts as started.
        None => status.started == Some(true) || container.startup_probe.is_none(),
    };
    status.started = Some(started);
    status.ready = started
        && match input.probes.readiness(&instance.id) {
            Some(outcome) => outcome == ProbeOutcome::Success,
            None if container.readiness_probe.is_none() => true,
            None => before.is_some_and(|before| before.ready) && input.probes.started_before_agent(instance),
        };
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

// --- ContainerStatusBuilder ---

impl ContainerStatusBuilder<'_> {
    fn status(&self, container: &core::Container) -> ContainerStatus {
        let old = self.old.get(&*container.name).copied();
        let mut status = match self.input.snapshot.newest(&container.name) {
            Some(newest) => self.status_of_existing(container, newest, old),
            None => self.status_of_missing(container, old),
        };
        if self.must_have_succeeded(container, &status) {
            status.state = Some(State {
                terminated: Some(ContainerStateTerminated {
                    reason: Some("Completed".to_owned()),
                    message: Some(INIT_STATUS_UNAVAILABLE.to_owned()),
                    ..ContainerStateTerminated::default()
                }),
                ..State::default()
            });
            return status;
        }
        let waiting = self.input.waiting.get(&container.name);
        if let Some(waiting) = waiting.filter(|_| self.will_start(container)) {
            let state = status.state.take().filter(|state| state.terminated.is_some());
            status.last_state = state.or(status.last_state);
            status.state = Some(waiting_state(&waiting.reason, &waiting.message));
        }
        status
    }

    /// Status of a container with instances: the newest one determines the state, the one before it the last state.
    fn status_of_existing(
        &self,
        container: &core::Container,
        newest: &Container,
        old: Option<&ContainerStatus>,
    ) -> ContainerStatus {
        let id = self.container_id(newest);
        let mut status = ContainerStatus {
            name: container.name.clone(),
            image: newest.image.clone(),
            image_id: newest.image_id.clone(),
            restart_count: restart_count(newest),
            volume_mounts: self.mounts(container),
            allocated_resources: container.resources.as_ref().and_then(|own| own.requests.clone()),
            resources: Some(self.resources(container, newest)),
            ..ContainerStatus::default()
        };
        if let Some(old) = old {
            status.restart_count = status.restart_count.max(old.restart_count);
            let ended = old.state.as_ref().filter(|state| state.terminated.is_some());
            let ended = ended.filter(|_| old.container_id.as_ref() != Some(&id));
            let last = old.last_state.as_ref().filter(|state| state.terminated.is_some());
            status.last_state = ended.or(last).cloned();
            if old.container_id.as_ref() == Some(&id) && newest.is_running() {
                status.started = old.started;
            }
            if old.volume_mounts.is_some() {
                status.volume_mounts.clone_from(&old.volume_mounts);
            }
        }
        status.state = Some(self.state(newest, old, &mut status.restart_count));
        if let Some(before) = self.input.snapshot.all(&container.name).nth(1) {
            let mut ignored = 0;
            status.last_state = Some(self.state(before, None, &mut ignored));
        }
        status.container_id = Some(id);
        status
    }

    fn state(&self, instance: &Container, old: Option<&ContainerStatus>, restarts: &mut i32) -> State {
        let old_state = old.and_then(|old| old.state.as_ref());
        let old_count = old.map_or(0, |old| old.restart_count);
        match &instance.state {
            ContainerState::Running { started } => {
                let ended = old_state.is_some_and(|state| state.terminated.is_some());
                if ended && old_count >= restart_count(instance) {
                    *restarts = old_count.saturating_add(1);
                }
                State {
                    running: Some(ContainerStateRunning {
                        started_at: Some(truncate_to_seconds(*started)),
                    }),
                    ..State::default()
                }
            }
            ContainerState::Exited(exit) => self.terminated(instance, exit),
            // A container that was reported as terminated has not been started again.
            ContainerState::Unknown if old_state.is_some_and(|state| state.terminated.is_some()) => {
                old_state.cloned().unwrap_or_default()
            }
            ContainerState::Unknown if old_state.is_some_and(|state| state.running.is_some()) => {
                // The container ran, and the runtime lost its state: the state waiting would mean that it never ran.
                *restarts = old_count.saturating_add(1);
                lost_state(
                    if self.restarting_all {
                        RESTARTING_ALL
                    } else {
                        STATUS_UNKNOWN
                    },
                    LOST_MESSAGE,
                )
            }
            ContainerState::Created | ContainerState::Unknown => State {
                waiting: Some(ContainerStateWaiting::default()),
                ..State::default()
            },
        }
    }

    fn terminated(&self, instance: &Container, exit: &ContainerExit) -> State {
        let message_text = self.input.messages.get(&instance.id).map_or("", String::as_str);
        let parts = [&*exit.message, message_text]
            .into_iter()
            .filter(|part| !part.is_empty());
        let message = parts.collect::<Vec<_>>().join(": ");
        State {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(self.container_id(instance)),
                exit_code: exit.code,
                signal: None,
                started_at: exit.started.map(truncate_to_seconds),
                finished_at: Some(truncate_to_seconds(exit.finished)),
                reason: non_empty(&exit.reason),
                message: non_empty(&message),
            }),
            ..State::default()
        }
    }

    /// Status of a container without an instance: not created yet, or removed.
    fn status_of_missing(
        &self,
        container: &core::Container,
        old: Option<&ContainerStatus>,
    ) -> ContainerStatus {
        let mut status = ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            volume_mounts: self.mounts(container),
            state: Some(waiting_state(self.default_waiting_reason(), "")),
            ..ContainerStatus::default()
        };
        let Some(old) = old else {
            return status;
        };
        let state = old.state.clone().unwrap_or_default();
        if state.terminated.is_some() {
            status = old.clone();
        } else {
            status.restart_count = old.restart_count;
            status.last_state.clone_from(&old.last_state);
        }
        if self.restarting_all && state.waiting.is_none() {
            status.state = Some(waiting_state(RESTARTING_ALL, REMOVED_FOR_RESTART));
            status.last_state = Some(lost_state(RESTARTING_ALL, REMOVED_FOR_RESTART));
            status.restart_count = old.restart_count.saturating_add(1);
            return status;
        }
        let was_terminated = status
            .last_state
            .as_ref()
            .is_some_and(|last| last.terminated.is_some());
        if state.running.is_some() && !was_terminated {
            // Without a reported termination, waiting would reset the pod to Pending.
            status.last_state = Some(lost_state(STATUS_UNKNOWN, LOST_WHILE_RUNNING));
            let deleted = self.input.pod.metadata.deletion_timestamp.is_some();
            status.restart_count += i32::from(!deleted);
        }
        status
    }

    /// The default waiting reason.
    fn default_waiting_reason(&self) -> &'static str {
        if self
            .spec
            .init_containers
            .as_ref()
            .is_some_and(|init| !init.is_empty())
        {
            return "PodInitializing";
        }
        "ContainerCreating"
    }

    /// Whether an init container must have succeeded, because regular containers exist, although the runtime has removed it.
    fn must_have_succeeded(&self, container: &core::Container, status: &ContainerStatus) -> bool {
        let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
        self.kind == ContainerType::Init
            && !is_restartable_init_container(container)
            && waits
            && self.input.snapshot.newest(&container.name).is_none()
            && self
                .spec
                .containers
                .iter()
                .any(|regular| self.input.snapshot.newest(&regular.name).is_some())
    }

    /// Whether the container will be started next, so that its waiting reason matters.
    fn will_start(&self, container: &core::Container) -> bool {
        if self.input.pod.metadata.deletion_timestamp.is_some() {
            return false;
        }
        match self
            .input
            .snapshot
            .newest(&container.name)
            .map(|instance| &instance.state)
        {
            Some(ContainerState::Running { .. }) => false,
            Some(ContainerState::Exited(exit)) => {
                let done = self.kind == ContainerType::Init && exit.code == 0;
                !done && should_container_be_restarted(self.spec, container, exit.code)
            }
            None | Some(ContainerState::Created | ContainerState::Unknown) => true,
        }
    }

    fn container_id(&self, instance: &Container) -> String {
        format!("{}://{}", self.input.runtime, instance.id)
    }

    /// Resources of a running container are the actuated ones, otherwise the allocated ones.
    fn resources(&self, container: &core::Container, instance: &Container) -> ResourceRequirements {
        let allocated = container.resources.clone().unwrap_or_default();
        let actuated = self.input.actuated.get(&container.name);
        actuated
            .filter(|_| instance.is_running())
            .cloned()
            .unwrap_or(allocated)
    }

    fn mounts(&self, container: &core::Container) -> Option<Vec<VolumeMountStatus>> {
        let mounts = container
            .volume_mounts
            .as_ref()
            .filter(|mounts| !mounts.is_empty())?;
        let status = |mount: &VolumeMount| VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: mount.read_only.filter(|only| *only),
            recursive_read_only: (mount.read_only == Some(true))
                .then(|| self.recursive_read_only_status(mount).to_owned()),
            volume_status: None,
        };
        Some(mounts.iter().map(status).collect())
    }

    fn recursive_read_only_status(&self, mount: &VolumeMount) -> &'static str {
        let private = matches!(mount.mount_propagation.as_deref(), None | Some("None"));
        let requested = matches!(
            mount.recursive_read_only.as_deref(),
            Some("IfPossible" | "Enabled")
        );
        if requested && private && self.input.recursive_read_only {
            "Enabled"
        } else {
            "Disabled"
        }
    }
}

fn restart_count(instance: &Container) -> i32 {
    i32::try_from(instance.attempt).unwrap_or(i32::MAX)
}

fn waiting_state(reason: &str, message: &str) -> State {
    State {
        waiting: Some(ContainerStateWaiting {
            reason: non_empty(reason),
            message: non_empty(message),
        }),
        ..State::default()
    }
}

/// The state of a container whose exit was not observed.
pub(super) fn lost_state(reason: &str, message: &str) -> State {
    State {
        terminated: Some(ContainerStateTerminated {
            exit_code: EXIT_CODE_SIGKILL,
            reason: non_empty(reason),
            message: non_empty(message),
            ..ContainerStateTerminated::default()
        }),
        ..State::default()
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
