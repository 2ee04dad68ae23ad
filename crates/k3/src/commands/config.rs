//! `k3 config`: the effective configuration with the source of each value, and all settings.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand, ValueEnum};
use k3_config::EffectiveConfig;

use super::command;
use crate::{
    command_error::CommandError,
    config::{self, CommandEnvironment, CommandLineError},
};

const EXAMPLES: &str = "\
Examples:
  k3 config example > .config.yaml
      a file with all keys, their descriptions and defaults, which `k3 start` in this directory then reads

  k3 config show --config cluster.yaml --secure-port 7443
      the effective configuration with this file, flag and environment, and the source of each value

  k3 config check cluster.yaml
      whether a file is valid; if not, all errors with line and key

Exit codes: 0 success, 1 failure, 2 usage error or invalid file.";

/// Show and check the configuration.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct ConfigFlags {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Show(ShowFlags),
    Check(CheckFlags),
    /// Print a configuration file with all keys, their descriptions and defaults
    Example,
}

/// Print the effective configuration and the source of each value. Takes every flag of the commands that read the
/// configuration; secrets are shown as ***.
#[derive(Debug, Args)]
struct ShowFlags {
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ConfigOutput::Yaml)]
    output: ConfigOutput,
}

/// Check whether a configuration file is valid for `k3 run`. Files that it names are read too.
#[derive(Debug, Args)]
struct CheckFlags {
    /// The file
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ConfigOutput {
    /// A configuration file, with the sources as comments
    Yaml,
    /// A JSON list
    Json,
}

pub(super) fn run(flags: &ConfigFlags, settings: &EffectiveConfig) -> Result<(), CommandError> {
    match &flags.command {
        ConfigCommand::Show(flags) => {
            let table = config::key_table(&command());
            match flags.output {
                ConfigOutput::Yaml => print_line!("{}", settings.yaml(&table)),
                ConfigOutput::Json => print_line!("{:#}", settings.json(&table)),
            }
        }
        ConfigCommand::Check(flags) => check(&flags.file)?,
        ConfigCommand::Example => print_text!("{}", config::example(&config::key_table(&command()))),
    }
    Ok(())
}

/// A file is valid if `k3 run` accepts it without other flags or variables.
fn check(file: &Path) -> Result<(), CommandError> {
    let environment = CommandEnvironment {
        variable: &|_| None,
        variable_names: &Vec::new,
        directory: Path::new(""),
    };
    let mut arguments: Vec<OsString> = ["k3", "run", "--config"].map(OsString::from).into();
    arguments.push(file.into());
    match config::read(&command(), arguments, &environment) {
        Ok(line) => {
            let validated = super::validate_run(&line.matches);
            validated.map_err(|failure| {
                let notes = line.settings.notes(&failure.to_string());
                failure.with_notes(&notes)
            })?;
            print_line!("{} is valid", file.display());
            Ok(())
        }
        Err(CommandLineError::EffectiveConfig(failure)) => Err(failure),
        Err(CommandLineError::Usage(error, notes)) => {
            let text = error.to_string();
            let what = text.lines().next().unwrap_or_default();
            Err(CommandError::usage(what.trim_start_matches("error: "), notes))
        }
    }
}
