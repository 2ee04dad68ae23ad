//! `k3 snapshot`: all objects of a store in a file, and back.
//!
//! Promises: a file is there whole or not at all, was read again before it got its name, and is its owner's alone; a store is
//! filled only from a file that was checked from its first to its last byte, and is read again afterwards.

mod inspect;
mod restore;
mod save;

use clap::{Args, Subcommand};

use super::server_flags;
use crate::failure::Failure;

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
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Save(save::SaveFlags),
    Restore(restore::RestoreFlags),
    Inspect(inspect::InspectFlags),
}

/// Runs a subcommand.
pub(super) fn run(flags: SnapshotFlags) -> Result<(), Failure> {
    server_flags::block_on_threads(async {
        match flags.command {
            Command::Save(flags) => save::run(&flags).await,
            Command::Restore(flags) => restore::run(&flags).await,
            Command::Inspect(flags) => inspect::run(&flags).await,
        }
    })
}
