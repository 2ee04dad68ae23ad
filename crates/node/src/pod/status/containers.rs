//! One status for each container.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    self as core, ContainerState as State, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, PodSpec, PodStatus, ResourceRequirements, VolumeMount,
    VolumeMountStatus,
};

use super::{
    Input, restart,
    restart::{is_sidecar, restarts},
    seconds,
};
use crate::{
    pod::spec::{Kind, ephemeral},
    probes::Outcome,
    runtime::{Container, ContainerState, Exit},
};

/// Why a container was ended, or waits, whose whole pod begins again.
pub(super) const RESTARTING_ALL: &str = "RestartingAllContainers";
const REMOVED_FOR_RESTART: &str = "The container is removed because RestartAllContainers in place";
/// Why a container is said to have ended of which nothing is known but that it ran.
pub(super) const UNKNOWN: &str = "ContainerStatusUnknown";
pub(super) const LOST: &str = "The container could not be located when the pod was terminated";
const LOST_WHILE_RUNNING: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";
const FORGOTTEN: &str = "Unable to get init container status from container runtime and pod has been initialized, \
                         treat it as exited normally";
/// What the shell says of a process that was killed.
pub(super) const KILLED: i32 = 137;

/// What the statuses of one kind of containers are made of.
struct Group<'a> {
    input: &'a Input<'a>,
    spec: &'a PodSpec,
    kind: Kind,
    /// What was told of each before.
    old: BTreeMap<&'a str, &'a ContainerStatus>,
    /// Whether all containers are being begun again.
    restarting_all: bool,
}

/// The statuses of all containers.
pub(super) fn fill(status: &mut PodStatus, input: &Input<'_>, spec: &PodSpec, old: &PodStatus) {
    let restarting_all = restart::restarts_all(spec, input.seen, old);
    let statuses = |kind, old: &Option<Vec<ContainerStatus>>, containers: &[core::Container]| {
        let old = old.iter().flatten();
        let group = Group {
            input,
            spec,
            kind,
            old: old.map(|status| (&*status.name, status)).collect(),
            restarting_all,
        };
        let mut statuses: Vec<_> = containers
            .iter()
            .map(|container| group.status(container))
            .collect();
        if kind != Kind::Init {
            statuses.sort_by(|one, other| one.name.cmp(&other.name));
        }
        (!statuses.is_empty()).then_some(statuses)
    };
    status.container_statuses = statuses(Kind::Regular, &old.container_statuses, &spec.containers);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    status.init_container_statuses = statuses(Kind::Init, &old.init_container_statuses, init);
    let ephemeral: Vec<_> = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .map(ephemeral)
        .collect();
    status.ephemeral_container_statuses =
        statuses(Kind::Ephemeral, &old.ephemeral_container_statuses, &ephemeral);
}

/// Which containers are up and ready, by what their probes found.
pub(super) fn probe(status: &mut PodStatus, input: &Input<'_>, spec: &PodSpec, api: &PodStatus) {
    let init = spec.init_containers.iter().flatten();
    for (status, container) in status.init_container_statuses.iter_mut().flatten().zip(init) {
        let before = find(api.init_container_statuses.as_ref(), status);
        if is_sidecar(container) {
            judge(status, container, input, before);
            continue;
        }
        status.started = Some(runs(status));
        let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        status.ready = ended.is_some_and(|ended| ended.exit_code == 0);
    }
    for status in status.container_statuses.iter_mut().flatten() {
        let container = spec
            .containers
            .iter()
            .find(|container| container.name == status.name);
        let before = find(api.container_statuses.as_ref(), status);
        if let Some(container) = container {
            judge(status, container, input, before);
        }
    }
}

/// What the API says of the very same container.
fn find<'a>(
    statuses: Option<&'a Vec<ContainerStatus>>,
    status: &ContainerStatus,
) -> Option<&'a ContainerStatus> {
    let mut statuses = statuses?.iter().filter(|one| one.container_id.is_some());
    statuses.find(|one| one.name == status.name && one.container_id == status.container_id)
}

fn judge(
    status: &mut ContainerStatus,
    container: &core::Container,
    input: &Input<'_>,
    before: Option<&ContainerStatus>,
) {
    let seen = input.seen.newest(&container.name);
    let (Some(seen), true) = (seen, runs(status)) else {
        status.started = Some(false);
        status.ready = false;
        return;
    };
    let started = match input.probes.startup(&seen.id) {
        Some(outcome) => outcome == Outcome::Success,
        // What was up when the agent ended is still up when it begins again.
        None => status.started == Some(true) || container.startup_probe.is_none(),
    };
    status.started = Some(started);
    status.ready = started
        && match input.probes.readiness(&seen.id) {
            Some(outcome) => outcome == Outcome::Success,
            None if container.readiness_probe.is_none() => true,
            None => before.is_some_and(|before| before.ready) && input.probes.ran_before(seen),
        };
}

fn runs(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

// --- Group ---

impl Group<'_> {
    fn status(&self, container: &core::Container) -> ContainerStatus {
        let old = self.old.get(&*container.name).copied();
        let mut status = match self.input.seen.newest(&container.name) {
            Some(newest) => self.seen(container, newest, old),
            None => self.missing(container, old),
        };
        if self.was_initialized(container, &status) {
            status.state = Some(State {
                terminated: Some(ContainerStateTerminated {
                    reason: Some("Completed".to_owned()),
                    message: Some(FORGOTTEN.to_owned()),
                    ..ContainerStateTerminated::default()
                }),
                ..State::default()
            });
            return status;
        }
        let waiting = self.input.waiting.get(&container.name);
        if let Some(waiting) = waiting.filter(|_| self.begins(container)) {
            let state = status.state.take().filter(|state| state.terminated.is_some());
            status.last_state = state.or(status.last_state);
            status.state = Some(wait(&waiting.reason, &waiting.message));
        }
        status
    }

    /// Of the containers that are there: the newest is what it is, the one before it what it was.
    fn seen(
        &self,
        container: &core::Container,
        newest: &Container,
        old: Option<&ContainerStatus>,
    ) -> ContainerStatus {
        let id = self.id(newest);
        let mut status = ContainerStatus {
            name: container.name.clone(),
            image: newest.image.clone(),
            image_id: newest.image_id.clone(),
            restart_count: count(newest),
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
        if let Some(before) = self.input.seen.all(&container.name).nth(1) {
            let mut ignored = 0;
            status.last_state = Some(self.state(before, None, &mut ignored));
        }
        status.container_id = Some(id);
        status
    }

    fn state(&self, seen: &Container, old: Option<&ContainerStatus>, restarts: &mut i32) -> State {
        let old_state = old.and_then(|old| old.state.as_ref());
        let old_count = old.map_or(0, |old| old.restart_count);
        match &seen.state {
            ContainerState::Running { started } => {
                let ended = old_state.is_some_and(|state| state.terminated.is_some());
                if ended && old_count >= count(seen) {
                    *restarts = old_count.saturating_add(1);
                }
                State {
                    running: Some(ContainerStateRunning {
                        started_at: Some(seconds(*started)),
                    }),
                    ..State::default()
                }
            }
            ContainerState::Exited(exit) => self.terminated(seen, exit),
            // What was told to have ended did not begin again.
            ContainerState::Unknown if old_state.is_some_and(|state| state.terminated.is_some()) => {
                old_state.cloned().unwrap_or_default()
            }
            ContainerState::Unknown if old_state.is_some_and(|state| state.running.is_some()) => {
                // It ran, and it does no more: to wait would be to have never run.
                *restarts = old_count.saturating_add(1);
                lost(
                    if self.restarting_all {
                        RESTARTING_ALL
                    } else {
                        UNKNOWN
                    },
                    LOST,
                )
            }
            ContainerState::Created | ContainerState::Unknown => State {
                waiting: Some(ContainerStateWaiting::default()),
                ..State::default()
            },
        }
    }

    fn terminated(&self, seen: &Container, exit: &Exit) -> State {
        let left = self.input.messages.get(&seen.id).map_or("", String::as_str);
        let parts = [&*exit.message, left].into_iter().filter(|part| !part.is_empty());
        let message = parts.collect::<Vec<_>>().join(": ");
        State {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(self.id(seen)),
                exit_code: exit.code,
                signal: None,
                started_at: exit.started.map(seconds),
                finished_at: Some(seconds(exit.finished)),
                reason: some(&exit.reason),
                message: some(&message),
            }),
            ..State::default()
        }
    }

    /// Of a container the runtime knows nothing of: it was not made yet, or it was removed.
    fn missing(&self, container: &core::Container, old: Option<&ContainerStatus>) -> ContainerStatus {
        let mut status = ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            volume_mounts: self.mounts(container),
            state: Some(wait(self.waits_for(), "")),
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
            status.state = Some(wait(RESTARTING_ALL, REMOVED_FOR_RESTART));
            status.last_state = Some(lost(RESTARTING_ALL, REMOVED_FOR_RESTART));
            status.restart_count = old.restart_count.saturating_add(1);
            return status;
        }
        let told_end = status
            .last_state
            .as_ref()
            .is_some_and(|last| last.terminated.is_some());
        if state.running.is_some() && !told_end {
            // Without an end that was told, waiting would put the pod back to Pending.
            status.last_state = Some(lost(UNKNOWN, LOST_WHILE_RUNNING));
            let deleted = self.input.pod.metadata.deletion_timestamp.is_some();
            status.restart_count += i32::from(!deleted);
        }
        status
    }

    /// What containers wait for that nobody says anything of.
    fn waits_for(&self) -> &'static str {
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

    /// Whether an init container must have ended well, for containers were made after it, though nothing tells of it any more.
    fn was_initialized(&self, container: &core::Container, status: &ContainerStatus) -> bool {
        let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
        self.kind == Kind::Init
            && !is_sidecar(container)
            && waits
            && self.input.seen.newest(&container.name).is_none()
            && self
                .spec
                .containers
                .iter()
                .any(|regular| self.input.seen.newest(&regular.name).is_some())
    }

    /// Whether the next thing that happens to the container is that it begins, so that it matters why it does not.
    fn begins(&self, container: &core::Container) -> bool {
        if self.input.pod.metadata.deletion_timestamp.is_some() {
            return false;
        }
        match self.input.seen.newest(&container.name).map(|seen| &seen.state) {
            Some(ContainerState::Running { .. }) => false,
            Some(ContainerState::Exited(exit)) => {
                let done = self.kind == Kind::Init && exit.code == 0;
                !done && restarts(self.spec, container, exit.code)
            }
            None | Some(ContainerState::Created | ContainerState::Unknown) => true,
        }
    }

    fn id(&self, seen: &Container) -> String {
        format!("{}://{}", self.input.runtime, seen.id)
    }

    /// What it has now: what was done to it while it runs, what it will get otherwise.
    fn resources(&self, container: &core::Container, seen: &Container) -> ResourceRequirements {
        let allocated = container.resources.clone().unwrap_or_default();
        let actuated = self.input.actuated.get(&container.name);
        actuated
            .filter(|_| seen.is_running())
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
            recursive_read_only: (mount.read_only == Some(true)).then(|| self.recursion(mount).to_owned()),
            volume_status: None,
        };
        Some(mounts.iter().map(status).collect())
    }

    fn recursion(&self, mount: &VolumeMount) -> &'static str {
        let private = matches!(mount.mount_propagation.as_deref(), None | Some("None"));
        let asked = matches!(
            mount.recursive_read_only.as_deref(),
            Some("IfPossible" | "Enabled")
        );
        if asked && private && self.input.recursive_read_only {
            "Enabled"
        } else {
            "Disabled"
        }
    }
}

fn count(seen: &Container) -> i32 {
    i32::try_from(seen.attempt).unwrap_or(i32::MAX)
}

fn wait(reason: &str, message: &str) -> State {
    State {
        waiting: Some(ContainerStateWaiting {
            reason: some(reason),
            message: some(message),
        }),
        ..State::default()
    }
}

/// The end of a container that nobody saw.
pub(super) fn lost(reason: &str, message: &str) -> State {
    State {
        terminated: Some(ContainerStateTerminated {
            exit_code: KILLED,
            reason: some(reason),
            message: some(message),
            ..ContainerStateTerminated::default()
        }),
        ..State::default()
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
