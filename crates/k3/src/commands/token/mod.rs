//! `k3 token`: tokens for people, for a while.
//!
//! Promise: a token is written to standard output once, when it is made, and is nowhere else.

mod cluster;
mod create;
mod list;
mod revoke;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use self::cluster::Cluster;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  k3 token create --user alice --group devs --ttl 1h
      prints a token for an hour: `kubectl --token=...`, or in a header `Authorization: Bearer ...`

  k3 token list
      shows the tokens that are still good for something

  k3 token revoke abcdefghij
      takes a token back at once

The server is asked with the kubeconfig of an administrator. What a user may do, roles say; a token for somebody
whom no role names is good for nothing but to say who one is.

Exit codes: 0 success, 1 failure, 2 a call that makes no sense.";

/// Make, list and revoke tokens that let somebody use the API for a while.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct TokenFlags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::CreateFlags),
    List(list::ListFlags),
    Revoke(revoke::RevokeFlags),
}

/// How the server is reached.
#[derive(Debug, Args)]
struct ServerFlags {
    /// File that says where the server is and proves who one is, which must be a member of system:masters
    /// [default: the files that `$KUBECONFIG` names, or the admin's in the data folder]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The data folder of the server, in which the admin's kubeconfig is
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    data_dir: Option<PathBuf>,
}

/// Carries out a command.
pub(super) fn run(flags: TokenFlags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new("cannot start", "see the limits of this process with `ulimit -a`").because(error)
        })?;
    runtime.block_on(async {
        match flags.command {
            Command::Create(flags) => create::run(&flags).await,
            Command::List(flags) => list::run(&flags).await,
            Command::Revoke(flags) => revoke::run(&flags).await,
        }
    })
}
