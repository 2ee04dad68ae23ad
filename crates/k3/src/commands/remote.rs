//! Connection of separate control plane processes to the API: a remote server or, with a shared store, a private API
//! server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use k3_pki::find_certificates;
use kube::{Config, config::AuthInfo};

use super::{server_flags::ServerFlags, start::StorageFlags};
use crate::{
    command_error::CommandError,
    data_dir::data_dir,
    join::ServerList,
    log::LogFlags,
    secret::SecretString,
    server::{ControlPlaneSettings, ServerVisibility},
};

#[derive(Debug, Args)]
#[command(next_help_heading = "API server")]
pub(super) struct RemoteFlags {
    /// URL of the API server, such as `https://10.0.0.1:6443`. A node accepts several, comma-separated, and fails over
    /// between them
    #[arg(long, value_name = "URLS")]
    pub(super) server: Option<ServerList>,

    /// Bearer token. Every user of the machine can read command lines: the variable `K3_TOKEN` is safer
    #[arg(long, value_name = "TOKEN")]
    pub(super) token: Option<SecretString>,

    /// Path to the server's certificate authority, in PEM
    #[arg(long, value_name = "FILE", requires = "server")]
    ca: Option<PathBuf>,

    /// Path to a kubeconfig of a member of system:masters
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "token"])]
    pub(super) kubeconfig: Option<PathBuf>,
}

/// Flags of components that run as separate processes.
#[derive(Debug, Args)]
pub(super) struct ProcessFlags {
    /// Data directory; without --server and --kubeconfig, the data directory of a server on this machine, whose
    /// admin.kubeconfig is used [default: /var/lib/k3 for root, else `$XDG_DATA_HOME/k3` or `~/.local/share/k3`]
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(super) log: LogFlags,

    #[command(flatten)]
    pub(super) remote: RemoteFlags,

    #[command(flatten)]
    pub(super) storage: StorageFlags,
}

// --- RemoteFlags ---

impl RemoteFlags {
    /// The server of the flags, or that of the data directory.
    pub(super) async fn config(&self, data_dir: Option<PathBuf>) -> Result<Config, CommandError> {
        let Some(server) = &self.server else {
            return ServerFlags::new(self.kubeconfig.clone(), data_dir).config().await;
        };
        let (Some(token), Some(file)) = (&self.token, &self.ca) else {
            return Err(CommandError::usage(
                "--server needs credentials",
                "add --token TOKEN and --ca FILE; or name a kubeconfig with --kubeconfig instead",
            ));
        };
        if server.all().len() > 1 {
            return Err(CommandError::usage(
                "several servers in --server work only for nodes that join with a token",
                "name one; use a load balancer for several",
            ));
        }
        let mut config = Config::new(server.first().clone());
        config.root_cert = Some(certificates(file)?);
        config.auth_info = AuthInfo {
            token: Some(token.text().to_owned().into()),
            ..AuthInfo::default()
        };
        Ok(config)
    }

    pub(super) fn has_authority(&self) -> bool {
        self.ca.is_some()
    }
}

/// The certificates in a file.
fn certificates(file: &Path) -> Result<Vec<Vec<u8>>, CommandError> {
    let unusable = || {
        let advice = "use the ca.crt in the directory `tls` of a server's data directory, or a copy of it";
        CommandError::new(format!("cannot use --ca {}", file.display()), advice)
    };
    let text = fs::read(file).map_err(|error| unusable().caused_by(error))?;
    let read: Vec<_> = find_certificates(&text)
        .iter()
        .map(|certificate| certificate.to_vec())
        .collect();
    if read.is_empty() {
        return Err(unusable().caused_by("it contains no certificate"));
    }
    Ok(read)
}

// --- ProcessFlags ---

impl ProcessFlags {
    /// A private API server of this process, if the store can be shared. Its files are in a directory of that name, separate
    /// from those of other servers.
    pub(super) fn own_server(&self, name: &str) -> Result<Option<ControlPlaneSettings>, CommandError> {
        own_server(&self.storage, self.data_dir.as_deref(), &self.remote, name)
    }
}

/// See [`ProcessFlags::own_server`].
pub(super) fn own_server(
    storage: &StorageFlags,
    data_dir: Option<&Path>,
    remote: &RemoteFlags,
    name: &str,
) -> Result<Option<ControlPlaneSettings>, CommandError> {
    let directory = self::data_dir(data_dir)?;
    let config = storage.config(&directory)?;
    if !storage.is_shared() {
        return Ok(None);
    }
    if remote.server.is_some() || remote.kubeconfig.is_some() {
        return Err(CommandError::usage(
            "--storage conflicts with --server and --kubeconfig",
            "remove --storage, or --server and --kubeconfig",
        ));
    }
    Ok(Some(ControlPlaneSettings {
        has_nodes: true,
        audience: ServerVisibility::Process,
        storage_wait: storage.wait(),
        ..ControlPlaneSettings::new(directory.join(name), config)
    }))
}
