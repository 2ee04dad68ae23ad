//! Accepts connection flags before the command as kubectl does:
//! `k3 -n web get pods`.

use std::ffi::OsString;

use clap::{Args, Command, Subcommand};

use crate::{command::ClientCommand, connection::ConnectFlags};

/// Moves connection flags in front of a client command behind the command. Returns other command lines unchanged.
///
/// `program` is the clap command of the whole program; `arguments[0]` is the name of the program.
#[must_use]
pub fn move_connection_flags(program: &Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let flags = ConnectFlags::augment_args(Command::new("connection"));
    let mut early = Vec::new();
    let mut names = Vec::new();
    let mut command = program;
    let mut next = 1;
    while command.has_subcommands() {
        let Some(word) = arguments.get(next).and_then(|word| word.to_str()) else {
            return arguments;
        };
        if let Some(count) = flag_length(&flags, word) {
            early.extend(arguments.iter().skip(next).take(count).cloned());
            next += count;
        } else if let Some(inner) = command.find_subcommand(word) {
            names.push(arguments[next].clone());
            next += 1;
            command = inner;
        } else {
            return arguments;
        }
    }
    let is_client_command = names
        .first()
        .and_then(|name| name.to_str())
        .is_some_and(ClientCommand::has_subcommand);
    if !is_client_command || early.is_empty() {
        return arguments;
    }
    let mut ordered: Vec<OsString> = arguments.iter().take(1).cloned().collect();
    ordered.extend(names);
    ordered.extend(early);
    ordered.extend(arguments.into_iter().skip(next));
    ordered
}

/// Returns how many arguments a flag takes with its value, or `None` when `word` is not one of `flags`.
fn flag_length(flags: &Command, word: &str) -> Option<usize> {
    let found = if let Some(long) = word.strip_prefix("--") {
        let name = long.split_once('=').map_or(long, |(name, _)| name);
        flags.get_arguments().find(|arg| arg.get_long() == Some(name))
    } else {
        let letter = word.strip_prefix('-')?.chars().next()?;
        flags.get_arguments().find(|arg| arg.get_short() == Some(letter))
    }?;
    let has_value = if word.starts_with("--") {
        word.contains('=')
    } else {
        word.len() > 2
    };
    let needs_value = found.get_action().takes_values() && !has_value;
    Some(1 + usize::from(needs_value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(line: &str) -> String {
        let program = ClientCommand::augment_subcommands(Command::new("k3"));
        let program = program.subcommand(Command::new("start"));
        let arguments = move_connection_flags(&program, line.split(' ').map(OsString::from).collect());
        arguments.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn moves_flags_behind_the_command() {
        for (line, same) in [
            ("k3 -n web get pods -o name", "k3 get -n web pods -o name"),
            ("k3 -nweb --context=a get pods", "k3 get -nweb --context=a pods"),
            (
                "k3 --insecure-skip-tls-verify rollout -n web status deploy/a",
                "k3 rollout status --insecure-skip-tls-verify -n web deploy/a",
            ),
        ] {
            assert_eq!(ordered(line), same);
        }
    }

    #[test]
    fn keeps_other_command_lines() {
        for line in [
            "k3",
            "k3 --help",
            "k3 get pods -n web",
            "k3 -n web",
            "k3 -n",
            "k3 -n web start",
            "k3 -x get pods",
            "k3 exec web -- get -n a",
        ] {
            assert_eq!(ordered(line), line);
        }
    }
}
