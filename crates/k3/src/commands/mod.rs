//! The command line: a folder or file a command.

mod cluster;
mod controller;
mod controllers;
mod server_flags;
mod start;
mod table;
mod token;

use clap::{Parser, Subcommand};

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
    Cluster(cluster::ClusterFlags),
    Controller(controller::ControllerFlags),
    Controllers(controllers::ControllersFlags),
    Token(token::TokenFlags),
}

/// Carries out what the arguments of the process ask for. Arguments that make no sense end it with 2.
pub(crate) fn run() -> Result<(), Failure> {
    match Cli::parse().command {
        Command::Start(flags) => start::run(*flags),
        Command::Cluster(flags) => cluster::run(flags),
        Command::Controller(flags) => controller::run(&flags),
        Command::Controllers(flags) => controllers::run(&flags),
        Command::Token(flags) => token::run(flags),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }
}
