//! `k3 config`: what is in force and who said so, and all that can be said.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand, ValueEnum};

use super::command;
use crate::{
    config::{self, CommandLineError, Environment, Settings},
    failure::Failure,
};

const EXAMPLES: &str = "\
Examples:
  k3 config example > .config.yaml
      a file with all keys, their meaning and their defaults, which `k3 start` in this directory then reads

  k3 config show --config cluster.yaml --secure-port 7443
      what is in force with this file, this flag and this environment, and where each value comes from

  k3 config check cluster.yaml
      whether a file is valid; if not, every error with line and key

Exit codes: 0 success, 1 failure, 2 a call or a file that makes no sense.";

/// Show and check the configuration.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct ConfigFlags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(ShowFlags),
    Check(CheckFlags),
    /// Print a file with all keys, their meaning and their defaults
    Example,
}

/// Print what is in force, and where each value comes from. Takes every flag of the commands that settings are for, as they
/// do; secrets are shown as ***.
#[derive(Debug, Args)]
struct ShowFlags {
    /// How it is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Output::Yaml)]
    output: Output,
}

/// Check whether `k3 run` would take a file. Files that it names are read too.
#[derive(Debug, Args)]
struct CheckFlags {
    /// The file
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A file of settings, with the origins as comments
    Yaml,
    /// A list for programs
    Json,
}

pub(super) fn run(flags: &ConfigFlags, settings: &Settings) -> Result<(), Failure> {
    match &flags.command {
        Command::Show(flags) => {
            let args = config::args(&command());
            match flags.output {
                Output::Yaml => print_line!("{}", settings.yaml(&args)),
                Output::Json => print_line!("{:#}", settings.json(&args)),
            }
        }
        Command::Check(flags) => check(&flags.file)?,
        Command::Example => print_text!("{}", config::example(&config::args(&command()))),
    }
    Ok(())
}

/// A file is valid if `k3 run` takes it with nothing else said.
fn check(file: &Path) -> Result<(), Failure> {
    let environment = Environment {
        variable: &|_| None,
        variable_names: &Vec::new,
        directory: Path::new(""),
    };
    let mut words: Vec<OsString> = ["k3", "run", "--config"].map(OsString::from).into();
    words.push(file.into());
    match config::read(&command(), words, &environment) {
        Ok(line) => {
            let validated = super::validate_run(&line.matches);
            validated.map_err(|failure| {
                let notes = line.settings.notes(&failure.to_string());
                failure.with_notes(&notes)
            })?;
            print_line!("{} is valid", file.display());
            Ok(())
        }
        Err(CommandLineError::Settings(failure)) => Err(failure),
        Err(CommandLineError::Usage(error, notes)) => {
            let text = error.to_string();
            let what = text.lines().next().unwrap_or_default();
            Err(Failure::usage(what.trim_start_matches("error: "), notes))
        }
    }
}
