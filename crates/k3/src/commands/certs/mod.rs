//! `k3 certs`: the certificates and keys of a server.
//!
//! Private keys are never printed.

mod rotate;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{command_error::CommandError, data_dir::default_data_dir, file_format};

const EXAMPLES: &str = "\
Examples:
  k3 certs show
      lists certificates with expiry and names

  k3 certs rotate serving client
      replaces certificates under the same authority: a running server uses them within seconds, without interruption

  k3 certs rotate
      replaces everything, including the authority. Both authorities are trusted until --finish: distribute the new
      admin.kubeconfig to external clients (pods get it automatically), then

  k3 certs rotate --finish
      trusts only the new authority and the new token signing key

The files are in the directory `tls` of the data directory. Servers that share an etcd or MySQL share the authority and
the token signing key: rotate those on one machine where a server runs; the others follow within seconds. Certificates
(`serving`, `client`) are separate on each machine.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Show the certificates and keys of a server, or replace them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct CertsFlags {
    #[command(subcommand)]
    command: CertsCommand,
}

#[derive(Debug, Subcommand)]
enum CertsCommand {
    Show(show::ShowFlags),
    Rotate(rotate::RotateFlags),
}

/// Flags that select the server's data directory.
#[derive(Debug, Args)]
struct DataDirFlags {
    /// Data directory of the server
    /// [default: /var/lib/k3 for root, else `$XDG_DATA_HOME/k3` or `~/.local/share/k3`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Runs a subcommand.
pub(super) fn run(flags: &CertsFlags) -> Result<(), CommandError> {
    match &flags.command {
        CertsCommand::Show(flags) => show::run(flags),
        CertsCommand::Rotate(flags) => rotate::run(flags),
    }
}

// --- DataDirFlags ---

impl DataDirFlags {
    /// The directory of the certificates.
    fn tls(&self) -> Result<PathBuf, CommandError> {
        let data_dir = match &self.data_dir {
            Some(directory) => directory.clone(),
            None => default_data_dir()?,
        };
        file_format::check_data_dir(&data_dir)?;
        Ok(data_dir.join("tls"))
    }
}
