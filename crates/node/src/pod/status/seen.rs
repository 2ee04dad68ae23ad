//! What the runtime has of one pod.

use std::net::IpAddr;

use crate::runtime::{Container, Sandbox, SandboxState};

/// The sandboxes and containers of one pod, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its sandboxes, newest first.
    pub sandboxes: Vec<Sandbox>,
    /// Its containers, newest first.
    pub containers: Vec<Container>,
}

// --- Seen ---

impl Seen {
    /// Of what a runtime listed for the pod, in any order.
    pub fn new(mut sandboxes: Vec<Sandbox>, mut containers: Vec<Container>) -> Self {
        // Clocks of runtimes are coarse: of two that were made at once, the later attempt is the newer.
        sandboxes.sort_by_key(|sandbox| std::cmp::Reverse((sandbox.created, sandbox.attempt)));
        containers.sort_by_key(|container| std::cmp::Reverse((container.created, container.attempt)));
        Seen {
            sandboxes,
            containers,
        }
    }

    /// The newest container of that name.
    pub fn newest(&self, name: &str) -> Option<&Container> {
        self.all(name).next()
    }

    /// All containers of that name, newest first.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Container> {
        self.containers
            .iter()
            .filter(move |container| container.name == name)
    }

    /// The newest sandbox, if containers can be made in it.
    pub fn ready_sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first().filter(|sandbox| is_ready(sandbox))
    }

    /// How many sandboxes are ready. More than one is one too many.
    pub fn ready_sandboxes(&self) -> usize {
        self.sandboxes.iter().filter(|sandbox| is_ready(sandbox)).count()
    }

    /// The containers that are in the newest sandbox, if that is ready.
    pub fn active(&self) -> impl Iterator<Item = &Container> {
        let sandbox = self.ready_sandbox().map(|sandbox| &sandbox.id);
        self.containers
            .iter()
            .filter(move |container| Some(&container.sandbox) == sandbox)
    }

    /// The addresses of the pod, as its sandbox has them.
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
