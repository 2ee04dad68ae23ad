//! `k3 apiserver`, also called `k3 web`: an API server alone.

use clap::Args;

use super::{
    process::{self, Announce},
    start::ApiFlags,
};
use crate::{failure::Failure, server::Settings};

const EXAMPLES: &str = "\
Examples:
  k3 apiserver
      serves the API from the data directory, and nothing happens but what clients do: no controllers, no scheduler, no node

  k3 apiserver --storage etcd --etcd-servers http://10.0.0.1:2379 --bind 0.0.0.0
      one more API server for what is in an etcd; `k3 controller`, `k3 scheduler` and `k3 node` can be processes of their own

Exit codes: 0 success, 1 failure, 2 a call that makes no sense.";

/// Start an API server alone: no controllers, no scheduler, no node.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ApiserverFlags {
    #[command(flatten)]
    api: ApiFlags,
}

pub(super) fn run(flags: ApiserverFlags) -> Result<(), Failure> {
    process::init(&flags.api.log)?;
    // Nodes may join it: what they use is shown.
    let settings = Settings {
        has_nodes: true,
        ..flags.api.settings()?
    };
    process::run(settings, Announce::Kubeconfig)
}
