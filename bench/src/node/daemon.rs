//! The runtimes that pods are run on: real ones, started for the benchmark, with the image of tests.

use std::{path::Path, sync::Arc};

use k3_node::runtime::{ContainerOwner, Runtime, cri::CriRuntime, docker::DockerRuntime};
use k3_test_services::{Containerd, Docker, Podman};

use crate::{BenchError, choices::RuntimeName};

/// A runtime that runs, and ends with its containers when it is dropped.
pub(super) enum RuntimeDaemon {
    Docker(Docker),
    Podman(Podman),
    Containerd(Containerd),
}

// --- RuntimeDaemon ---

impl RuntimeDaemon {
    /// Starts one, with images.
    pub(super) fn start(name: RuntimeName) -> Result<Self, BenchError> {
        tokio::task::block_in_place(|| {
            Ok(match name {
                RuntimeName::Docker => {
                    let docker = Docker::start()?;
                    docker.load_test_images()?;
                    Self::Docker(docker)
                }
                RuntimeName::Podman => {
                    let podman = Podman::start()?;
                    podman.load_test_images()?;
                    Self::Podman(podman)
                }
                RuntimeName::Containerd => {
                    let containerd = Containerd::start()?;
                    containerd.load_test_images()?;
                    Self::Containerd(containerd)
                }
            })
        })
    }

    /// Where it listens.
    pub(super) fn socket(&self) -> &Path {
        match self {
            Self::Docker(docker) => docker.socket(),
            Self::Podman(podman) => podman.socket(),
            Self::Containerd(containerd) => containerd.socket(),
        }
    }

    /// Its process, to measure it by.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Docker(docker) => docker.pid(),
            Self::Podman(podman) => podman.pid(),
            Self::Containerd(containerd) => containerd.pid(),
        }
    }

    /// Talks to it as a node of that name.
    pub(super) async fn connect(&self, node: &str) -> Result<Arc<dyn Runtime>, BenchError> {
        let owner = ContainerOwner::new(node, "bench");
        Ok(match self {
            Self::Docker(_) | Self::Podman(_) => {
                Arc::new(DockerRuntime::connect(self.socket(), owner).await?)
            }
            Self::Containerd(_) => Arc::new(CriRuntime::connect(self.socket(), owner)?),
        })
    }
}
