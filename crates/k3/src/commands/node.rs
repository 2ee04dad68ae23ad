//! `k3 node`: a node in a separate process, on any machine.

use std::path::Path;

use clap::Args;
use kubecontroller::manager::Stop;

use super::{
    process::{self, KubeconfigNotice},
    remote::{ProcessFlags, RemoteFlags},
    start::NodeFlags,
};
use crate::{
    command_error::CommandError,
    data_dir::data_dir,
    join::{self, JoinMethod, JoinToken},
    server::{ControlPlaneSettings, NodeSettings},
};

const EXAMPLES: &str = "\
Examples:
  k3 token create --join
      on a machine of the cluster: prints the next command, complete with token

  k3 node --server https://10.0.0.1:6443 --token K3...
      on the new machine: joins the cluster and runs pods

  k3 node
      on the same machine after a restart: it has a certificate and needs no token

The token contains the hash of the cluster's certificate authority, so a server of another cluster is rejected before it
receives anything. The certificate is stored in the data directory, readable by its owner only, and renewed in time.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Run a node: it runs pods and needs nothing but the API server.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct NodeProcessFlags {
    #[command(flatten)]
    process_flags: ProcessFlags,

    #[command(flatten)]
    node: NodeFlags,
}

pub(super) fn run(flags: NodeProcessFlags) -> Result<(), CommandError> {
    process::init(&flags.process_flags.log)?;
    let own = flags.process_flags.own_server("node-server")?;
    let node = flags.node.settings()?;
    match own {
        Some(own) => process::run(
            ControlPlaneSettings {
                node: Some(node),
                ..own
            },
            KubeconfigNotice::Nothing,
        ),
        None => join(
            &flags.process_flags.remote,
            node,
            flags.process_flags.data_dir.as_deref(),
        ),
    }
}

/// Runs a node of a remote API server.
pub(super) fn join(
    remote: &RemoteFlags,
    node: NodeSettings,
    data_dir: Option<&Path>,
) -> Result<(), CommandError> {
    let data_dir = self::data_dir(data_dir)?;
    process::block_on(async {
        let mut signals = process::signals()?;
        let method = method(remote).await?;
        let stop = Stop::new();
        let running = Box::pin(join::run(
            method,
            remote.server.clone(),
            node,
            &data_dir,
            stop.clone(),
        ));
        process::run_until_signal(stop, running, &mut signals).await
    })
}

/// How the node joins, unless it has joined before.
async fn method(flags: &RemoteFlags) -> Result<JoinMethod, CommandError> {
    if flags.kubeconfig.is_some() || flags.has_authority() {
        return Ok(JoinMethod::Kubeconfig(Box::new(flags.config(None).await?)));
    }
    match (&flags.server, &flags.token) {
        (_, None) => Ok(JoinMethod::Existing),
        (None, Some(_)) => Err(CommandError::usage("--token needs --server", "add --server URL")),
        (Some(server), Some(token)) => {
            let token: JoinToken = token.text().parse().map_err(|error| {
                let advice =
                    "create one with `k3 token create --join`; or add --ca FILE for another kind of token";
                CommandError::usage("invalid --token", advice).caused_by(error)
            })?;
            Ok(JoinMethod::Token(server.clone(), token))
        }
    }
}
