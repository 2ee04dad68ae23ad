//! A container of the in-memory runtime.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::FakeProgram;
use crate::runtime::{Container, ContainerExit, ContainerSpec, ContainerState};

/// A container and its program.
pub(super) struct FakeContainer {
    pub(super) container: Container,
    pub(super) spec: ContainerSpec,
    pub(super) program: FakeProgram,
    /// When it exits by itself, and the exit code.
    pub(super) exits_at: Option<(Instant, i32)>,
    pub(super) grace: Option<Duration>,
}

// --- FakeContainer ---

impl FakeContainer {
    pub(super) fn name(&self) -> String {
        let Container {
            pod, name, attempt, ..
        } = &self.container;
        format!("{}/{name}#{attempt}", pod.name)
    }

    pub(super) fn is_named(&self, pod: &str, container: &str) -> bool {
        self.container.pod.name == pod && self.container.name == container
    }

    pub(super) fn exit(&mut self, code: i32, at: Timestamp) {
        let ContainerState::Running { started } = self.container.state else {
            return;
        };
        self.exits_at = None;
        let reason = if code == 0 { "Completed" } else { "Error" };
        self.container.state = ContainerState::Exited(ContainerExit {
            code,
            signal: None,
            started: Some(started),
            finished: at,
            reason: reason.to_owned(),
            message: String::new(),
        });
    }
}
