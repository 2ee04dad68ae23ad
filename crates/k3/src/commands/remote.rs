//! How parts of a control plane that run as processes of their own reach the API: at a server that is elsewhere, or, where the
//! store is one that can be shared, at one of their own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use k3_pki::find_certificates;
use kube::{Config, config::AuthInfo};

use super::{server_flags::ServerFlags, start::StorageFlags};
use crate::{
    data_dir::data_dir,
    failure::Failure,
    join::Servers,
    log::LogFlags,
    secret::Secret,
    server::{Audience, Settings},
};

/// Where the API is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where the API server is")]
pub(super) struct RemoteFlags {
    /// Address of the API server, such as `https://10.0.0.1:6443`. A node takes several, with commas: it asks the next one
    /// when one does not answer
    #[arg(long, value_name = "URLS")]
    pub(super) server: Option<Servers>,

    /// Token to show there. Everybody on the machine can read a command line: the variable `K3_TOKEN` is safer
    #[arg(long, value_name = "TOKEN")]
    pub(super) token: Option<Secret>,

    /// File with the certificate of the server's authority, in PEM
    #[arg(long, value_name = "FILE", requires = "server")]
    ca: Option<PathBuf>,

    /// File that says where the server is and proves who one is, which must be a member of system:masters
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "token"])]
    pub(super) kubeconfig: Option<PathBuf>,
}

/// What a part that runs as a process of its own is told.
#[derive(Debug, Args)]
pub(super) struct ProcessFlags {
    /// Directory of what is kept; without --server and --kubeconfig, that of a server of this machine, whose
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
    /// The server that the flags name; or the one whose data directory it is.
    pub(super) async fn config(&self, data_dir: Option<PathBuf>) -> Result<Config, Failure> {
        let Some(server) = &self.server else {
            return ServerFlags::new(self.kubeconfig.clone(), data_dir).config().await;
        };
        let (Some(token), Some(file)) = (&self.token, &self.ca) else {
            return Err(Failure::usage(
                "--server alone does not say who is asking",
                "add --token TOKEN and --ca FILE; or name a kubeconfig with --kubeconfig instead",
            ));
        };
        if server.all().len() > 1 {
            return Err(Failure::usage(
                "--server names several servers, which is for nodes that join with a token",
                "name one; an address that leads to all of them has a load balancer behind it",
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

    /// Whether a certificate of an authority is named.
    pub(super) fn has_authority(&self) -> bool {
        self.ca.is_some()
    }
}

/// The certificates in a file.
fn certificates(file: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let unusable = || {
        let advice = "name the ca.crt in the directory `tls` of a server's data directory, or a copy of it";
        Failure::new(format!("cannot use --ca {}", file.display()), advice)
    };
    let text = fs::read(file).map_err(|error| unusable().caused_by(error))?;
    let read: Vec<_> = find_certificates(&text)
        .iter()
        .map(|certificate| certificate.to_vec())
        .collect();
    if read.is_empty() {
        return Err(unusable().caused_by("there is no certificate in it"));
    }
    Ok(read)
}

// --- ProcessFlags ---

impl ProcessFlags {
    /// An API server of its own, for nobody but this process, if the store is one that can be shared. Its files are in a directory
    /// of that name, so that it leaves those of another server alone.
    pub(super) fn own_server(&self, name: &str) -> Result<Option<Settings>, Failure> {
        own_server(&self.storage, self.data_dir.as_deref(), &self.remote, name)
    }
}

/// See [`ProcessFlags::own_server`].
pub(super) fn own_server(
    storage: &StorageFlags,
    data_dir: Option<&Path>,
    remote: &RemoteFlags,
    name: &str,
) -> Result<Option<Settings>, Failure> {
    let directory = self::data_dir(data_dir)?;
    let config = storage.config(&directory)?;
    if !storage.is_shared() {
        return Ok(None);
    }
    if remote.server.is_some() || remote.kubeconfig.is_some() {
        return Err(Failure::usage(
            "a server and a store are named, of which one is enough",
            "leave out --storage, or --server and --kubeconfig",
        ));
    }
    Ok(Some(Settings {
        has_nodes: true,
        audience: Audience::Process,
        storage_wait: storage.wait(),
        ..Settings::new(directory.join(name), config)
    }))
}
