//! Runtimes of containers: each with its own directories, socket, network and images.
//!
//! They need root, as the runtimes do. What they leave behind when they are killed (containers, mounts, interfaces) is undone
//! by a script that the supervisor runs.

mod containerd;
mod database;
mod docker;
mod engine_api;
mod image;
mod network;
mod podman;

use std::{fs, path::Path};

use crate::ServiceError;

use self::network::Network;
pub use self::{
    containerd::Containerd,
    database::{TEST_ETCD_IMAGE, TEST_MYSQL_IMAGE, load_database_images},
    docker::Docker,
    image::{PAUSE_IMAGE, TEST_IMAGE, TEST_IMAGE_WITH_NAMED_USER, TEST_IMAGE_WITH_USER},
    podman::Podman,
};
pub(crate) use self::{
    containerd::{PROGRAM as CONTAINERD, load_test_images as load_through_containerd},
    docker::PROGRAM as DOCKER,
    engine_api::load_test_images as load_through_engine,
    podman::PROGRAM as PODMAN,
};

const CLEAN: &str = include_str!("clean.sh");

/// Opens the network, and writes what the supervisor runs after the runtime has ended: first `before`, then what all need.
fn prepare(directory: &Path, network: &Network, before: &str) -> Result<(), ServiceError> {
    let script = format!(
        "directory={} bridge={bridge} network={bridge}\n{before}\n{CLEAN}",
        directory.display(),
        bridge = network.bridge
    );
    fs::write(directory.join("clean.sh"), script)
        .map_err(ServiceError::io("write how to clean up after a runtime"))?;
    network.admit()
}
