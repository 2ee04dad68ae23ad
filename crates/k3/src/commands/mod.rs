//! The command line: a folder or file a command.

mod apiserver;
mod controller;
mod controllers;
mod node;
mod process;
mod remote;
mod run;
mod scheduler;
mod server_flags;
mod start;
mod storage;
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
    Run(Box<run::RunFlags>),
    #[command(visible_alias = "web")]
    Apiserver(Box<apiserver::ApiserverFlags>),
    Controller(Box<controller::ControllerFlags>),
    Scheduler(Box<scheduler::SchedulerFlags>),
    Node(Box<node::NodeProcessFlags>),
    Storage(Box<storage::StorageProcessFlags>),
    Controllers(controllers::ControllersFlags),
    Token(token::TokenFlags),
}

/// Carries out what the arguments of the process ask for. Arguments that make no sense end it with 2.
pub(crate) fn run() -> Result<(), Failure> {
    match Cli::parse().command {
        Command::Start(flags) => start::run(*flags),
        Command::Run(flags) => run::run(*flags),
        Command::Apiserver(flags) => apiserver::run(*flags),
        Command::Controller(flags) => controller::run(&flags),
        Command::Scheduler(flags) => scheduler::run(&flags),
        Command::Node(flags) => node::run(*flags),
        Command::Storage(flags) => storage::run(&flags),
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
