//! A real Podman, as a service.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use super::{engine_api, network::Network, prepare};
use crate::{
    Program, ServiceError,
    supervisor::{ServiceDirectory, Supervisor},
};

pub(crate) const PROGRAM: Program = Program {
    name: "podman",
    package: "podman",
    variable: "K3_TEST_PODMAN",
};

/// A private `podman system service`. Dropping it stops it and all its containers.
pub struct Podman {
    supervisor: Supervisor,
    socket: PathBuf,
}

// --- Podman ---

impl Podman {
    /// Starts a Podman service without images, and waits until it responds.
    pub fn start() -> Result<Self, ServiceError> {
        let program = PROGRAM.find()?;
        let directory = ServiceDirectory::make("podman", None)?;
        let network = Network::choose();
        let environment = write_configuration(directory.path(), &network)?;
        // Podman itself knows best: namespaces under /run, rules of ports.
        let before = format!(
            "env {} {} rm --all --force --time 0",
            environment.join(" "),
            program.display()
        );
        prepare(directory.path(), &network, &before)?;
        let socket = directory.path().join("podman.sock");
        let mut command = vec![OsString::from("env")];
        command.extend(environment.into_iter().map(OsString::from));
        command.push(program.into_os_string());
        command.extend(["system", "service", "--time=0"].map(OsString::from));
        command.push(format!("unix://{}", socket.display()).into());
        let podman = Self {
            supervisor: Supervisor::new("podman", directory, command)?,
            socket,
        };
        podman.supervisor.start(|_| engine_api::is_up(&podman.socket))?;
        Ok(podman)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Brings [`crate::TEST_IMAGE`] and its kin.
    pub fn load_test_images(&self) -> Result<(), ServiceError> {
        engine_api::load_test_images(&self.socket)
    }

    /// Ends the service at once (SIGKILL); containers run on.
    pub fn kill(&self) -> Result<(), ServiceError> {
        self.supervisor.kill()
    }

    /// Starts it again on the same data, after killing it if it runs.
    pub fn restart(&self) -> Result<(), ServiceError> {
        self.supervisor.restart(|_| engine_api::is_up(&self.socket))
    }

    /// The process id, to measure it by; `None` while it is killed.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }
}

/// Writes its files and returns the variables by which it finds them. Limits are what a machine without `CAP_SYS_RESOURCE` may give;
/// runc, because crun rejects a host with both versions of cgroups.
fn write_configuration(directory: &Path, network: &Network) -> Result<Vec<String>, ServiceError> {
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(ServiceError::io("write the configuration of Podman"))?;
        Ok(path)
    };
    let at = directory.display().to_string();
    let containers = write(
        "containers.conf",
        format!(
            r#"[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[network]
network_backend = "cni"
cni_plugin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
network_config_dir = "{at}/net"
default_network = "{}"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{at}/tmp"
"#,
            network.bridge
        ),
    )?;
    let storage = write(
        "storage.conf",
        format!("[storage]\ndriver = \"overlay\"\ngraphroot = \"{at}/root\"\nrunroot = \"{at}/run\"\n"),
    )?;
    fs::create_dir_all(directory.join("net"))
        .map_err(ServiceError::io("make the directory of Podman's networks"))?;
    write(&format!("net/{}.conflist", network.bridge), network.cni(&at))?;
    Ok(vec![
        format!("CONTAINERS_CONF={}", containers.display()),
        format!("CONTAINERS_STORAGE_CONF={}", storage.display()),
    ])
}
