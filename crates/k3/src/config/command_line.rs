//! Parses the command line, and adds settings of the environment and the file.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Command, error::ErrorKind};
use k3_config::{ConfigError, EffectiveConfig, Environment, KeyTable, flag_values};

use super::{
    clap_args::{documented, key_table, reads_config, with_config_args},
    conflicts, file,
};
use crate::command_error::CommandError;

/// The environment of a command.
pub(crate) struct CommandEnvironment<'a> {
    /// Reads an environment variable.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<OsString>,
    pub(crate) variable_names: &'a dyn Fn() -> Vec<String>,
    /// The working directory.
    pub(crate) directory: &'a Path,
}

/// A parsed command line.
#[derive(Debug)]
pub(crate) struct CommandLine {
    pub(crate) matches: ArgMatches,
    pub(crate) settings: EffectiveConfig,
}

/// Kubeconfigs from settings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerLocation {
    /// By `K3_KUBECONFIG` or `K3_DATA_DIR`.
    pub(crate) variable: Option<PathBuf>,
    /// By `kubeconfig` or `data_dir` in the file.
    pub(crate) file: Option<PathBuf>,
}

/// The admin's kubeconfig in a data directory.
const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";

/// Why a command line was rejected.
#[derive(Debug)]
pub(crate) enum CommandLineError {
    /// An error or help text of clap, and the sources of the flags that it mentions.
    Usage(Box<clap::Error>, String),
    /// An invalid setting.
    EffectiveConfig(CommandError),
}

/// Parses a command line, whose first argument is the program's name.
pub(crate) fn read(
    command: &Command,
    mut arguments: Vec<OsString>,
    environment: &CommandEnvironment<'_>,
) -> Result<CommandLine, CommandLineError> {
    let wrong = |error| CommandLineError::Usage(Box::new(error), String::new());
    let names = names(command, &arguments);
    if !reads_config(&names) {
        let matches = match command.clone().try_get_matches_from(&arguments) {
            Ok(matches) => matches,
            // `k3 help COMMAND` shows what `k3 COMMAND --help` does, environment variables included.
            Err(error) if is_help(error.kind()) => {
                let shown = documented(command.clone()).try_get_matches_from(&arguments);
                return Err(wrong(shown.err().unwrap_or(error)));
            }
            Err(error) => return Err(wrong(error)),
        };
        let settings = EffectiveConfig::default();
        return Ok(CommandLine { matches, settings });
    }
    let table = key_table(command);
    let whole = with_config_args(command.clone(), &table, &names);
    let (plain, first) = match whole.clone().try_get_matches_from(&arguments) {
        Ok(matches) => (Some(matches.clone()), matches),
        Err(error) if is_help(error.kind()) => {
            let shown = documented(command.clone()).try_get_matches_from(&arguments);
            return Err(wrong(shown.err().unwrap_or(error)));
        }
        // A missing argument may be in the file.
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let partly = whole.clone().ignore_errors(true).try_get_matches_from(&arguments);
            (None, partly.map_err(wrong)?)
        }
        Err(error) => return Err(wrong(error)),
    };
    let settings = settings(&table, leaf(&whole, &names), &names, &first, environment)
        .map_err(CommandLineError::EffectiveConfig)?;
    let added = arguments_of(&settings);
    if let Some(matches) = plain.filter(|_| added.is_empty()) {
        return Ok(CommandLine { matches, settings });
    }
    // After the names of the commands.
    let position = 1 + names.len();
    arguments.splice(position..position, added.into_iter().map(OsString::from));
    match whole.try_get_matches_from(arguments) {
        Ok(matches) => Ok(CommandLine { matches, settings }),
        Err(error) => {
            let notes = settings.notes(&error.to_string());
            Err(CommandLineError::Usage(Box::new(error), notes))
        }
    }
}

/// The kubeconfig from environment and configuration file, for client commands. The environment overrides the file.
pub(crate) fn read_server_location(
    command: &Command,
    environment: &CommandEnvironment<'_>,
) -> Result<ServerLocation, CommandError> {
    let table = key_table(command);
    let by_variable = |name: &str| {
        let mut variables = table.find(name).into_iter().flat_map(|key| key.variables());
        variables.find_map(|name| (environment.variable)(name).filter(|text| !text.is_empty()))
    };
    let mut location = ServerLocation {
        variable: match (by_variable("kubeconfig"), by_variable("data_dir")) {
            (Some(file), _) => Some(file.into()),
            (None, Some(directory)) => Some(PathBuf::from(directory).join(ADMIN_KUBECONFIG)),
            (None, None) => None,
        },
        file: None,
    };
    if let Some(file) = file::find(None, environment)? {
        let mut errors = Vec::new();
        let set = file.values(&table, &mut errors);
        if !errors.is_empty() {
            return Err(file::invalid_configuration(&ConfigError { errors }));
        }
        let value = |name: &str| {
            let found = set.iter().find(|set| set.name == name);
            found.map(|set| PathBuf::from(set.values.concat()))
        };
        location.file = value("kubeconfig").or_else(|| Some(value("data_dir")?.join(ADMIN_KUBECONFIG)));
    }
    Ok(location)
}

/// The names of the subcommands at the start of the arguments.
fn names(command: &Command, arguments: &[OsString]) -> Vec<String> {
    let mut at = command;
    let mut names = Vec::new();
    for word in arguments.iter().skip(1) {
        let Some(inner) = word.to_str().and_then(|word| at.find_subcommand(word)) else {
            break;
        };
        names.push(inner.get_name().to_owned());
        at = inner;
    }
    // A command that needs a subcommand only prints help.
    if at.has_subcommands() {
        names.clear();
    }
    names
}

fn leaf<'a>(command: &'a Command, names: &[String]) -> &'a Command {
    names.iter().fold(command, |at, name| {
        at.find_subcommand(name)
            .expect("the names were found in the command")
    })
}

fn is_help(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// All settings of the selected command, with their sources.
fn settings(
    table: &KeyTable,
    command: &Command,
    names: &[String],
    first: &ArgMatches,
    environment: &CommandEnvironment<'_>,
) -> Result<EffectiveConfig, CommandError> {
    let matches = names
        .iter()
        .fold(first, |at, name| at.subcommand_matches(name).unwrap_or(at));
    let named = matches.try_get_one::<PathBuf>("config").ok().flatten();
    let found = file::find(named, environment)?;
    let used = table.with_args(|id| command.get_arguments().find(|arg| arg.get_id() == id));
    let variables = Environment {
        variable: environment.variable,
        names: environment.variable_names,
    };
    let flags = flag_values(&used, matches);
    let read = EffectiveConfig::read(table, &used, found.as_ref(), variables, &flags);
    let mut settings = read
        .validated()
        .map_err(|invalid| file::invalid_configuration(&invalid))?;
    conflicts::resolve(&mut settings.configured, &used, command)?;
    Ok(settings)
}

/// Arguments for values that are not set by flags.
fn arguments_of(settings: &EffectiveConfig) -> Vec<String> {
    let unsaid = settings.configured.iter().filter(|value| !value.is_flag());
    unsaid
        .flat_map(k3_config::ConfiguredValue::to_arguments)
        .collect()
}
