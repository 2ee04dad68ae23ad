//! `k3 run`: runs the components of a role.

use clap::Args;

use super::{
    node,
    process::{self, KubeconfigNotice},
    remote::{self, RemoteFlags},
    start::StartFlags,
};
use crate::{command_error::CommandError, server::ControlPlaneSettings};

const EXAMPLES: &str = "\
Examples:
  k3 run
      everything in one process, like `k3 start`

  k3 run --role master --bind 0.0.0.0 --storage etcd --etcd-servers http://10.0.0.1:2379
      API server, controllers and scheduler, but no node; several may share the store, and one is elected leader

  k3 run --role node --server https://10.0.0.1:6443 --token K3...
      a node, like `k3 node`

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Run the components of a role: master, node, or one for everything.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RunFlags {
    /// Role of this machine: `master` (API server, controllers, scheduler), `node` (runs pods), or `one` (all of it)
    #[arg(long, value_name = "ROLE", default_value = "one", value_parser = role)]
    role: MachineRole,

    #[command(flatten)]
    start: StartFlags,

    #[command(flatten)]
    remote: RemoteFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MachineRole {
    Master,
    Node,
    One,
}

/// Validates the settings without starting anything. Files that they name are read.
pub(super) fn validate(flags: RunFlags) -> Result<(), CommandError> {
    let start = flags.start;
    start.databases()?;
    if flags.role != MachineRole::Node {
        return start.settings().map(drop);
    }
    let data_dir = start.api.data_dir.as_deref();
    remote::own_server(&start.api.storage, data_dir, &flags.remote, "node-server")?;
    start.node.settings().map(drop)
}

pub(super) fn run(flags: RunFlags) -> Result<(), CommandError> {
    let start = flags.start;
    process::init(&start.api.log)?;
    let databases = start.databases()?;
    let settings = match flags.role {
        MachineRole::One => start.settings()?,
        // No node in this process, but nodes may join.
        MachineRole::Master => ControlPlaneSettings {
            node: None,
            has_nodes: true,
            ..start.settings()?
        },
        MachineRole::Node => {
            let storage = &start.api.storage;
            let data_dir = start.api.data_dir.as_deref();
            let own = remote::own_server(storage, data_dir, &flags.remote, "node-server")?;
            let node = start.node.settings()?;
            let Some(own) = own else {
                return node::join(&flags.remote, node, data_dir);
            };
            let settings = ControlPlaneSettings {
                node: Some(node),
                ..own
            };
            return process::run_with_database(&databases, settings, KubeconfigNotice::Nothing);
        }
    };
    process::run_with_database(&databases, settings, KubeconfigNotice::Kubeconfig)
}

/// Parses a role, ignoring case; empty means everything.
fn role(text: &str) -> Result<MachineRole, &'static str> {
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "one" => Ok(MachineRole::One),
        "master" => Ok(MachineRole::Master),
        "node" => Ok(MachineRole::Node),
        _ => Err("must be master, node or one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_roles_in_any_case() {
        assert_eq!(role(" Master "), Ok(MachineRole::Master));
        assert_eq!(role("NODE"), Ok(MachineRole::Node));
        assert_eq!(role(""), Ok(MachineRole::One));
        assert!(role("slave").is_err());
    }
}
