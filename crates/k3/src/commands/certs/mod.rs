//! `k3 certs`: the certificates and keys of a server.
//!
//! Promise: keys are never shown.

mod rotate;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{data_dir::default_data_dir, failure::Failure, file_format};

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
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::ShowFlags),
    Rotate(rotate::RotateFlags),
}

/// Whose certificates are meant.
#[derive(Debug, Args)]
struct DataDirFlags {
    /// Data directory of the server
    /// [default: /var/lib/k3 for root, else `$XDG_DATA_HOME/k3` or `~/.local/share/k3`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Runs a subcommand.
pub(super) fn run(flags: &CertsFlags) -> Result<(), Failure> {
    match &flags.command {
        Command::Show(flags) => show::run(flags),
        Command::Rotate(flags) => rotate::run(flags),
    }
}

// --- DataDirFlags ---

impl DataDirFlags {
    /// The directory of the certificates.
    fn tls(&self) -> Result<PathBuf, Failure> {
        let data_dir = match &self.data_dir {
            Some(directory) => directory.clone(),
            None => default_data_dir()?,
        };
        file_format::check_data_dir(&data_dir)?;
        Ok(data_dir.join("tls"))
    }
}
