//! `k3 secrets`: reports the encryption keys of stored objects and re-encrypts objects with the current key.
//!
//! Objects are rewritten through the API one by one, without changes. A failed object is reported and counted, and the
//! command can be repeated.

mod reencrypt;
mod status;

use clap::{Args, Subcommand};

use super::server_flags;
use crate::command_error::CommandError;

const EXAMPLES: &str = "\
Examples:
  k3 secrets status
      shows for each encrypted resource how many objects are stored with which provider and key

  k3 secrets reencrypt
      rewrites the objects that are not stored with the first key of the configuration

To replace a key: add the new one as the first of its provider in the file of --encryption-provider-config on every server,
restart them (or use --encryption-provider-config-automatic-reload), run `k3 secrets reencrypt`, and remove the old key when
`k3 secrets status` shows no object with it.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Show how stored objects are encrypted, or encrypt them again with the current key.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct SecretsFlags {
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    Status(status::StatusFlags),
    Reencrypt(reencrypt::ReencryptFlags),
}

/// Runs a subcommand.
pub(super) fn run(flags: SecretsFlags) -> Result<(), CommandError> {
    server_flags::block_on(async {
        match flags.command {
            SecretsCommand::Status(flags) => status::run(&flags).await,
            SecretsCommand::Reencrypt(flags) => reencrypt::run(&flags).await,
        }
    })
}
