//! `k3 apiserver`, alias `k3 web`: only an API server.

use clap::Args;

use super::{
    process::{self, KubeconfigNotice},
    start::ApiFlags,
};
use crate::{command_error::CommandError, server::ControlPlaneSettings};

const EXAMPLES: &str = "\
Examples:
  k3 apiserver
serves the API from the data directory, without controllers, scheduler and node

  k3 apiserver --storage etcd --etcd-servers http://10.0.0.1:2379 --bind 0.0.0.0
      another API server on an etcd; `k3 controller`, `k3 scheduler` and `k3 node` run the rest as separate processes

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Start only the API server: no controllers, no scheduler, no node.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ApiserverFlags {
    #[command(flatten)]
    api: ApiFlags,
}

pub(super) fn run(flags: ApiserverFlags) -> Result<(), CommandError> {
    process::init(&flags.api.log)?;
    // Nodes may join, so usage metrics are served.
    let settings = ControlPlaneSettings {
        has_nodes: true,
        ..flags.api.settings()?
    };
    process::run(settings, KubeconfigNotice::Kubeconfig)
}
