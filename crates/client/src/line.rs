//! Command lines as kubectl takes them: flags of the connection may also stand before the command, as in
//! `k3 -n web get pods`.

use std::ffi::OsString;

use clap::{Args, Command, Subcommand};

use crate::{command::ClientCommand, connection::ConnectFlags};

/// The words with the flags that stand before a command of the client moved behind its name. Other lines stay as they are.
///
/// `program` is the whole command line; the first word is the program's name.
#[must_use]
pub fn in_order(program: &Command, words: Vec<OsString>) -> Vec<OsString> {
    let flags = ConnectFlags::augment_args(Command::new("connection"));
    let mut early = Vec::new();
    let mut names = Vec::new();
    let mut at = program;
    let mut next = 1;
    while at.has_subcommands() {
        let Some(word) = words.get(next).and_then(|word| word.to_str()) else {
            return words;
        };
        if let Some(count) = length(&flags, word) {
            early.extend(words.iter().skip(next).take(count).cloned());
            next += count;
        } else if let Some(inner) = at.find_subcommand(word) {
            names.push(words[next].clone());
            next += 1;
            at = inner;
        } else {
            return words;
        }
    }
    let is_ours = names
        .first()
        .and_then(|name| name.to_str())
        .is_some_and(ClientCommand::has_subcommand);
    if !is_ours || early.is_empty() {
        return words;
    }
    let mut ordered: Vec<OsString> = words.iter().take(1).cloned().collect();
    ordered.extend(names);
    ordered.extend(early);
    ordered.extend(words.into_iter().skip(next));
    ordered
}

/// How many words a flag takes, if the word is one of the flags.
fn length(flags: &Command, word: &str) -> Option<usize> {
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
    let wants_value = found.get_action().takes_values() && !has_value;
    Some(1 + usize::from(wants_value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(line: &str) -> String {
        let program = ClientCommand::augment_subcommands(Command::new("k3"));
        let program = program.subcommand(Command::new("start"));
        let words = in_order(&program, line.split(' ').map(OsString::from).collect());
        words.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn flags_may_stand_before_the_command() {
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
    fn other_lines_stay_as_they_are() {
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
