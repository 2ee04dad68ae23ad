//! Pending, Running, Succeeded or Failed.

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, PodSpec, PodStatus};

use super::{
    Course, Input,
    containers::RESTARTING_ALL,
    is_static,
    restart::{is_sidecar, restarts},
};

pub(super) const PENDING: &str = "Pending";
pub(super) const RUNNING: &str = "Running";
pub(super) const SUCCEEDED: &str = "Succeeded";
pub(super) const FAILED: &str = "Failed";

/// How many containers are how.
#[derive(Debug, Default)]
struct Counts {
    /// Init containers that have yet to end.
    initializing: usize,
    /// Sidecars that have yet to be up.
    sidecars_starting: usize,
    /// Init containers that failed, and are not begun again.
    initialization_failed: usize,
    /// Containers and sidecars of which nothing is known.
    unknown: usize,
    running: usize,
    /// Not begun yet.
    waiting: usize,
    /// Containers that ended.
    stopped: usize,
    /// Those of them that are not begun again.
    stopped_for_good: usize,
    /// Those of them that ended well.
    succeeded: usize,
}

/// How a container is, of what its status says.
enum How<'a> {
    Unknown,
    Running {
        started: bool,
    },
    Terminated(&'a ContainerStateTerminated),
    /// Not begun again yet, after it ended.
    WaitingAgain(&'a ContainerStateTerminated),
    Waiting,
}

/// The phase by the statuses of the containers alone.
pub(super) fn phase(input: &Input<'_>, spec: &PodSpec, status: &PodStatus) -> &'static str {
    let counts = Counts::of(spec, status);
    // Sidecars that are begun again do not put back a pod whose containers ran.
    let began = input.seen.active().any(|seen| {
        let mut names = spec.containers.iter().map(|container| &container.name);
        names.any(|name| *name == seen.name)
    });
    if counts.initialization_failed > 0 {
        return FAILED;
    }
    if counts.initializing > 0 || (counts.sidecars_starting > 0 && !began) || counts.waiting > 0 {
        return PENDING;
    }
    if counts.unknown > 0 || (counts.running == 0 && counts.stopped == 0) {
        return PENDING;
    }
    if counts.running > 0 {
        return RUNNING;
    }
    let ended = input.course == Course::Stopped && !is_static(input.pod);
    if !ended && counts.stopped != counts.stopped_for_good {
        return RUNNING;
    }
    if counts.stopped == counts.succeeded {
        return SUCCEEDED;
    }
    FAILED
}

// --- Counts ---

impl Counts {
    fn of(spec: &PodSpec, status: &PodStatus) -> Self {
        let mut counts = Counts::default();
        let init = status.init_container_statuses.as_deref().unwrap_or_default();
        for container in spec.init_containers.iter().flatten() {
            let how = how(init, container);
            if is_sidecar(container) {
                counts.sidecar(&how);
            } else {
                counts.init(&how, spec, container);
            }
        }
        let regular = status.container_statuses.as_deref().unwrap_or_default();
        for container in &spec.containers {
            counts.regular(&how(regular, container), spec, container);
        }
        counts
    }

    fn init(&mut self, how: &How<'_>, spec: &PodSpec, container: &Container) {
        match how {
            How::Terminated(ended) | How::WaitingAgain(ended) => {
                if ended.exit_code != 0 && !again(spec, container, ended) {
                    self.initialization_failed += 1;
                }
            }
            How::Unknown | How::Running { .. } | How::Waiting => self.initializing += 1,
        }
    }

    /// Sidecars that ended do not count: the pod ends without them.
    fn sidecar(&mut self, how: &How<'_>) {
        match how {
            How::Unknown => self.unknown += 1,
            How::Running { started } => {
                self.running += 1;
                self.sidecars_starting += usize::from(!started);
            }
            How::Waiting => {
                self.waiting += 1;
                self.sidecars_starting += 1;
            }
            How::Terminated(_) | How::WaitingAgain(_) => {}
        }
    }

    fn regular(&mut self, how: &How<'_>, spec: &PodSpec, container: &Container) {
        let (How::Terminated(ended) | How::WaitingAgain(ended)) = how else {
            match how {
                How::Running { .. } => self.running += 1,
                How::Waiting => self.waiting += 1,
                _ => self.unknown += 1,
            }
            return;
        };
        self.stopped += 1;
        self.stopped_for_good += usize::from(!again(spec, container, ended));
        let well = matches!(how, How::Terminated(_)) && ended.exit_code == 0;
        self.succeeded += usize::from(well);
    }
}

fn again(spec: &PodSpec, container: &Container, ended: &ContainerStateTerminated) -> bool {
    ended.reason.as_deref() == Some(RESTARTING_ALL) || restarts(spec, container, ended.exit_code)
}

fn how<'a>(statuses: &'a [ContainerStatus], container: &Container) -> How<'a> {
    let Some(status) = statuses.iter().find(|status| status.name == container.name) else {
        return How::Unknown;
    };
    let Some(state) = &status.state else {
        return How::Unknown;
    };
    if state.running.is_some() {
        let started = status.started == Some(true);
        return How::Running { started };
    }
    if let Some(ended) = &state.terminated {
        return How::Terminated(ended);
    }
    if state.waiting.is_none() {
        return How::Unknown;
    }
    let last = status
        .last_state
        .as_ref()
        .and_then(|last| last.terminated.as_ref());
    last.map_or(How::Waiting, How::WaitingAgain)
}
