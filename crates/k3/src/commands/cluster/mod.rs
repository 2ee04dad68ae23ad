//! `k3 cluster`: several nodes on this machine, each a process with its own directory.
//!
//! Clusters on one machine share neither names nor directories. A process is only signalled when its identity matches the
//! recorded one. `clear` removes only what belongs to the cluster.

mod clear;
mod config;
mod create;
mod directory;
mod process;
mod registry;
mod start;
mod status;
mod stop;
mod supervisor;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use self::{clear::ClearFlags, create::CreateFlags, directory::ClusterDirectory};
use super::server_flags;
use crate::command_error::CommandError;

const EXAMPLES: &str = "\
Examples:
  k3 cluster create --nodes 3 --start
      three nodes in the directory .k3, and prints the line `export KUBECONFIG=...` for kubectl

  k3 cluster status
  k3 cluster stop
  k3 cluster start
      shows their state; stops them; starts those that do not run

  k3 cluster clear
      stops and removes everything: processes, containers, volumes, the directory

Each node is a process `k3 run --config .k3/node-N/.config.yaml`, which can also be run by hand.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Create, start, stop, inspect and remove a cluster of several nodes on this machine.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct ClusterFlags {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    Create(CreateFlags),
    /// Start the nodes that do not run, and wait until all are ready. Nodes that exit later are restarted
    Start(DirFlags),
    /// Supervise the nodes; `start` runs it
    #[command(hide = true)]
    Keep(DirFlags),
    /// Stop the processes of all nodes. Containers of pods keep running
    Stop(DirFlags),
    /// Show the nodes of a cluster and their state
    Status(DirFlags),
    /// List the clusters of this user
    List,
    Clear(ClearFlags),
}

/// Flags that select a cluster.
#[derive(Debug, Args)]
struct DirFlags {
    /// Directory of the cluster
    #[arg(long, value_name = "DIR", default_value = ".k3")]
    dir: PathBuf,
}

/// Runs a subcommand.
pub(crate) fn run(flags: ClusterFlags) -> Result<(), CommandError> {
    server_flags::block_on(async {
        match flags.command {
            ClusterCommand::Create(flags) => create::run(&flags).await,
            ClusterCommand::Start(flags) => start::run(&flags.find()?).await,
            ClusterCommand::Keep(flags) => supervisor::run(&flags.find()?).await,
            ClusterCommand::Stop(flags) => stop::run(&flags.find()?).await,
            ClusterCommand::Status(flags) => status::run(&flags.find()?).await,
            ClusterCommand::List => status::list(),
            ClusterCommand::Clear(flags) => clear::run(&flags).await,
        }
    })
}

/// Formats a number of nodes.
fn count_nodes(nodes: usize) -> String {
    match nodes {
        1 => "one node".to_owned(),
        more => format!("{more} nodes"),
    }
}

// --- DirFlags ---

impl DirFlags {
    fn find(&self) -> Result<ClusterDirectory, CommandError> {
        ClusterDirectory::open(&self.dir)
    }
}
