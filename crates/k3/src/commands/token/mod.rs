//! `k3 token`: short-lived tokens.
//!
//! A token is printed once, when it is created, and stored nowhere else.

mod create;
mod join;
mod list;
mod revoke;

use clap::{Args, Subcommand};

use super::server_flags::{self, ApiClient, ServerFlags};
use crate::command_error::CommandError;

const EXAMPLES: &str = "\
Examples:
  k3 token create --user alice --group devs --ttl 1h
      prints a token for an hour: `kubectl --token=...`, or in a header `Authorization: Bearer ...`

  k3 token create --join --ttl 1h
      prints the command that joins another machine to this cluster as a node

  k3 token create --join --node-name worker-1 --uses 1 --ttl 10m
      the same for one node of this name, for ten minutes

  k3 token list
      lists valid tokens, including join tokens

  k3 token revoke abcdefghij
      revokes a token; nodes that joined with it stay

The command uses the kubeconfig of an administrator. Permissions of the user are RBAC: a token for a user without roles
authenticates, but grants nothing.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Create, list and revoke short-lived tokens.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct TokenFlags {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    Create(create::CreateFlags),
    List(list::ListFlags),
    Revoke(revoke::RevokeFlags),
}

/// Runs a subcommand.
pub(super) fn run(flags: TokenFlags) -> Result<(), CommandError> {
    server_flags::block_on(async {
        match flags.command {
            TokenCommand::Create(flags) => create::run(&flags).await,
            TokenCommand::List(flags) => list::run(&flags).await,
            TokenCommand::Revoke(flags) => revoke::run(&flags).await,
        }
    })
}
