//! The container runtimes under test.

use std::{path::Path, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use k3_node::runtime::{ContainerOwner, Runtime, cri::CriRuntime, docker::DockerRuntime};

#[derive(Clone, Copy)]
pub(crate) struct RuntimeUnderTest {
    /// Name that the runtime reports.
    pub(crate) name: &'static str,
    /// Path of its socket.
    pub(crate) socket: &'static Path,
    /// Connects as an owner.
    pub(crate) connect: fn(&'static Path, ContainerOwner) -> BoxFuture<'static, Arc<dyn Runtime>>,
}

pub(crate) fn docker() -> RuntimeUnderTest {
    RuntimeUnderTest {
        name: "docker",
        socket: k3_test_services::docker(),
        connect: engine,
    }
}

pub(crate) fn podman() -> RuntimeUnderTest {
    RuntimeUnderTest {
        name: "podman",
        socket: k3_test_services::podman(),
        connect: engine,
    }
}

pub(crate) fn containerd() -> RuntimeUnderTest {
    RuntimeUnderTest {
        name: "containerd",
        socket: k3_test_services::containerd(),
        connect: cri,
    }
}

fn engine(socket: &'static Path, owner: ContainerOwner) -> BoxFuture<'static, Arc<dyn Runtime>> {
    async move { Arc::new(DockerRuntime::connect(socket, owner).await.unwrap()) as Arc<dyn Runtime> }.boxed()
}

fn cri(socket: &'static Path, owner: ContainerOwner) -> BoxFuture<'static, Arc<dyn Runtime>> {
    async move { Arc::new(CriRuntime::connect(socket, owner).unwrap()) as Arc<dyn Runtime> }.boxed()
}
