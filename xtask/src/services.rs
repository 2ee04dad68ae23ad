//! The services of one run of the tests.
//!
//! Promise: they end with the run, whatever ends it; `k3-test-services` sees to that.

use std::{any::Any, path::Path};

use k3_test_services::{Containerd, Docker, Etcd, MariaDb, Podman, ServiceError, load_database_images};

use crate::tools::is_offered;

/// What was started for the run, and how tests find it. Dropping it ends the services.
pub(crate) struct Services {
    /// The environment in which tests find what was started.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Why something that is needed is neither offered nor started, a line each.
    pub(crate) problems: Vec<String>,
    /// Held only to be dropped.
    running: Vec<Box<dyn Any>>,
}

// --- Services ---

impl Services {
    /// Starts what the environment does not offer. When one cannot be started, the others are all the same.
    pub(crate) fn start() -> Self {
        let mut services = Self {
            variables: Vec::new(),
            problems: Vec::new(),
            running: Vec::new(),
        };
        services.offer("etcd", "K3_TEST_ETCD", Etcd::start, Etcd::endpoint);
        services.offer("MariaDB", "K3_TEST_MYSQL", MariaDb::start, MariaDb::url);
        services.offer("Docker", "K3_TEST_DOCKER", docker, |docker| path(docker.socket()));
        services.offer("Podman", "K3_TEST_PODMAN", podman, |podman| path(podman.socket()));
        services.offer("containerd", "K3_TEST_CONTAINERD", containerd, |containerd| {
            path(containerd.socket())
        });
        services
    }

    fn offer<S: 'static>(
        &mut self,
        name: &str,
        variable: &'static str,
        start: fn() -> Result<S, ServiceError>,
        address: fn(&S) -> String,
    ) {
        if is_offered(variable) {
            println!("using the {name} of {variable}");
            return;
        }
        match start() {
            Ok(service) => {
                println!("started {name}");
                self.variables.push((variable, address(&service)));
                self.running.push(Box::new(service));
            }
            Err(error) => {
                eprintln!("xtask: {error}");
                self.problems.push(error.to_string());
            }
        }
    }
}

/// With images: tests that begin at once must not all load them.
fn docker() -> Result<Docker, ServiceError> {
    let docker = Docker::start()?;
    docker.load_test_images()?;
    load_database_images(docker.socket())?;
    Ok(docker)
}

/// As [`docker`].
fn podman() -> Result<Podman, ServiceError> {
    let podman = Podman::start()?;
    podman.load_test_images()?;
    load_database_images(podman.socket())?;
    Ok(podman)
}

/// As [`docker`].
fn containerd() -> Result<Containerd, ServiceError> {
    let containerd = Containerd::start()?;
    containerd.load_test_images()?;
    Ok(containerd)
}

fn path(socket: &Path) -> String {
    socket.display().to_string()
}
