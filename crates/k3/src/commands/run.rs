//! `k3 run`: what a machine is for, in one word.

use clap::Args;

use super::{
    node,
    process::{self, Announce},
    remote::{self, RemoteFlags},
    start::StartFlags,
};
use crate::{failure::Failure, server::Settings};

const EXAMPLES: &str = "\
Examples:
  k3 run
      everything in one process, as `k3 start`

  k3 run --role master --bind 0.0.0.0 --storage etcd --etcd-servers http://10.0.0.1:2379
      API server, controllers and scheduler, but no node; several may share the store, and one of them does the work

  k3 run --role node --server https://10.0.0.1:6443 --token K3...
      a node, as `k3 node`

Exit codes: 0 success, 1 failure, 2 a call that makes no sense.";

/// Run what a role asks for: master, node, or one for everything.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RunFlags {
    /// What this machine is: `master` (API server, controllers, scheduler), `node` (runs pods), or `one` (all of it)
    #[arg(long, value_name = "ROLE", default_value = "one", value_parser = role)]
    role: Role,

    #[command(flatten)]
    start: StartFlags,

    #[command(flatten)]
    remote: RemoteFlags,
}

/// What a machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Master,
    Node,
    One,
}

/// Validates what `k3 run` would be told, and starts nothing. Files that the settings name are read.
pub(super) fn validate(flags: RunFlags) -> Result<(), Failure> {
    let start = flags.start;
    start.databases()?;
    if flags.role != Role::Node {
        return start.settings().map(drop);
    }
    let data_dir = start.api.data_dir.as_deref();
    remote::own_server(&start.api.storage, data_dir, &flags.remote, "node-server")?;
    start.node.settings().map(drop)
}

pub(super) fn run(flags: RunFlags) -> Result<(), Failure> {
    let start = flags.start;
    process::init(&start.api.log)?;
    let databases = start.databases()?;
    let settings = match flags.role {
        Role::One => start.settings()?,
        // Without a node of its own, but those of others may come.
        Role::Master => Settings {
            node: None,
            has_nodes: true,
            ..start.settings()?
        },
        Role::Node => {
            let (storage, data_dir) = (&start.api.storage, start.api.data_dir.as_deref());
            let own = remote::own_server(storage, data_dir, &flags.remote, "node-server")?;
            let node = start.node.settings()?;
            let Some(own) = own else {
                return node::join(&flags.remote, node, data_dir);
            };
            let settings = Settings {
                node: Some(node),
                ..own
            };
            return process::run_with_database(&databases, settings, Announce::Nothing);
        }
    };
    process::run_with_database(&databases, settings, Announce::Kubeconfig)
}

/// A role, however it is written; nothing is everything.
fn role(text: &str) -> Result<Role, &'static str> {
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "one" => Ok(Role::One),
        "master" => Ok(Role::Master),
        "node" => Ok(Role::Node),
        _ => Err("there are master, node and one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_known_however_it_is_written_and_no_role_is_all_of_them() {
        assert_eq!(role(" Master "), Ok(Role::Master));
        assert_eq!(role("NODE"), Ok(Role::Node));
        assert_eq!(role(""), Ok(Role::One));
        assert!(role("slave").is_err());
    }
}
