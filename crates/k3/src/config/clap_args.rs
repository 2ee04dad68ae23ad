//! Additions to clap commands: `--config`, flags named after keys, environment variables.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};

use super::keys::{ConfigKey, KEYS};

/// Commands that read the configuration, with their subcommands.
const CONFIGURED_COMMANDS: &[&str] = &[
    "start",
    "run",
    "apiserver",
    "controller",
    "scheduler",
    "node",
    "storage",
    "controllers",
    "token",
    "snapshot",
    "migrate",
    "certs",
    "doctor",
    "log-level",
];

/// The command that accepts every flag of the others, and shows the effective configuration.
pub(super) const SHOW: [&str; 2] = ["config", "show"];

/// Whether a command reads the configuration.
pub(super) fn reads_config(names: &[String]) -> bool {
    names == SHOW
        || names
            .first()
            .is_some_and(|name| CONFIGURED_COMMANDS.contains(&name.as_str()))
}

/// The arguments of settings, in the order of the table.
pub(crate) fn args(command: &Command) -> Vec<(&'static ConfigKey, Arg)> {
    let mut found = Vec::new();
    for name in CONFIGURED_COMMANDS {
        if let Some(reader) = command.find_subcommand(name) {
            collect(reader, &mut found);
        }
    }
    let of = |key: &ConfigKey| found.iter().find(|arg| arg.get_id() == key.arg).cloned();
    KEYS.iter().filter_map(|key| Some((key, of(key)?))).collect()
}

fn collect(command: &Command, found: &mut Vec<Arg>) {
    for arg in command.get_arguments() {
        if let Some(key) = ConfigKey::for_arg(arg.get_id().as_str()) {
            found.push(with_key_alias(arg.clone(), key));
        }
    }
    for inner in command.get_subcommands() {
        collect(inner, found);
    }
}

/// Adds configuration arguments to the subcommand that `names` select.
pub(super) fn with_config_args(command: Command, names: &[String]) -> Command {
    if names == SHOW {
        let args = args(&command);
        let [parent, leaf] = SHOW;
        return command.mut_subcommand(parent, |parent| {
            parent.mut_subcommand(leaf, |leaf| {
                let args = args.into_iter().map(|(_, arg)| arg.hide(true).required(false));
                with_config(leaf.args(args))
            })
        });
    }
    descend(command, names)
}

fn descend(command: Command, names: &[String]) -> Command {
    match names.split_first() {
        Some((name, rest)) => command.mut_subcommand(name, |inner| descend(inner, rest)),
        None => with_config(with_key_aliases(command)),
    }
}

/// The whole command line for help and manual pages, with environment variables.
pub(crate) fn documented(command: Command) -> Command {
    fn all(command: Command) -> Command {
        if command.has_subcommands() {
            return command.mut_subcommands(all);
        }
        let command = command.mut_args(|arg| match ConfigKey::for_arg(arg.get_id().as_str()) {
            Some(key) => {
                let shown = key.variables().take(1);
                shown.fold(arg.hide_env_values(true), Arg::env)
            }
            None => arg,
        });
        with_config(with_key_aliases(command))
    }
    command.mut_subcommands(|inner| {
        if CONFIGURED_COMMANDS.contains(&inner.get_name()) {
            all(inner)
        } else {
            inner
        }
    })
}

fn with_key_aliases(command: Command) -> Command {
    command.mut_args(|arg| match ConfigKey::for_arg(arg.get_id().as_str()) {
        Some(key) => with_key_alias(arg, key),
        None => arg,
    })
}

/// Adds the name of the key as an alias, and an optional value to switches, so that a flag can override the file.
fn with_key_alias(mut arg: Arg, key: &ConfigKey) -> Arg {
    let flag = key.flag();
    let aliases = arg.get_all_aliases().unwrap_or_default();
    if arg.get_long() != Some(flag.as_str()) && !aliases.contains(&flag.as_str()) {
        arg = arg.alias(flag);
    }
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        arg = arg
            .action(ArgAction::Set)
            .value_parser(value_parser!(bool))
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true)
            .hide_possible_values(true);
    }
    arg
}

fn with_config(command: Command) -> Command {
    if command.get_arguments().any(|arg| arg.get_id() == "config") {
        return command;
    }
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help_heading(None::<&str>)
        .help(
            "File of settings; flags and variables go before it. `k3 config example` prints one \
             [default: $CONFIG_PATH, ./.config.yaml, ./configs/config-example.yaml, or none]",
        );
    command.arg(config)
}
