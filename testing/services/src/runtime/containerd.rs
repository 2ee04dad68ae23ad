//! A real containerd, with its server of CRI.

use std::{
    ffi::OsString,
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    image::{PAUSE_IMAGE, TEST_IMAGE, run, write_archive},
    network::Network,
    prepare,
};
use crate::{
    Program, ServiceError,
    supervisor::{ServiceDirectory, Supervisor},
};

pub(crate) const PROGRAM: Program = Program {
    name: "containerd",
    package: "containerd",
    variable: "K3_TEST_CONTAINERD",
};
const CLIENT: Program = Program {
    name: "ctr",
    ..PROGRAM
};

/// Where containers of CRI and their images live.
const NAMESPACE: &str = "k8s.io";

/// A private containerd. Dropping it stops it and all its containers.
pub struct Containerd {
    supervisor: Supervisor,
    socket: PathBuf,
    networks: PathBuf,
}

// --- Containerd ---

impl Containerd {
    /// Starts a containerd without images and with a network, and waits until it responds.
    pub fn start() -> Result<Self, ServiceError> {
        Self::begin(|networks, network| {
            fs::write(networks.join("10-k3-test.conflist"), network)
                .map_err(ServiceError::io("write the network of containerd"))
        })
    }

    /// As [`Containerd::start`], without a CNI configuration.
    pub fn start_without_network() -> Result<Self, ServiceError> {
        Self::begin(|_, _| Ok(()))
    }

    /// Starts it, after `connect` got the directory of its configurations of CNI and one for it: containerd sees one that is added later
    /// only after a while, in which no pod can be made.
    fn begin(connect: impl FnOnce(&Path, &str) -> Result<(), ServiceError>) -> Result<Self, ServiceError> {
        let program = PROGRAM.find()?;
        let directory = ServiceDirectory::make("containerd", None)?;
        let at = directory.path().display().to_string();
        let network = Network::choose();
        let networks = directory.path().join("net");
        fs::create_dir_all(&networks)
            .map_err(ServiceError::io("make the directory of containerd's networks"))?;
        connect(&networks, &network.cni(&at))?;
        prepare(directory.path(), &network, "")?;
        fs::write(directory.path().join("config.toml"), configuration(&at))
            .map_err(ServiceError::io("write the configuration of containerd"))?;
        let command = [
            program.into_os_string(),
            OsString::from(format!("--config={at}/config.toml")),
        ];
        let containerd = Self {
            socket: directory.path().join("containerd.sock"),
            supervisor: Supervisor::new("containerd", directory, command)?,
            networks,
        };
        containerd.supervisor.start(|log| containerd.is_up(log))?;
        Ok(containerd)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The directory of its configurations of CNI.
    pub fn networks(&self) -> &Path {
        &self.networks
    }

    /// Brings [`crate::TEST_IMAGE`] and its kin.
    pub fn load_test_images(&self) -> Result<(), ServiceError> {
        load_test_images(&self.socket)
    }

    /// Ends the daemon at once (SIGKILL); containers run on.
    pub fn kill(&self) -> Result<(), ServiceError> {
        self.supervisor.kill()
    }

    /// Starts it again on the same data, after killing it if it runs.
    pub fn restart(&self) -> Result<(), ServiceError> {
        self.supervisor.restart(|log| self.is_up(log))
    }

    /// The process id, to measure it by; `None` while it is killed.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }

    /// The socket is there before CRI is served.
    fn is_up(&self, log: &str) -> bool {
        log.contains("containerd successfully booted") && UnixStream::connect(&self.socket).is_ok()
    }
}

/// Makes the images of tests known, if they are not yet.
pub(crate) fn load_test_images(socket: &Path) -> Result<(), ServiceError> {
    let client = CLIENT.find()?;
    let command = || {
        let mut command = Command::new(&client);
        command
            .arg("--address")
            .arg(socket)
            .args(["--namespace", NAMESPACE, "images"]);
        command
    };
    let known = run(command().args(["list", "--quiet"]))?;
    if String::from_utf8_lossy(&known.stdout)
        .lines()
        .any(|image| image == TEST_IMAGE)
    {
        return Ok(());
    }
    let directory = ServiceDirectory::make("images", None)?;
    let archive = directory.path().join("images.tar");
    write_archive(directory.path(), &archive)?;
    run(command().arg("import").arg(&archive)).map(drop)
}

/// `restrict_oom_score_adj`: a machine without `CAP_SYS_RESOURCE` may not lower it.
fn configuration(at: &str) -> String {
    format!(
        r#"version = 2
root = "{at}/root"
state = "{at}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{at}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
sandbox_image = "{PAUSE_IMAGE}"
netns_mounts_under_state_dir = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{at}/net"
"#
    )
}
