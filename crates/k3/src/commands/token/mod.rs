//! `k3 token`: tokens for people, for a while.
//!
//! Promise: a token is written to standard output once, when it is made, and is nowhere else.

mod create;
mod join;
mod list;
mod revoke;

use clap::{Args, Subcommand};

use super::server_flags::{self, ApiClient, ServerFlags};
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  k3 token create --user alice --group devs --ttl 1h
      prints a token for an hour: `kubectl --token=...`, or in a header `Authorization: Bearer ...`

  k3 token create --join --ttl 1h
      prints the command by which another machine becomes a node of this cluster

  k3 token create --join --node-name worker-1 --uses 1 --ttl 10m
      the same for one node of this name, for ten minutes

  k3 token list
      shows the tokens that are still good for something, also those to join with

  k3 token revoke abcdefghij
      takes a token back at once; nodes that have joined with it stay

The server is asked with the kubeconfig of an administrator. What a user may do, roles say; a token for somebody
whom no role names is good for nothing but to say who one is.

Exit codes: 0 success, 1 failure, 2 usage error.";

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

/// Carries out a command.
pub(super) fn run(flags: TokenFlags) -> Result<(), Failure> {
    server_flags::block_on(async {
        match flags.command {
            Command::Create(flags) => create::run(&flags).await,
            Command::List(flags) => list::run(&flags).await,
            Command::Revoke(flags) => revoke::run(&flags).await,
        }
    })
}
