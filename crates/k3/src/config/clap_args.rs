//! Additions to clap commands: `--config`, flags named after keys, environment variables.

use std::path::PathBuf;

use clap::{Arg, Command, value_parser};
use k3_config::KeyTable;

use super::keys::{KEYS, OTHER_VARIABLES, VARIABLES};

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

/// All keys, with their arguments.
pub(crate) fn key_table(command: &Command) -> KeyTable {
    let mut found = Vec::new();
    for name in CONFIGURED_COMMANDS {
        if let Some(reader) = command.find_subcommand(name) {
            collect(reader, &mut found);
        }
    }
    let keys = KEYS.iter().filter_map(|row| {
        let arg = found.iter().find(|arg| arg.get_id() == row.id)?;
        Some(row.with_arg(arg.clone()))
    });
    KeyTable::new(keys).with_variables(VARIABLES, OTHER_VARIABLES)
}

fn collect(command: &Command, found: &mut Vec<Arg>) {
    found.extend(command.get_arguments().cloned());
    for inner in command.get_subcommands() {
        collect(inner, found);
    }
}

/// Adds configuration arguments to the subcommand that `names` select.
pub(super) fn with_config_args(command: Command, table: &KeyTable, names: &[String]) -> Command {
    if names == SHOW {
        let [parent, leaf] = SHOW;
        return command.mut_subcommand(parent, |parent| {
            parent.mut_subcommand(leaf, |leaf| {
                let args = table.keys().iter().map(|key| key.arg().clone());
                with_config(leaf.args(args.map(|arg| arg.hide(true).required(false))))
            })
        });
    }
    match names.split_first() {
        Some((name, rest)) => command.mut_subcommand(name, |inner| with_config_args(inner, table, rest)),
        None => with_config(with_key_aliases(command, table)),
    }
}

/// The whole command line for help and manual pages, with environment variables.
pub(crate) fn documented(command: Command) -> Command {
    fn all(command: Command, table: &KeyTable) -> Command {
        if command.has_subcommands() {
            return command.mut_subcommands(|inner| all(inner, table));
        }
        let command = command.mut_args(|arg| match table.find_by_id(arg.get_id().as_str()) {
            Some(key) => key.document(arg),
            None => arg,
        });
        with_config(with_key_aliases(command, table))
    }
    let table = key_table(&command);
    command.mut_subcommands(|inner| {
        if CONFIGURED_COMMANDS.contains(&inner.get_name()) {
            all(inner, &table)
        } else {
            inner
        }
    })
}

/// Adds the name of the key as an alias, and an optional value to switches.
fn with_key_aliases(command: Command, table: &KeyTable) -> Command {
    command.mut_args(|arg| match table.find_by_id(arg.get_id().as_str()) {
        Some(key) => key.with_arg(arg).arg().clone(),
        None => arg,
    })
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
