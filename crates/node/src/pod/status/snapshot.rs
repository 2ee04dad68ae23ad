//! The sandboxes and containers of one pod, as the runtime lists them.
// upstream: pkg/kubelet/container/runtime.go PodStatus

use std::net::IpAddr;

use crate::runtime::{Container, Sandbox, SandboxState};

/// The sandboxes and containers of one pod, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSnapshot {
    /// Newest first.
    pub sandboxes: Vec<Sandbox>,
    /// Newest first.
    pub containers: Vec<Container>,
}

// --- PodSnapshot ---

impl PodSnapshot {
    /// Creates a snapshot from the runtime's lists, which may have any order.
    pub fn new(mut sandboxes: Vec<Sandbox>, mut containers: Vec<Container>) -> Self {
        // Clocks of runtimes are coarse: with equal creation times the higher attempt is newer.
        sandboxes.sort_by_key(|sandbox| std::cmp::Reverse((sandbox.created, sandbox.attempt)));
        containers.sort_by_key(|container| std::cmp::Reverse((container.created, container.attempt)));
        PodSnapshot {
            sandboxes,
            containers,
        }
    }

    /// The newest container with this name.
    pub fn newest(&self, name: &str) -> Option<&Container> {
        self.all(name).next()
    }

    /// All containers with this name, newest first.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Container> {
        self.containers
            .iter()
            .filter(move |container| container.name == name)
    }

    /// The newest sandbox, if it is ready.
    pub fn ready_sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first().filter(|sandbox| is_ready(sandbox))
    }

    /// Number of ready sandboxes. More than one has to be reconciled.
    pub fn ready_sandboxes(&self) -> usize {
        self.sandboxes.iter().filter(|sandbox| is_ready(sandbox)).count()
    }

    /// Containers in the newest sandbox, if that is ready.
    pub fn active(&self) -> impl Iterator<Item = &Container> {
        let sandbox = self.ready_sandbox().map(|sandbox| &sandbox.id);
        self.containers
            .iter()
            .filter(move |container| Some(&container.sandbox) == sandbox)
    }

    /// Pod IPs of the ready sandbox.
    pub fn addresses(&self) -> &[IpAddr] {
        self.ready_sandbox().map_or(&[], |sandbox| &sandbox.addresses)
    }

    /// Whether any container runs.
    pub fn any_running(&self) -> bool {
        self.containers.iter().any(Container::is_running)
    }
}

fn is_ready(sandbox: &Sandbox) -> bool {
    sandbox.state == SandboxState::Ready
}
