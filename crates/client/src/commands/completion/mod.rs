//! `k3 completion`: shell completion. The scripts call the hidden `k3 __complete`, which knows the commands and flags and
//! requests resource types and names from the server.

use std::io::Write;

use clap::{Args, ValueEnum};

use crate::{
    connection::ConnectFlags,
    error::ClientError,
    session::{ClientDefaults, CommandSession},
};

/// Output shell completion code for the given shell
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

/// The arguments of a command line; the last one is incomplete.
#[derive(Debug, Args)]
pub struct CompleteFlags {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// What completes the last argument.
#[derive(Debug, PartialEq, Eq)]
enum Completion {
    /// One of these candidates.
    Candidates(Vec<String>),
    /// A resource type, or `TYPE/NAME`.
    Kind,
    /// The name of an object of a resource type.
    Name(String),
    /// Left to the shell, which offers file names.
    ShellDefault,
}

/// Commands whose arguments are resource types and names.
const OBJECTS: [&str; 7] = ["get", "describe", "delete", "edit", "scale", "wait", "explain"];
/// Commands whose first argument is a pod.
const PODS: [&str; 2] = ["logs", "exec"];

// --- CompletionFlags ---

impl CompletionFlags {
    pub(crate) fn run(&self) -> Result<(), ClientError> {
        let script = match self.shell {
            Shell::Bash => include_str!("k3.bash"),
            Shell::Zsh => include_str!("k3.zsh"),
            Shell::Fish => include_str!("k3.fish"),
        };
        std::io::stdout().write_all(script.as_bytes())?;
        Ok(())
    }
}

// --- CompleteFlags ---

impl CompleteFlags {
    /// Prints the candidates, one per line. Errors print nothing: a message would garble the prompt.
    pub(crate) async fn run(&self, defaults: &ClientDefaults) -> Result<(), ClientError> {
        let (last, before) = match self.arguments.split_last() {
            Some((last, before)) => (last.as_str(), before),
            None => ("", &[][..]),
        };
        let candidates = match completion_of(&(defaults.program)(), before, last) {
            Completion::Candidates(candidates) => candidates,
            Completion::ShellDefault => return Ok(()),
            completion => {
                let flags = ConnectFlags {
                    namespace: value_of(before, &["-n", "--namespace"]),
                    context: value_of(before, &["--context"]),
                    kubeconfig: value_of(before, &["--kubeconfig"]).map(Into::into),
                    ..ConnectFlags::default()
                };
                let Ok(session) = flags.connect(defaults).await else {
                    return Ok(());
                };
                server_candidates(&session, &completion, last)
                    .await
                    .unwrap_or_default()
            }
        };
        let mut lines = String::new();
        for word in candidates.iter().filter(|word| word.starts_with(last)) {
            lines.push_str(word);
            lines.push('\n');
        }
        std::io::stdout().write_all(lines.as_bytes())?;
        Ok(())
    }
}

/// Returns the value of a flag in the command line.
fn value_of(arguments: &[String], names: &[&str]) -> Option<String> {
    let index = arguments.iter().position(|word| names.contains(&word.as_str()))?;
    arguments.get(index + 1).cloned()
}

/// Returns what completes the argument `last` after the arguments `before`.
fn completion_of(program: &clap::Command, before: &[String], last: &str) -> Completion {
    let mut command = program;
    let mut positionals = Vec::new();
    let mut arguments = before.iter();
    let mut name = "";
    while let Some(word) = arguments.next() {
        if word == "--" {
            return Completion::ShellDefault;
        }
        if word.starts_with('-') {
            if !word.contains('=') && takes_value(command, word) && arguments.next().is_none() {
                return flag_value_completion(command, word);
            }
        } else if let Some(inner) = command.find_subcommand(word) {
            command = inner;
            if name.is_empty() {
                name = command.get_name();
            }
        } else {
            positionals.push(word.clone());
        }
    }
    if last.starts_with('-') {
        let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
        let long = flags.filter_map(|flag| flag.get_long().map(|name| format!("--{name}")));
        return Completion::Candidates(long.collect());
    }
    if command.has_subcommands() {
        let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        return Completion::Candidates(visible.map(|inner| inner.get_name().to_owned()).collect());
    }
    let takes_resources = OBJECTS.contains(&name) || name == "rollout";
    match (positionals.as_slice(), last.split_once('/')) {
        _ if PODS.contains(&name) && positionals.is_empty() => Completion::Name("pods".to_owned()),
        (_, Some((kind, _))) if takes_resources => Completion::Name(kind.to_owned()),
        ([], None) if takes_resources => Completion::Kind,
        ([kind, ..], None) if takes_resources && !kind.contains('/') => Completion::Name(kind.clone()),
        ([], None) if name == "completion" => {
            Completion::Candidates(["bash", "zsh", "fish"].map(str::to_owned).to_vec())
        }
        _ => Completion::ShellDefault,
    }
}

fn find_flag<'a>(command: &'a clap::Command, word: &str) -> Option<&'a clap::Arg> {
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
    find_flag(command, word)
        .is_some_and(|flag| flag.get_action().takes_values() && !flag.is_require_equals_set())
}

fn flag_value_completion(command: &clap::Command, word: &str) -> Completion {
    let flag = find_flag(command, word);
    match flag.and_then(clap::Arg::get_long) {
        Some("namespace") => Completion::Name("namespaces".to_owned()),
        Some("output") => {
            let formats = ["json", "yaml", "wide", "name", "jsonpath=", "custom-columns="];
            Completion::Candidates(formats.map(str::to_owned).to_vec())
        }
        _ => {
            let values = flag.map(clap::Arg::get_possible_values).unwrap_or_default();
            if values.is_empty() {
                return Completion::ShellDefault;
            }
            Completion::Candidates(values.iter().map(|value| value.get_name().to_owned()).collect())
        }
    }
}

/// Requests resource types or object names from the server.
async fn server_candidates(
    session: &CommandSession,
    completion: &Completion,
    last: &str,
) -> Result<Vec<String>, ClientError> {
    let mut discovery = session.discovery.lock().await;
    let Completion::Name(kind) = completion else {
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

    fn complete(line: &str) -> Completion {
        let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let last = arguments.pop().unwrap();
        let mut program = Cli::command();
        program.build();
        completion_of(&program, &arguments, &last)
    }

    #[test]
    fn completes_commands_flags_types_and_names() {
        let Completion::Candidates(commands) = complete("") else {
            panic!()
        };
        assert!(commands.contains(&"rollout".to_owned()) && !commands.contains(&"__complete".to_owned()));
        let Completion::Candidates(subcommands) = complete("rollout ") else {
            panic!()
        };
        assert!(subcommands.contains(&"undo".to_owned()));
        let Completion::Candidates(flags) = complete("get --") else {
            panic!()
        };
        assert!(flags.contains(&"--all-namespaces".to_owned()));
        assert_eq!(complete("get "), Completion::Kind);
        assert_eq!(complete("get -A po"), Completion::Kind);
        assert_eq!(complete("get pods "), Completion::Name("pods".to_owned()));
        assert_eq!(
            complete("rollout status deploy/w"),
            Completion::Name("deploy".to_owned())
        );
        assert_eq!(complete("logs "), Completion::Name("pods".to_owned()));
        assert_eq!(
            complete("get pods -n "),
            Completion::Name("namespaces".to_owned())
        );
        assert_eq!(complete("apply -f "), Completion::ShellDefault);
        assert_eq!(complete("exec web -- "), Completion::ShellDefault);
        assert!(
            matches!(complete("get pods -o "), Completion::Candidates(formats) if formats.contains(&"yaml".to_owned()))
        );
    }
}
