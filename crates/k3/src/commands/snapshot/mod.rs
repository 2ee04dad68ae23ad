//! `k3 snapshot`: saves all objects of a store to a file, and restores them.
//!
//! A snapshot file is complete or absent, is verified before it gets its name, and is readable by its owner only. A store is
//! restored only from a file that was verified completely, and is verified afterwards.

mod inspect;
mod restore;
mod save;

use clap::{Args, Subcommand};

use super::server_flags;
use crate::command_error::CommandError;

const EXAMPLES: &str = "\
Examples:
  k3 snapshot save /backup/monday.k3
      writes all objects of the store in the data directory; a running server keeps running

  k3 snapshot save --storage etcd --etcd-servers http://10.0.0.1:2379 /backup/monday.k3
      the same from an etcd; servers may keep using it

  k3 snapshot restore --force /backup/monday.k3
      replaces the data of the store. Objects keep their uids; new resourceVersions are above all earlier ones

  k3 snapshot inspect /backup/monday.k3
      verifies the file, and shows what it contains

Certificates and private keys are not in a snapshot: back up the directory `tls` of the data directory too. Servers that
share an etcd or MySQL have the key of the authority and the signing key of tokens in the store as well; --include-keys
adds those. Secrets of the API are in a snapshot as they are stored: encrypted if the server encrypts them, else readable.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Save all objects of a store to a file, restore them, or inspect a file.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct SnapshotFlags {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Debug, Subcommand)]
enum SnapshotCommand {
    Save(save::SaveFlags),
    Restore(restore::RestoreFlags),
    Inspect(inspect::InspectFlags),
}

/// Runs a subcommand.
pub(super) fn run(flags: SnapshotFlags) -> Result<(), CommandError> {
    server_flags::block_on_threads(async {
        match flags.command {
            SnapshotCommand::Save(flags) => save::run(&flags).await,
            SnapshotCommand::Restore(flags) => restore::run(&flags).await,
            SnapshotCommand::Inspect(flags) => inspect::run(&flags).await,
        }
    })
}
