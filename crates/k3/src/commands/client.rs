//! The kubectl-like commands, which are implemented in `k3-client`.

use k3_client::{ClientCommand, ClientDefaults};

use crate::{command_error::CommandError, config::ServerLocation, data_dir::default_data_dir};

/// Runs a client command. `program` is the whole command line.
pub(super) fn run(
    command: ClientCommand,
    location: ServerLocation,
    program: fn() -> clap::Command,
) -> Result<(), CommandError> {
    let defaults = ClientDefaults {
        preferred_kubeconfig: location.variable,
        configured_kubeconfig: location.file,
        // Without a home directory there is no default data directory.
        admin_kubeconfig: default_data_dir().unwrap_or_default().join("admin.kubeconfig"),
        program,
    };
    match command.run(&defaults) {
        Err(failed) if !failed.is_silent() => Err(CommandError::verbatim(failed.to_string(), failed.code())),
        _ => Ok(()),
    }
}
