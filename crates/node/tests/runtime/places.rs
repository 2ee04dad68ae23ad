//! The runtimes that claims are made of.

use std::{path::Path, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use k3_node::runtime::{Owner, Runtime, cri::Cri, engine::Engine};

/// A runtime to be connected to.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// What it calls itself.
    pub(crate) name: &'static str,
    /// Where it listens.
    pub(crate) socket: &'static Path,
    /// Talks to it as somebody.
    pub(crate) connect: fn(&'static Path, Owner) -> BoxFuture<'static, Arc<dyn Runtime>>,
}

pub(crate) fn docker() -> Place {
    Place {
        name: "docker",
        socket: k3_test_services::docker(),
        connect: engine,
    }
}

pub(crate) fn podman() -> Place {
    Place {
        name: "podman",
        socket: k3_test_services::podman(),
        connect: engine,
    }
}

pub(crate) fn containerd() -> Place {
    Place {
        name: "containerd",
        socket: k3_test_services::containerd(),
        connect: cri,
    }
}

fn engine(socket: &'static Path, owner: Owner) -> BoxFuture<'static, Arc<dyn Runtime>> {
    async move { Arc::new(Engine::connect(socket, owner).await.unwrap()) as Arc<dyn Runtime> }.boxed()
}

fn cri(socket: &'static Path, owner: Owner) -> BoxFuture<'static, Arc<dyn Runtime>> {
    async move { Arc::new(Cri::connect(socket, owner).unwrap()) as Arc<dyn Runtime> }.boxed()
}
