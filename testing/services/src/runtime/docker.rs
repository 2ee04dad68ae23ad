//! A real Docker.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{engine_api, image::run, network::Network, prepare};
use crate::{
    Program, ServiceError,
    supervisor::{ServiceDirectory, Supervisor},
};

pub(crate) const PROGRAM: Program = Program {
    name: "dockerd",
    package: "docker.io",
    variable: "K3_TEST_DOCKER",
};

/// A private dockerd with its own containerd. Dropping it stops it and all its containers.
pub struct Docker {
    supervisor: Supervisor,
    socket: PathBuf,
}

// --- Docker ---

impl Docker {
    /// Starts a dockerd without images, and waits until it responds.
    pub fn start() -> Result<Self, ServiceError> {
        let program = PROGRAM.find()?;
        let directory = ServiceDirectory::make("docker", None)?;
        let network = Network::choose();
        // The bridge is ours, not dockerd's: one that it makes itself has one name for all of a machine.
        prepare(directory.path(), &network, "")?;
        for command in [
            vec!["link", "add", &network.bridge, "type", "bridge"],
            vec!["address", "add", &network.gateway(), "dev", &network.bridge],
            vec!["link", "set", &network.bridge, "up"],
        ] {
            run(Command::new("ip").args(command))?;
        }
        let socket = directory.path().join("docker.sock");
        let command = command(program, directory.path(), &socket, &network)?;
        let docker = Self {
            supervisor: Supervisor::new("docker", directory, command)?,
            socket,
        };
        docker.supervisor.start(|_| engine_api::is_up(&docker.socket))?;
        Ok(docker)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Brings [`crate::TEST_IMAGE`] and its kin.
    pub fn load_test_images(&self) -> Result<(), ServiceError> {
        engine_api::load_test_images(&self.socket)
    }

    /// Ends the daemon at once (SIGKILL); containers run on.
    pub fn kill(&self) -> Result<(), ServiceError> {
        self.supervisor.kill()
    }

    /// Starts it again on the same data, after killing it if it runs.
    pub fn restart(&self) -> Result<(), ServiceError> {
        self.supervisor.restart(|_| engine_api::is_up(&self.socket))
    }

    /// Pauses the daemon with SIGSTOP: connections stay open without responses.
    pub fn pause(&self) -> Result<(), ServiceError> {
        self.supervisor.pause()
    }

    /// Lets a frozen daemon go on (SIGCONT).
    pub fn resume(&self) -> Result<(), ServiceError> {
        self.supervisor.resume()
    }

    /// The process id, to measure it by; `None` while it is killed.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }
}

/// Without rules of iptables, which are one set for the whole machine: ports of the machine are served by Docker's own proxies.
fn command(
    program: PathBuf,
    directory: &Path,
    socket: &Path,
    network: &Network,
) -> Result<Vec<OsString>, ServiceError> {
    let config = directory.join("daemon.json");
    fs::write(&config, "{\"live-restore\": true}\n")
        .map_err(ServiceError::io("write the configuration of dockerd"))?;
    let mut command = vec![program.into_os_string()];
    for (flag, path) in [
        ("--config-file", config),
        ("--data-root", directory.join("data")),
        ("--exec-root", directory.join("exec")),
        ("--pidfile", directory.join("pid")),
    ] {
        command.extend([OsString::from(flag), path.into_os_string()]);
    }
    command.extend(
        [
            format!("--host=unix://{}", socket.display()),
            format!("--bridge={}", network.bridge),
            format!("--fixed-cidr={}", network.subnet()),
            "--iptables=false".into(),
            "--ip6tables=false".into(),
            "--ip-forward=false".into(),
            "--ip-masq=false".into(),
        ]
        .map(OsString::from),
    );
    Ok(command)
}
