//! The command line: a directory or file per command.

mod apiserver;
mod certs;
mod client;
mod cluster;
mod config;
mod controller;
mod controllers;
mod doctor;
mod envtest;
mod log_level;
mod man;
mod migrate;
mod node;
mod process;
mod remote;
mod run;
mod scheduler;
mod secrets;
mod server_flags;
mod snapshot;
mod start;
mod storage;
mod stores;
mod table;
mod test_env;
mod token;
mod version;

use std::{env, path::Path};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use self::envtest::EnvtestProgram;
use crate::{
    command_error::CommandError,
    config::{CommandEnvironment, CommandLineError, documented, read, read_server_location},
};

/// A Kubernetes control plane in one process.
#[derive(Debug, Parser)]
#[command(name = "k3", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Config(config::ConfigFlags),
    Start(Box<start::StartFlags>),
    Run(Box<run::RunFlags>),
    #[command(visible_alias = "web")]
    Apiserver(Box<apiserver::ApiserverFlags>),
    Controller(Box<controller::ControllerFlags>),
    Scheduler(Box<scheduler::SchedulerFlags>),
    Node(Box<node::NodeProcessFlags>),
    Storage(Box<storage::StorageProcessFlags>),
    Controllers(controllers::ControllersFlags),
    Cluster(cluster::ClusterFlags),
    Certs(certs::CertsFlags),
    Doctor(doctor::DoctorFlags),
    Snapshot(snapshot::SnapshotFlags),
    Secrets(secrets::SecretsFlags),
    Migrate(migrate::MigrateFlags),
    LogLevel(log_level::LogLevelFlags),
    Token(token::TokenFlags),
    TestEnv(test_env::TestEnvFlags),
    EnvtestAssets(envtest::AssetsFlags),
    Version(version::VersionFlags),
    Man(man::ManFlags),
    #[command(flatten)]
    Client(Box<k3_client::ClientCommand>),
}

/// Runs the command in the arguments of the process. A usage error exits with 2.
pub(crate) fn run() -> Result<(), CommandError> {
    let environment = CommandEnvironment {
        variable: &|name| env::var_os(name),
        variable_names: &|| {
            env::vars_os()
                .filter_map(|(name, _)| name.into_string().ok())
                .collect()
        },
        directory: Path::new(""),
    };
    let arguments = k3_client::move_connection_flags(&command(), env::args_os().collect());
    let line = match read(&command(), arguments, &environment) {
        Ok(line) => line,
        Err(CommandLineError::EffectiveConfig(failure)) => return Err(failure),
        Err(CommandLineError::Usage(error, notes)) => refuse(&error, &notes),
    };
    let cli = Cli::from_arg_matches(&line.matches).unwrap_or_else(|error| refuse(&error, ""));
    let done = match cli.command {
        Command::Config(flags) => config::run(&flags, &line.settings),
        Command::Start(flags) => start::run(*flags),
        Command::Run(flags) => run::run(*flags),
        Command::Apiserver(flags) => apiserver::run(*flags),
        Command::Controller(flags) => controller::run(&flags),
        Command::Scheduler(flags) => scheduler::run(&flags),
        Command::Node(flags) => node::run(*flags),
        Command::Storage(flags) => storage::run(&flags),
        Command::Controllers(flags) => controllers::run(&flags),
        Command::Cluster(flags) => cluster::run(flags),
        Command::Certs(flags) => certs::run(&flags),
        Command::Doctor(flags) => doctor::run(&flags),
        Command::Snapshot(flags) => snapshot::run(flags),
        Command::Secrets(flags) => secrets::run(flags),
        Command::Migrate(flags) => migrate::run(&flags),
        Command::LogLevel(flags) => log_level::run(&flags),
        Command::Token(flags) => token::run(flags),
        Command::TestEnv(flags) => test_env::run(flags),
        Command::EnvtestAssets(flags) => envtest::run(&flags),
        Command::Version(flags) => version::run(&flags),
        Command::Man(flags) => man::run(&flags, documented(command())),
        Command::Client(client_command) => {
            let location = read_server_location(&command(), &environment)?;
            client::run(*client_command, location, || documented(self::command()))
        }
    };
    done.map_err(|failure| {
        let notes = line.settings.notes(&failure.to_string());
        failure.with_notes(&notes)
    })
}

/// Validates a command line of `k3 run` without starting anything.
fn validate_run(matches: &clap::ArgMatches) -> Result<(), CommandError> {
    match Cli::from_arg_matches(matches).map(|cli| cli.command) {
        Ok(Command::Run(flags)) => run::validate(*flags),
        Ok(_) => Ok(()),
        Err(error) => Err(CommandError::usage(error.to_string(), "")),
    }
}

/// Exits with help or a usage error.
fn refuse(error: &clap::Error, notes: &str) -> ! {
    // A closed terminal is not an error.
    let _ = error.print();
    if !notes.is_empty() {
        eprintln!("\n{notes}");
    }
    std::process::exit(error.exit_code())
}

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid() {
        command().debug_assert();
    }
}
