//! The command line: a folder or file a command.

mod cluster;
mod controller;
mod controllers;
mod envtest;
mod start;
mod table;
mod test_env;
mod token;

use clap::{Parser, Subcommand};

pub(crate) use self::envtest::Part;
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
    Token(token::TokenFlags),
    TestEnv(test_env::TestEnvFlags),
    EnvtestAssets(envtest::AssetsFlags),
}

/// Carries out what the arguments of the process ask for. Arguments that make no sense end it with 2.
pub(crate) fn run() -> Result<(), Failure> {
    match Cli::parse().command {
        Command::Start(flags) => start::run(*flags),
        Command::Controller(flags) => controller::run(&flags),
        Command::Controllers(flags) => controllers::run(&flags),
        Command::Token(flags) => token::run(flags),
        Command::TestEnv(flags) => test_env::run(flags),
        Command::EnvtestAssets(flags) => envtest::run(&flags),
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
