//! The phase of a pod: Pending, Running, Succeeded or Failed.

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, PodSpec, PodStatus};

use super::{
    PodWorkerState, StatusInput,
    containers::RESTARTING_ALL,
    is_static_pod,
    restart::{is_restartable_init_container, should_container_be_restarted},
};

pub(super) const PENDING: &str = "Pending";
pub(super) const RUNNING: &str = "Running";
pub(super) const SUCCEEDED: &str = "Succeeded";
pub(super) const FAILED: &str = "Failed";

/// Number of containers by state.
#[derive(Debug, Default)]
struct ContainerCounts {
    /// Init containers that have not completed.
    initializing: usize,
    /// Sidecars that have not started.
    sidecars_starting: usize,
    /// Init containers that failed, and are not restarted.
    initialization_failed: usize,
    /// Containers and sidecars without a known state.
    unknown: usize,
    running: usize,
    /// Not started yet.
    waiting: usize,
    /// Exited containers.
    stopped: usize,
    /// Exited containers that are not restarted.
    stopped_for_good: usize,
    /// Exited containers with exit code 0.
    succeeded: usize,
}

/// State of a container according to its status.
enum ContainerPhase<'a> {
    Unknown,
    Running {
        started: bool,
    },
    Terminated(&'a ContainerStateTerminated),
    /// Terminated, and waiting for a restart.
    WaitingForRestart(&'a ContainerStateTerminated),
    Waiting,
}

/// Computes the phase from the container statuses.
// upstream: pkg/kubelet/kubelet_pods.go getPhase
pub(super) fn get_phase(input: &StatusInput<'_>, spec: &PodSpec, status: &PodStatus) -> &'static str {
    let counts = ContainerCounts::of(spec, status);
    // A restarted sidecar does not reset a pod whose regular containers have started.
    let has_started_regular = input.snapshot.active().any(|instance| {
        let mut names = spec.containers.iter().map(|container| &container.name);
        names.any(|name| *name == instance.name)
    });
    if counts.initialization_failed > 0 {
        return FAILED;
    }
    if counts.initializing > 0 || (counts.sidecars_starting > 0 && !has_started_regular) || counts.waiting > 0
    {
        return PENDING;
    }
    if counts.unknown > 0 || (counts.running == 0 && counts.stopped == 0) {
        return PENDING;
    }
    if counts.running > 0 {
        return RUNNING;
    }
    let is_terminated = input.worker_state == PodWorkerState::Terminated && !is_static_pod(input.pod);
    if !is_terminated && counts.stopped != counts.stopped_for_good {
        return RUNNING;
    }
    if counts.stopped == counts.succeeded {
        return SUCCEEDED;
    }
    FAILED
}

// --- ContainerCounts ---

impl ContainerCounts {
    fn of(spec: &PodSpec, status: &PodStatus) -> Self {
        let mut counts = ContainerCounts::default();
        let init = status.init_container_statuses.as_deref().unwrap_or_default();
        for container in spec.init_containers.iter().flatten() {
            let container_phase = container_phase(init, container);
            if is_restartable_init_container(container) {
                counts.sidecar(&container_phase);
            } else {
                counts.init(&container_phase, spec, container);
            }
        }
        let regular = status.container_statuses.as_deref().unwrap_or_default();
        for container in &spec.containers {
            counts.regular(&container_phase(regular, container), spec, container);
        }
        counts
    }

    fn init(&mut self, container_phase: &ContainerPhase<'_>, spec: &PodSpec, container: &Container) {
        match container_phase {
            ContainerPhase::Terminated(exited) | ContainerPhase::WaitingForRestart(exited) => {
                if exited.exit_code != 0 && !will_restart(spec, container, exited) {
                    self.initialization_failed += 1;
                }
            }
            ContainerPhase::Unknown | ContainerPhase::Running { .. } | ContainerPhase::Waiting => {
                self.initializing += 1;
            }
        }
    }

    /// Exited sidecars do not count: the pod finishes without them.
    fn sidecar(&mut self, container_phase: &ContainerPhase<'_>) {
        match container_phase {
            ContainerPhase::Unknown => self.unknown += 1,
            ContainerPhase::Running { started } => {
                self.running += 1;
                self.sidecars_starting += usize::from(!started);
            }
            ContainerPhase::Waiting => {
                self.waiting += 1;
                self.sidecars_starting += 1;
            }
            ContainerPhase::Terminated(_) | ContainerPhase::WaitingForRestart(_) => {}
        }
    }

    fn regular(&mut self, container_phase: &ContainerPhase<'_>, spec: &PodSpec, container: &Container) {
        let (ContainerPhase::Terminated(exited) | ContainerPhase::WaitingForRestart(exited)) =
            container_phase
        else {
            match container_phase {
                ContainerPhase::Running { .. } => self.running += 1,
                ContainerPhase::Waiting => self.waiting += 1,
                _ => self.unknown += 1,
            }
            return;
        };
        self.stopped += 1;
        self.stopped_for_good += usize::from(!will_restart(spec, container, exited));
        let has_succeeded = matches!(container_phase, ContainerPhase::Terminated(_)) && exited.exit_code == 0;
        self.succeeded += usize::from(has_succeeded);
    }
}

fn will_restart(spec: &PodSpec, container: &Container, exited: &ContainerStateTerminated) -> bool {
    exited.reason.as_deref() == Some(RESTARTING_ALL)
        || should_container_be_restarted(spec, container, exited.exit_code)
}

fn container_phase<'a>(statuses: &'a [ContainerStatus], container: &Container) -> ContainerPhase<'a> {
    let Some(status) = statuses.iter().find(|status| status.name == container.name) else {
        return ContainerPhase::Unknown;
    };
    let Some(state) = &status.state else {
        return ContainerPhase::Unknown;
    };
    if state.running.is_some() {
        let started = status.started == Some(true);
        return ContainerPhase::Running { started };
    }
    if let Some(exited) = &state.terminated {
        return ContainerPhase::Terminated(exited);
    }
    if state.waiting.is_none() {
        return ContainerPhase::Unknown;
    }
    let last = status
        .last_state
        .as_ref()
        .and_then(|last| last.terminated.as_ref());
    last.map_or(ContainerPhase::Waiting, ContainerPhase::WaitingForRestart)
}
