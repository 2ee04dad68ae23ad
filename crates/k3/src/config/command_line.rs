//! Parses the command line, and adds settings of the environment and the file.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgMatches, Command, error::ErrorKind, parser::ValueSource};

use super::{
    clap_args::{args, documented, reads_config, with_config_args},
    configured_value::{ConfigSource, ConfiguredValue},
    conflicts, file,
    keys::{ConfigKey, KEYS},
    settings::EffectiveConfig,
    value, variables,
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
    let whole = with_config_args(command.clone(), &names);
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
    let settings = settings(command, leaf(&whole, &names), &names, &first, environment)
        .map_err(CommandLineError::EffectiveConfig)?;
    let added = settings.arguments(leaf(&whole, &names));
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
    let by_variable = |name: &str| {
        let key = ConfigKey::by_name(name).expect("the table has it");
        let mut variables = key.variables();
        variables.find_map(|name| (environment.variable)(&name).filter(|text| !text.is_empty()))
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
        let set = file::read(&file, &args(command))?;
        let value = |name: &str| {
            let found = set.iter().find(|set| set.key.name == name);
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
    all: &Command,
    command: &Command,
    names: &[String],
    first: &ArgMatches,
    environment: &CommandEnvironment<'_>,
) -> Result<EffectiveConfig, CommandError> {
    let matches = names
        .iter()
        .fold(first, |at, name| at.subcommand_matches(name).unwrap_or(at));
    let found = file::find(
        matches.try_get_one::<PathBuf>("config").ok().flatten(),
        environment,
    )?;
    let in_file = match &found {
        Some(file) => file::read(file, &args(all))?,
        None => Vec::new(),
    };
    let mut configured = Vec::new();
    let mut errors: Vec<String> = (environment.variable_names)()
        .iter()
        .filter_map(|name| variables::check_name(name))
        .collect();
    for key in KEYS.iter() {
        let Some(arg) = command.get_arguments().find(|arg| arg.get_id() == key.arg) else {
            continue;
        };
        if let Some(set) = by_flag(key, arg, matches) {
            configured.push(set);
        } else if let Some(set) = by_variable(key, arg, environment) {
            errors.extend(value::check_value(arg, &set).map(|why| format!("{set}: {why}")));
            configured.push(set);
        } else {
            configured.extend(in_file.iter().find(|set| set.key == key).cloned());
        }
    }
    if !errors.is_empty() {
        return Err(file::invalid_configuration(&errors));
    }
    conflicts::resolve(&mut configured, command)?;
    Ok(EffectiveConfig {
        file: found.map(|file| file.path),
        configured,
    })
}

fn by_flag(key: &'static ConfigKey, arg: &Arg, matches: &ArgMatches) -> Option<ConfiguredValue> {
    let is_on_line = matches!(matches.try_contains_id(key.arg), Ok(true))
        && matches.value_source(key.arg) == Some(ValueSource::CommandLine);
    if !is_on_line {
        return None;
    }
    let raw = matches.get_raw(key.arg).into_iter().flatten();
    Some(ConfiguredValue {
        key,
        flag: value::flag(arg),
        values: raw.map(|value| value.to_string_lossy().into_owned()).collect(),
        origin: ConfigSource::Flag,
    })
}

/// An empty variable is unset.
fn by_variable(
    key: &'static ConfigKey,
    arg: &Arg,
    environment: &CommandEnvironment<'_>,
) -> Option<ConfiguredValue> {
    key.variables().find_map(|name| {
        let text = (environment.variable)(&name).filter(|text| !text.is_empty())?;
        let text = text.to_string_lossy();
        let values = if value::is_list(arg) {
            text.split(',').map(|part| part.trim().to_owned()).collect()
        } else {
            vec![text.into_owned()]
        };
        Some(ConfiguredValue {
            key,
            flag: value::flag(arg),
            values,
            origin: ConfigSource::Variable(name),
        })
    })
}
