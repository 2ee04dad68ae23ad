//! The command line: a folder or file a command.

mod certs;
mod controller;
mod controllers;
mod doctor;
mod log_level;
mod man;
mod migrate;
mod server_flags;
mod snapshot;
mod start;
mod stores;
mod table;
mod token;
mod version;

use clap::{CommandFactory, Parser, Subcommand};

use crate::failure::Failure;

/// A Kubernetes control plane in one process.
#[derive(Debug, Parser)]
#[command(
    name = "k3",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Start(Box<start::StartFlags>),
    Controller(controller::ControllerFlags),
    Controllers(controllers::ControllersFlags),
    Certs(certs::CertsFlags),
    Doctor(doctor::DoctorFlags),
    Snapshot(snapshot::SnapshotFlags),
    Migrate(migrate::MigrateFlags),
    LogLevel(log_level::LogLevelFlags),
    Token(token::TokenFlags),
    Version(version::VersionFlags),
    Man(man::ManFlags),
}

/// Carries out what the arguments of the process ask for. Arguments that make no sense end it with 2.
pub(crate) fn run() -> Result<(), Failure> {
    match Cli::parse().command {
        Command::Start(flags) => start::run(*flags),
        Command::Controller(flags) => controller::run(&flags),
        Command::Controllers(flags) => controllers::run(&flags),
        Command::Certs(flags) => certs::run(&flags),
        Command::Doctor(flags) => doctor::run(&flags),
        Command::Snapshot(flags) => snapshot::run(flags),
        Command::Migrate(flags) => migrate::run(&flags),
        Command::LogLevel(flags) => log_level::run(&flags),
        Command::Token(flags) => token::run(flags),
        Command::Version(flags) => version::run(&flags),
        Command::Man(flags) => man::run(&flags, Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }
}
