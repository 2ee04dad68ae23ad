//! `k3 completion`: what a shell offers when a word is begun. The scripts ask this program, which knows its commands and flags,
//! and asks the server for kinds and names.

use std::io::Write;

use clap::{Args, ValueEnum};

use crate::{
    connection::ConnectFlags,
    failed::Failed,
    session::{Session, Surroundings},
};

/// Print a script that makes a shell complete commands, flags, kinds and names
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  source <(k3 completion bash)\n  k3 completion zsh > \"${fpath[1]}/_k3\"\n  \
    k3 completion fish > ~/.config/fish/completions/k3.fish"
)]
pub struct CompletionFlags {
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The words of a line so far; the last one is being written.
#[derive(Debug, Args)]
pub struct WordsFlags {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// What may come next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// These words.
    Words(Vec<String>),
    /// A kind, or a pair of kind and name.
    Kind,
    /// The name of an object of a kind.
    Name(String),
    /// Whatever the shell thinks of: files.
    Anything,
}

/// Commands whose arguments are kinds and names.
const OBJECTS: [&str; 7] = ["get", "describe", "delete", "edit", "scale", "wait", "explain"];
/// Commands whose first argument is a pod.
const PODS: [&str; 2] = ["logs", "exec"];

// --- CompletionFlags ---

impl CompletionFlags {
    pub(crate) fn run(&self) -> Result<(), Failed> {
        let script = match self.shell {
            Shell::Bash => include_str!("k3.bash"),
            Shell::Zsh => include_str!("k3.zsh"),
            Shell::Fish => include_str!("k3.fish"),
        };
        std::io::stdout().write_all(script.as_bytes())?;
        Ok(())
    }
}

// --- WordsFlags ---

impl WordsFlags {
    /// Prints what may come next, a line each. What cannot be found out is not offered; nothing is ever a failure.
    pub(crate) async fn run(&self, surroundings: &Surroundings) -> Result<(), Failed> {
        let (last, before) = match self.words.split_last() {
            Some((last, before)) => (last.as_str(), before),
            None => ("", &[][..]),
        };
        let offered = match next(&(surroundings.program)(), before, last) {
            Next::Words(words) => words,
            Next::Anything => return Ok(()),
            asked => {
                let flags = ConnectFlags {
                    namespace: value_of(before, &["-n", "--namespace"]),
                    context: value_of(before, &["--context"]),
                    kubeconfig: value_of(before, &["--kubeconfig"]).map(Into::into),
                    ..ConnectFlags::default()
                };
                let Ok(session) = flags.connect(surroundings).await else {
                    return Ok(());
                };
                offer(&session, &asked, last).await.unwrap_or_default()
            }
        };
        let mut lines = String::new();
        for word in offered.iter().filter(|word| word.starts_with(last)) {
            lines.push_str(word);
            lines.push('\n');
        }
        std::io::stdout().write_all(lines.as_bytes())?;
        Ok(())
    }
}

/// The value of a flag among words.
fn value_of(words: &[String], names: &[&str]) -> Option<String> {
    let at = words.iter().position(|word| names.contains(&word.as_str()))?;
    words.get(at + 1).cloned()
}

/// What may come after words.
fn next(program: &clap::Command, before: &[String], last: &str) -> Next {
    let mut command = program;
    let mut given = Vec::new();
    let mut words = before.iter();
    let mut name = "";
    while let Some(word) = words.next() {
        if word == "--" {
            return Next::Anything;
        }
        if word.starts_with('-') {
            if !word.contains('=') && takes_value(command, word) && words.next().is_none() {
                return value(command, word);
            }
        } else if let Some(inner) = command.find_subcommand(word) {
            command = inner;
            if name.is_empty() {
                name = command.get_name();
            }
        } else {
            given.push(word.clone());
        }
    }
    if last.starts_with('-') {
        let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
        let long = flags.filter_map(|flag| flag.get_long().map(|name| format!("--{name}")));
        return Next::Words(long.collect());
    }
    if command.has_subcommands() {
        let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        return Next::Words(visible.map(|inner| inner.get_name().to_owned()).collect());
    }
    let is_about_objects = OBJECTS.contains(&name) || name == "rollout";
    match (given.as_slice(), last.split_once('/')) {
        _ if PODS.contains(&name) && given.is_empty() => Next::Name("pods".to_owned()),
        (_, Some((kind, _))) if is_about_objects => Next::Name(kind.to_owned()),
        ([], None) if is_about_objects => Next::Kind,
        ([kind, ..], None) if is_about_objects && !kind.contains('/') => Next::Name(kind.clone()),
        ([], None) if name == "completion" => {
            Next::Words(["bash", "zsh", "fish"].map(str::to_owned).to_vec())
        }
        _ => Next::Anything,
    }
}

fn find<'a>(command: &'a clap::Command, word: &str) -> Option<&'a clap::Arg> {
    command
        .get_arguments()
        .find(|flag| match word.strip_prefix("--") {
            Some(long) => flag.get_long() == Some(long),
            None => flag
                .get_short()
                .is_some_and(|short| word.len() == 2 && word.ends_with(short)),
        })
}

fn takes_value(command: &clap::Command, word: &str) -> bool {
    find(command, word).is_some_and(|flag| flag.get_action().takes_values() && !flag.is_require_equals_set())
}

/// What a flag may be given.
fn value(command: &clap::Command, word: &str) -> Next {
    let flag = find(command, word);
    match flag.and_then(clap::Arg::get_long) {
        Some("namespace") => Next::Name("namespaces".to_owned()),
        Some("output") => {
            let forms = ["json", "yaml", "wide", "name", "jsonpath=", "custom-columns="];
            Next::Words(forms.map(str::to_owned).to_vec())
        }
        _ => {
            let values = flag.map(clap::Arg::get_possible_values).unwrap_or_default();
            if values.is_empty() {
                return Next::Anything;
            }
            Next::Words(values.iter().map(|value| value.get_name().to_owned()).collect())
        }
    }
}

/// Asks the server.
async fn offer(session: &Session, asked: &Next, last: &str) -> Result<Vec<String>, Failed> {
    let mut discovery = session.discovery.lock().await;
    let Next::Name(kind) = asked else {
        let all = discovery.all(&session.api).await?;
        return Ok(all.iter().map(|resource| resource.plural.clone()).collect());
    };
    let resource = discovery.find_one(&session.api, kind).await?;
    let namespace = resource.is_namespaced.then_some(session.namespace.as_str());
    let list = session.api.get(&resource.collection(namespace)).await?;
    let prefix = last
        .split_once('/')
        .map_or(String::new(), |(kind, _)| format!("{kind}/"));
    let names = list["items"].as_array().into_iter().flatten();
    let names = names.filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(|name| format!("{prefix}{name}")).collect())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::ClientCommand;

    #[derive(Parser)]
    #[command(name = "k3")]
    struct Cli {
        #[command(subcommand)]
        _command: ClientCommand,
    }

    fn offered(line: &str) -> Next {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let last = words.pop().unwrap();
        let mut program = Cli::command();
        program.build();
        next(&program, &words, &last)
    }

    #[test]
    fn each_place_has_its_words() {
        let Next::Words(commands) = offered("") else {
            panic!()
        };
        assert!(commands.contains(&"rollout".to_owned()) && !commands.contains(&"__complete".to_owned()));
        let Next::Words(steps) = offered("rollout ") else {
            panic!()
        };
        assert!(steps.contains(&"undo".to_owned()));
        let Next::Words(flags) = offered("get --") else {
            panic!()
        };
        assert!(flags.contains(&"--all-namespaces".to_owned()));
        assert_eq!(offered("get "), Next::Kind);
        assert_eq!(offered("get -A po"), Next::Kind);
        assert_eq!(offered("get pods "), Next::Name("pods".to_owned()));
        assert_eq!(
            offered("rollout status deploy/w"),
            Next::Name("deploy".to_owned())
        );
        assert_eq!(offered("logs "), Next::Name("pods".to_owned()));
        assert_eq!(offered("get pods -n "), Next::Name("namespaces".to_owned()));
        assert_eq!(offered("apply -f "), Next::Anything);
        assert_eq!(offered("exec web -- "), Next::Anything);
        assert!(matches!(offered("get pods -o "), Next::Words(forms) if forms.contains(&"yaml".to_owned())));
    }
}
