//! `k3 scheduler`: the scheduler in a separate process.

use clap::Args;

use super::{
    controller::{self, LeaderElectionFlags},
    remote::ProcessFlags,
};
use crate::{command_error::CommandError, controller_manager};

const EXAMPLES: &str = "\
Examples:
  k3 start --controllers='*,-scheduler' --no-node
  k3 scheduler
      a server without a scheduler, and a separate scheduler process

  k3 scheduler --storage etcd --etcd-servers http://10.0.0.1:2379
      needs no other server: it runs a private API server

Any number may run: the holder of the lease kube-system/kube-scheduler works, the others wait.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Run the scheduler in a separate process.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct SchedulerFlags {
    #[command(flatten)]
    leader_election: LeaderElectionFlags,

    #[command(flatten)]
    process_flags: ProcessFlags,
}

pub(super) fn run(flags: &SchedulerFlags) -> Result<(), CommandError> {
    controller::run_components(
        "scheduler",
        controller_manager::parse_controllers("scheduler")?,
        &flags.leader_election,
        &flags.process_flags,
    )
}
